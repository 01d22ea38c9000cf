"""The list of reports over all topics: unread first, with what changed in each, by keyset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Q

from memory.models import User
from memory.paging import Page, page_of
from memory.texts.text import shorten
from research.models import DeltaItem, Report
from research.models.reports import UNREAD_FIRST, ReportQuerySet
from research.runs.presenters import bare

PAGE_SIZE = 30


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the list's address asks for."""

    words: str = ""
    is_unread: bool = False

    @classmethod
    def of(cls, query: Any) -> Wanted:
        """Read it from an address's query; what cannot be is left out."""
        words = query.get("q", "").replace("\x00", "").strip()[:200]
        return cls(words, query.get("show") == "unread")


@dataclass(slots=True)
class ReportRow:
    """One report with the counts of its delta items by status, listed ones only."""

    report: Report
    counts: list[tuple[str, int]] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """Return the report's first words as plain text, without citation marks."""
        return shorten(bare(self.report.summary), 180)


def found(user: User, wanted: Wanted) -> ReportQuerySet:
    """Return the user's reports that `wanted` asks for, of topics outside the trash."""
    mine: ReportQuerySet = Report.objects.of(user).live()
    rows = mine.exclude(run__number=None).filter(run__topic__trashed_at=None)
    if wanted.is_unread:
        rows = rows.filter(read_at=None)
    for word in wanted.words.split():
        rows = rows.filter(
            Q(title__icontains=word) | Q(body__icontains=word) | Q(delta__icontains=word)
        )
    return rows


def page(user: User, wanted: Wanted, cursor: str = "") -> tuple[list[ReportRow], Page]:
    """Return a page of the list, unread first, then newest first; two queries."""
    rows = found(user, wanted).annotate(place=UNREAD_FIRST).select_related("run__topic")
    shown = page_of(
        rows.defer("body", "delta", "sources"),
        by="place",
        falling=True,
        cursor=cursor,
        size=PAGE_SIZE,
    )
    counts = _counts([report.run_id for report in shown.rows])
    return [ReportRow(report, counts[report.run_id]) for report in shown.rows], shown


def _counts(runs: Sequence[int]) -> dict[int, list[tuple[str, int]]]:
    """Return, for each run, how many delta items it lists by status, in the section's order."""
    items = DeltaItem.objects.filter(run__in=runs, withheld="", status__in=DeltaItem.LISTED)
    by_run: dict[int, dict[str, int]] = defaultdict(dict)
    for row in items.order_by().values("run", "status").annotate(n=Count("id")):
        by_run[row["run"]][row["status"]] = row["n"]
    status = DeltaItem.Status
    order = (status.CONTRADICTED, status.CHANGED, status.NEW, status.GONE)
    return defaultdict(
        list,
        {run: [(s.value, by[s]) for s in order if s in by] for run, by in by_run.items()},
    )
