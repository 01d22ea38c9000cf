"""How long a report's comparison takes on real documents: `python -m benchmarks.real.speed --mirror DIR`.

For each topic, it times what the step `write` does without a model: comparing each known document with its
last text, and selecting statements from new documents. The first version is timed as a first report, in which
all documents are new. Texts are read before the clock starts, as the step `read` does in a run.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.real import documents, engines


def main() -> int:
    """Print the seconds of first and later reports, and how they grow with the pages."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real.speed", description=__doc__)
    parser.add_argument("--mirror", type=Path, required=True, help="folder of OWNER+NAME/repo")
    parser.add_argument("--half", choices=(*documents.HALVES, "all"), default="all")
    chosen = parser.parse_args()
    first: list[tuple[int, float, str]] = []
    later: list[tuple[int, float, str]] = []
    for topic in documents.topics():
        if chosen.half not in (topic.half, "all"):
            continue
        versions = documents.versions(topic, chosen.mirror)
        nothing = documents.Version(versions[0].date, versions[0].commit, ())
        first.append(_timed(topic, [nothing, versions[0]]))
        later += [_timed(topic, versions[:n]) for n in range(2, len(versions) + 1)]
    print("| | reports | pages | median | p95 | longest | ten pages, on average |")
    print("|---|---|---|---|---|---|---|")
    for name, rows in (("first reports", first), ("later reports", later)):
        seconds = sorted(s for _pages, s, _name in rows)
        count = sum(pages for pages, _s, _name in rows)
        print(
            f"| {name} | {len(rows)} | {count} | {_at(seconds, 0.5)} | {_at(seconds, 0.95)} "
            f"| {seconds[-1]:.2f} s | {10 * sum(seconds) / count:.2f} s |"
        )
    for pages, seconds, name in sorted(first + later, key=lambda row: -row[1])[:5]:
        print(f"{seconds:.2f} s, {pages} pages: {name}", file=sys.stderr)
    return 0


def _timed(topic: documents.Topic, versions: list[documents.Version]) -> tuple[int, float, str]:
    engines.read(versions)
    started = time.perf_counter()
    engines.beacon(topic, versions)
    return len(versions[-1].documents), time.perf_counter() - started, topic.name


def _at(ordered: list[float], share: float) -> str:
    return f"{ordered[round(share * (len(ordered) - 1))]:.2f} s"


if __name__ == "__main__":
    sys.exit(main())
