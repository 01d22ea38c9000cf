"""What a soak saw, and how it is printed: benchmarks/soak.py."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

GROWTH = 1.10  # the most that a kind of process may weigh against its first tenth
TABLES = 6  # the largest ones are printed


@dataclass
class Book:
    """What was seen: rows of memory by tenth and kind, accepted edits, and what went wrong."""

    tenth: int = 0
    weights: defaultdict[int, defaultdict[str, list[float]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    note: str = ""
    accepted: list[tuple[int, str]] = field(default_factory=list)
    refused: int = 0
    wrong: Counter[str] = field(default_factory=Counter)

    def of(self, tenth: int) -> dict[str, float]:
        """Return each kind's median MB over a tenth."""
        return {kind: statistics.median(some) for kind, some in self.weights[tenth].items()}


def heading() -> None:
    """Print what the rows hold."""
    print(f"{'runs':>6}{'s':>7}  MB (median of the heaviest of each kind), largest tables in MB")


def row(ended: int, seconds: float, book: Book) -> None:
    """Print how long so many runs took, and what everything weighs now."""
    weights = "  ".join(f"{kind} {mb:.0f}" for kind, mb in book.of(book.tenth).items())
    tables = "  ".join(f"{name} {mb:.1f}" for name, mb in _largest_tables())
    print(f"{ended:>6}{seconds:>7.0f}  {weights}\n{'':15}{tables}", flush=True)


def _largest_tables() -> list[tuple[str, float]]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, pg_total_relation_size(oid) / 1e6 FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 2 DESC LIMIT %s",
            [TABLES],
        )
        return [(row[0], float(row[1])) for row in cursor.fetchall()]


def told(owner: Any, book: Book, gone: list[str]) -> int:
    """Print what came of it; return the exit code."""
    from research.models import Run

    runs = Run.objects.filter(topic__owner=owner)
    by_status = Counter(runs.values_list("status", flat=True))
    print("runs:", ", ".join(f"{count_:,} {status}" for status, count_ in by_status.items()))
    warned = Counter(
        str(warning)[:100] for some in runs.values_list("warnings", flat=True) for warning in some
    )
    for warning, times in warned.most_common(5):
        print(f"  warned {times} times: {warning}")
    bad = {
        "runs that did not succeed": len(runs.exclude(status__in=("succeeded", "partial"))),
        "topics whose numbers have gaps": _with_gaps(runs),
        "updates lost": _lost(book),
        "processes that ended": len(gone),
        "pages and edits that failed": sum(book.wrong.values()),
    }
    print(f"edits: {len(book.accepted)} accepted, {book.refused} refused as someone was first")
    for name, number in bad.items():
        print(f"{name}: {number}")
    for wrong, times in book.wrong.most_common(5):
        print(f"  {times} times {wrong}")
    return int(any(bad.values()) | _grown(book))


def _with_gaps(runs: Any) -> int:
    numbers: defaultdict[int, list[int]] = defaultdict(list)
    for topic, number in runs.exclude(number=None).values_list("topic_id", "number"):
        numbers[topic].append(number)
    return sum(sorted(some) != list(range(1, len(some) + 1)) for some in numbers.values())


def _lost(book: Book) -> int:
    """Return how many accepted edits are not in the note's history under their version."""
    from memory.models import Revision

    stored = {
        version: after.get("content", "")
        for version, after in Revision.objects.filter(record_id=book.note or None).values_list(
            "version", "after"
        )
    }
    return sum(f" {mark}." not in stored.get(version, "") for version, mark in book.accepted)


def _grown(book: Book) -> bool:
    """Print each kind's memory after the first and the last tenth; return whether one grew."""
    first, last = book.of(0), book.of(9)
    has_grown = False
    for kind, before in first.items():
        after = last.get(kind, 0.0)
        is_too_much = kind not in ("Postgres", "connections") and after > before * GROWTH
        has_grown |= is_too_much
        said = "  TOO MUCH" if is_too_much else ""
        print(f"{kind:24}{before:9.1f}{after:9.1f}{(after / before - 1) * 100:+8.1f} %{said}")
    return has_grown
