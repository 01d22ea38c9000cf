"""How well real changes are reported: `python -m benchmarks.real --mirror DIR`.

Reads the documents in manifest.toml from a folder of fetched repositories, and gives each topic's dated
versions to an engine. Prints how many of the true changes are reported, and how many reported items are true.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.real import documents, engines
from benchmarks.real.scoring import Score, replay

COLUMNS = "| | true changes | reported | in place | on new pages | right status | late | items | words per item | true news | old | repeated | silent steps |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; end with 1 if a repository is missing."""
    chosen = _options(arguments)
    listed = [
        topic
        for topic in documents.topics()
        if chosen.half in (topic.half, "all") and chosen.topic in (topic.name, None)
    ]
    if not listed:
        print("No topic has this name in this half.", file=sys.stderr)
        return 1
    try:
        read = [(topic, documents.versions(topic, chosen.mirror)) for topic in listed]
    except documents.NotFetched as why:
        print(why, file=sys.stderr)
        return 1
    print(f"{len(listed)} topics, half: {chosen.half}\n\n{COLUMNS}\n{'|---' * 13}|")
    for name in chosen.engine or engines.USUAL:
        started, total = time.perf_counter(), Score()
        for topic, versions in read:
            score = replay(topic, versions, engines.named(name))
            if chosen.by_topic:
                print(row(f"{name}: {topic.name}", score))
            total.add(score)
        print(row(f"**{name}**", total))
        seconds = time.perf_counter() - started
        _details(name, total, seconds, shows_misses=chosen.misses)
    return 0


def row(name: str, score: Score) -> str:
    """One line of the table."""
    added, added_told = score.truths - score.in_place, score.told - score.in_place_told
    cells = [
        name,
        str(score.truths),
        _percent(score.share("told", "truths")),
        _percent(score.share("in_place_told", "in_place")),
        _percent(added_told / added if added else None),
        _percent(score.share("right_status", "told")),
        str(score.late),
        str(score.items),
        f"{score.words / score.items:.0f}" if score.items else "",
        _percent(score.share("true_items", "items")),
        _percent(score.share("old", "items")),
        str(score.repeats),
        f"{score.silent} of {score.steps}",
    ]
    return f"| {' | '.join(cells)} |"


def _details(name: str, score: Score, seconds: float, *, shows_misses: bool) -> None:
    # To standard error, so that the table on standard output stays whole.
    by_status = ", ".join(
        f"{status} {right} of {all_}" for status, (right, all_) in sorted(score.by_status.items())
    )
    per_step = 1000 * seconds / max(score.steps, 1)
    print(
        f"{name}: items right by status: {by_status}; {per_step:.0f} ms per step", file=sys.stderr
    )
    if score.gone:
        off = f"{score.gone_from_pages} of {score.gone}"
        print(f"{name}: quotes of gone items that no page contains: {off}", file=sys.stderr)
    if shows_misses:
        for heading, found in (("Not reported", score.missed), ("Reported, not news", score.noise)):
            print(f"\n{name}: {heading} ({len(found)})\n", file=sys.stderr)
            print("\n".join(f"- {line}" for line in found), file=sys.stderr)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real", description=__doc__)
    parser.add_argument("--mirror", type=Path, required=True, help="folder of OWNER+NAME/repo")
    parser.add_argument("--half", choices=(*documents.HALVES, "all"), default="practice")
    parser.add_argument("--topic", help="only this topic")
    parser.add_argument("--by-topic", action="store_true", help="one line per topic")
    parser.add_argument("--misses", action="store_true", help="list what isn't reported, and noise")
    parser.add_argument(
        "--engine", action="append", help="beacon, lines, blocks or MODULE:FUNCTION; repeatable"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
