"""How well a run recognizes new, changed and contradicted facts: `python -m benchmarks.delta`.

Each scenario of benchmarks/data/delta is compared as a run does it, page by page, with the days of
facts and pages; new sentences are among what later ones are compared with.  The weights were
fitted on `open`, `kept` and `used`; `final` is the table; `--no-vectors` leaves MiniLM
out; `--model` puts what is not sure to the model that the environment names, as a run does.  Prints the confusion matrix, precision and recall, and how often a run repeats itself.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from beacon_site.providers.llm import adapters
from benchmarks import throwaway
from benchmarks.delta_scenarios import Scenario, scenarios

STATUSES = ("new", "confirmed", "changed", "contradicted", "repeat", "noise")
Answer = tuple[str, str, int, int]  # label, answer, the fact that is meant, the one that was found


def answers(scenario: Scenario, embed, ask=None) -> list[Answer]:
    """Judge the sentences of a scenario in their order; `ask` asks a model of what is not sure."""
    comparison = scenario.comparison(embed)
    verdicts = comparison.verdicts()
    if ask is not None:
        from research.services.runs.reporting import writing

        warn, about = (lambda words: print(words, file=sys.stderr)), scenario.topic
        said, _by = writing.opinions(comparison, verdicts, ask=ask, warn=warn, about=about)
        verdicts = [said.get(n, verdict) for n, verdict in enumerate(verdicts)]
    made = []
    for label, verdict in zip(scenario.labels, verdicts, strict=True):
        status = "repeat" if verdict.place >= len(scenario.known) else verdict.status
        made.append((label.status, status, label.of, verdict.place))
    return made


@contextmanager
def the_model() -> Iterator:
    """Yield what asks the model that the environment names; nothing is measured by it here."""
    with throwaway.database():
        from memory.services.llm import connections

        model = connections.language_model()
        if model is None:
            sys.exit("No model is set up: name one by BEACON_LLM_BASE_URL and BEACON_LLM_MODEL.")
        yield lambda messages, schema, most: model.ask(messages, schema=schema, max_tokens=most)


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
    """Read what is asked for, and judge it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=("open", "kept", "used", "final", "all"), default="open")
    parser.add_argument("--no-vectors", action="store_true", help="leave MiniLM out")
    parser.add_argument("--model", action="store_true", help="ask the model of what is not sure")
    wants = parser.parse_args()
    if wants.model:
        with the_model() as ask:
            judge_all(wants, ask)
    else:
        judge_all(wants)


def judge_all(wants: argparse.Namespace, ask=None) -> None:
    """Judge the scenarios that are asked for, and print the tables."""
    has_vectors = not wants.no_vectors and adapters.local_is_installed()
    embed = adapters.MiniLmEmbedder().embed if has_vectors else None
    every = scenarios(wants.half)
    began = time.process_time()
    found = [answer for scenario in every for answer in answers(scenario, embed, ask)]
    spent = time.process_time() - began
    vectors, model = "with" if embed else "without", ", with the model" if ask else ""
    print(f"{wants.half} half, {vectors} vectors{model}: {len(found)} sentences")
    show(found, len(every))
    print(f"{1000 * spent / len(every):.0f} ms of processor a scenario")


if __name__ == "__main__":
    main()
