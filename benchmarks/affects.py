"""How often "Affects you" is right: `python -m benchmarks.affects`.

The pairs of a change and a remembered line were written by hand for Beacon
(tests/research/data/affects.jsonl). Half of them are traps: the same words with another meaning,
another version, person or company, or another matter. The rules were made with the 40 pairs of the
part "tuned" in view. The 20 of the part "held-out" were judged afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from research.claims.affects import affects

PAIRS = Path(__file__).resolve().parents[1] / "tests" / "research" / "data" / "affects.jsonl"


@dataclass(frozen=True, slots=True)
class Judged:
    """A pair with its label, and whether Beacon would say it."""

    change: str
    line: str
    part: str
    label: bool
    said: bool


def judge() -> list[Judged]:
    """Judge each pair by itself."""
    pairs = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    return [
        Judged(
            one["change"],
            one["line"],
            one["part"],
            one["label"],
            affects(one["change"], one["line"], one["before"]) > 0,
        )
        for one in pairs
    ]


def measure(judged: Iterable[Judged]) -> tuple[int, int, int]:
    """Return how many were said rightly, said wrongly, and missed."""
    rows = list(judged)
    right = sum(one.label and one.said for one in rows)
    wrong = sum(one.said and not one.label for one in rows)
    missed = sum(one.label and not one.said for one in rows)
    return right, wrong, missed


def main() -> None:
    """Print the table, and the pairs that went wrong."""
    judged = judge()
    print(f"{'pairs':<10} {'said':>5} {'false':>6} {'missed':>7} {'false alarms':>13} {'found':>6}")
    for part in ("tuned", "held-out", "all"):
        right, wrong, missed = measure(one for one in judged if part in ("all", one.part))
        said = right + wrong
        print(
            f"{part:<10} {said:>5} {wrong:>6} {missed:>7} {wrong / max(1, said):>12.0%} "
            f"{right / max(1, right + missed):>6.0%}"
        )
    for one in judged:
        if one.label != one.said:
            print(f"{'missed' if one.label else 'false'} ({one.part}): {one.change} | {one.line}")


if __name__ == "__main__":
    main()
