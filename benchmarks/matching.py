"""How well `research.claims.matching` distinguishes confirmed, changed and new: `python -m benchmarks.matching`.

The pairs were written and labelled by hand for Beacon (tests/research/data/pairs.jsonl).  Each
earlier sentence is matched against all others of its kind, as a topic's facts are;
a match with another one than its own counts as wrong.  The matcher was made with all pairs in
view but the 24 of the kind "held-out", which were judged once, afterwards.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from research.claims.matching import match

PAIRS = Path(__file__).resolve().parents[1] / "tests" / "research" / "data" / "pairs.jsonl"
LABELS = ("confirmed", "changed", "new")


@dataclass(frozen=True, slots=True)
class Judged:
    """A pair with its label and what the matcher made of it."""

    previous: str
    new: str
    kind: str
    label: str
    answer: str


def judge() -> list[Judged]:
    """Match each pair by itself; "new" stands for no match."""
    pairs = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    judged = []
    for pair in pairs:
        found = match(pair["new"], [pair["previous"]])
        answer = found.kind if found else "new"
        judged.append(Judged(pair["previous"], pair["new"], pair["kind"], pair["label"], answer))
    return judged


def crowded() -> float:
    """Return the share of "changed" and "confirmed" pairs that are found among all sentences."""
    pairs = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    previous = list(dict.fromkeys(pair["previous"] for pair in pairs))
    right = wanted = 0
    for pair in pairs:
        if pair["label"] == "new":
            continue
        wanted += 1
        found = match(pair["new"], previous)
        right += found is not None and previous[found.index] == pair["previous"]
    return right / wanted


def measure(judged: list[Judged]) -> dict[str, tuple[float, float, int]]:
    """Return precision, recall and number of pairs of each label."""
    counts = Counter((one.label, one.answer) for one in judged)
    table = {}
    for label in LABELS:
        right = counts[label, label]
        said = sum(counts[other, label] for other in LABELS)
        meant = sum(counts[label, other] for other in LABELS)
        table[label] = (right / max(said, 1), right / max(meant, 1), meant)
    return table


def main() -> None:
    """Print the table and every pair that was judged otherwise."""
    judged = judge()
    print(f"{'label':<12}{'precision':>10}{'recall':>8}{'pairs':>7}")
    for label, (precision, recall, pairs) in measure(judged).items():
        print(f"{label:<12}{precision:>10.2f}{recall:>8.2f}{pairs:>7}")
    for kind in dict.fromkeys(one.kind for one in judged):
        answers = [one.label == one.answer for one in judged if one.kind == kind]
        print(f"{kind:<12}{sum(answers)} of {len(answers)} right")
    print(f"own earlier sentence found among all: {crowded():.2f}")
    for one in judged:
        if one.label != one.answer:
            print(
                f"\nmeant {one.label}, said {one.answer}\n  before: {one.previous}\n  now:    {one.new}"
            )


if __name__ == "__main__":
    main()
