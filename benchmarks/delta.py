"""How well a run tells what is new, changed, contradicted: `python -m benchmarks.delta`.

Each scenario of benchmarks/data/delta is compared as a run does it, page by page, with the days of
facts and pages; new sentences stand among what later ones are compared with.  `--half open` is
what the weights were fitted on, `kept` was read by the second fit; `final` is the table; `--no-vectors` leaves MiniLM
out.  Prints the confusion matrix, precision and recall, and how often a run repeats itself.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence

from beacon_site.providers import minilm_embedder
from benchmarks.delta_scenarios import Scenario, scenarios

STATUSES = ("new", "confirmed", "changed", "contradicted", "repeat", "noise")
Answer = tuple[str, str, int, int]  # label, answer, the fact that is meant, the one that was found


def answers(scenario: Scenario, embed) -> list[Answer]:
    """Judge the sentences of a scenario in their order."""
    comparison = scenario.comparison(embed)
    news: list[int] = []
    made = []
    for number, label in enumerate(scenario.labels):
        verdict = comparison.judge(number, news)
        status = "repeat" if verdict.place >= len(scenario.known) else verdict.status
        if status == "new":
            news.append(number)
        made.append((label.status, status, label.of, verdict.place))
    return made


def show(every: Sequence[Answer], runs: int) -> None:
    """Print the matrix (labels down, answers across) and what follows from it."""
    counts = Counter((label, answer) for label, answer, _of, _place in every)
    print(f"{'label':<14}" + "".join(f"{status[:9]:>10}" for status in STATUSES))
    for label in STATUSES:
        row = "".join(f"{counts[label, answer]:>10}" for answer in STATUSES)
        print(f"{label:<14}{row}")
    print(f"\n{'status':<14}{'precision':>10}{'recall':>8}")
    for status in STATUSES:
        right = counts[status, status]
        said = sum(counts[label, status] for label in STATUSES)
        meant = sum(counts[status, answer] for answer in STATUSES)
        print(f"{status:<14}{right / max(said, 1):>10.2f}{right / max(meant, 1):>8.2f}")
    linked = [(of, place) for _l, answer, of, place in every if of >= 0 and place >= 0]
    right_fact = sum(of == place for of, place in linked) / max(len(linked), 1)
    print(f"the right fact among those linked: {right_fact:.2f}")
    known = sum(counts[label, "new"] for label in ("repeat", "confirmed"))
    told = sum(counts[label, "new"] for label in STATUSES)
    print(f"told as new though a repetition: {counts['repeat', 'new'] / runs:.2f} a run")
    print(
        f"told as new though repeated or known: {known / runs:.2f} a run, {known / max(told, 1):.3f} of new"
    )


def main() -> None:
    """Judge one half, or all, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=("open", "kept", "final", "all"), default="open")
    parser.add_argument("--no-vectors", action="store_true", help="leave MiniLM out")
    wants = parser.parse_args()
    has_vectors = not wants.no_vectors and minilm_embedder.is_installed()
    embed = minilm_embedder.MiniLmEmbedder().embed if has_vectors else None
    every = scenarios(wants.half)
    began = time.process_time()
    found = [answer for scenario in every for answer in answers(scenario, embed)]
    spent = time.process_time() - began
    print(f"{wants.half} half, {'with' if embed else 'without'} vectors: {len(found)} sentences")
    show(found, len(every))
    print(f"{1000 * spent / len(every):.0f} ms of processor a scenario")


if __name__ == "__main__":
    main()
