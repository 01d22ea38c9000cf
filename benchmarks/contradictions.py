"""How well `beacon_site.text.contradictions` finds contradictions: `python -m benchmarks.contradictions`.

The pairs were written and labelled by hand for Beacon (tests/memory/data/contradictions.tsv). Half of
them are traps: another subject, a narrower statement, the past, a plan, an event, the same value. The
code was written with the half `tune` in view, and `held` was written before the code.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from beacon_site.text.contradictions import differences

PAIRS = Path(__file__).resolve().parents[1] / "tests" / "memory" / "data" / "contradictions.tsv"


@dataclass(frozen=True, slots=True)
class Judged:
    """A labelled pair, and whether it was found to be a contradiction."""

    half: str
    label: str
    kind: str
    known: str
    new: str
    is_found: bool

    @property
    def is_meant(self) -> bool:
        return self.label == "yes"


def judge(half: str = "") -> list[Judged]:
    """Compare each pair of this half, or of both, in both orders."""
    with PAIRS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [
        Judged(
            **row,
            is_found=any((*differences(row["known"], row["new"]), *differences(row["new"], row["known"]))),
        )
        for row in rows
        if not half or row["half"] == half
    ]  # fmt: skip


def figures(judged: list[Judged]) -> tuple[float, float]:
    """Return precision and recall."""
    right = sum(one.is_meant and one.is_found for one in judged)
    said = sum(one.is_found for one in judged)
    meant = sum(one.is_meant for one in judged)
    return right / max(said, 1), right / max(meant, 1)


def main() -> None:
    """Print a line for each half, and every pair that was judged otherwise."""
    print(f"{'half':<8}{'pairs':>7}{'precision':>11}{'recall':>8}")
    for half in ("tune", "held"):
        judged = judge(half)
        precision, recall = figures(judged)
        print(f"{half:<8}{len(judged):>7}{precision:>11.2f}{recall:>8.2f}")
    for one in judge():
        if one.is_meant != one.is_found:
            said = "a false alarm" if one.is_found else "missed"
            print(f"\n{said} ({one.half}, {one.kind})\n  known: {one.known}\n  new:   {one.new}")


if __name__ == "__main__":
    main()
