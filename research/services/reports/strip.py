"""The strip of a topic's saved runs, and which of them are selected for reading.

Data flow: the runs with the counts of their changes -> columns with bars -> the selection: the runs in
the address, otherwise what the person hasn't read, otherwise everything since the last changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db.models import Case, Count, F, IntegerField, OuterRef, Q, Subquery, Value, When
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from memory.models import Topic, TopicFact, as_of
from research.models import DeltaItem, Run
from research.services.reports.since_read import run_range

Status = DeltaItem.Status
MAX_COLUMNS = 200  # runs in the strip, the latest
HEIGHT, BASE, COLUMN = 54, 47, 10  # of the drawing; what was confirmed is below the base line
MAX_BAR = 5  # of the height, for one change


@dataclass
class Column:
    """One run in the strip."""

    pk: int
    number: int
    at: datetime
    is_baseline: bool
    is_read: bool
    status: str
    new: int = 0
    changed: int = 0
    contradicted: int = 0
    gone: int = 0
    confirmed: int = 0
    x: int = 0
    is_selected: bool = False
    bars: list[tuple[str, str, str]] = field(default_factory=list)  # kind, y, height

    @property
    def changes(self) -> int:
        """Return how many changes its report lists."""
        return self.new + self.changed + self.contradicted + self.gone

    @cached_property
    def day(self) -> str:
        """Return its day: `12 May`, with the year if it isn't the current one."""
        at = timezone.localtime(self.at)
        return date_format(at, "j M" if at.year == timezone.localdate().year else "j M Y")

    @cached_property
    def counts(self) -> str:
        """Return what it found: `2 new, 1 changed, 8 confirmed`."""
        parts = (
            (self.contradicted, _("%(n)d disputed")),
            (self.changed, _("%(n)d changed")),
            (self.new, _("%(n)d new")),
            (self.gone, _("%(n)d gone")),
            (self.confirmed, _("%(n)d confirmed")),
        )
        said = ", ".join(words % {"n": n} for n, words in parts if n)
        return said or _("nothing new")

    @cached_property
    def label(self) -> str:
        """Return it as text: `Run #9, 2 Sep: 2 new, 1 changed`."""
        return _("Run #%(number)d, %(day)s: %(counts)s") % {
            "number": self.number,
            "day": self.day,
            "counts": self.counts,
        }


@dataclass(slots=True)
class Strip:
    """The topic's saved runs, oldest first, and which of them are selected."""

    columns: list[Column]
    earlier: int = 0  # runs that are too old for the strip
    is_chosen: bool = False  # the address says which runs

    @property
    def selected(self) -> list[Column]:
        return [column for column in self.columns if column.is_selected]

    @property
    def first(self) -> Column:
        return self.selected[0]

    @property
    def last(self) -> Column:
        return self.selected[-1]

    @property
    def is_one(self) -> bool:
        """Return True if a single run is selected."""
        return self.first is self.last

    @property
    def unread(self) -> list[Column]:
        """Return the unread runs after the last one read."""
        return _unread(self.columns)

    @property
    def last_read(self) -> Column | None:
        return next((one for one in reversed(self.columns) if one.is_read), None)

    @property
    def covers_unread(self) -> bool:
        """Whether everything unread is in the selection, so that reading it leaves nothing."""
        unread = self.unread
        return bool(unread) and unread[0].is_selected and unread[-1].is_selected

    @property
    def title(self) -> str:
        """Return what is selected: `Since you last read`, or the runs."""
        if self.covers_unread and not self.is_chosen:
            return _("Since you last read") if self.last_read else _("Unread")
        if not self.is_chosen:
            return _("Latest changes")
        return run_range(self.first.number, self.last.number)

    @property
    def runs(self) -> str:
        """Return the selected runs as text: `Runs #9 to #12`."""
        return run_range(self.first.number, self.last.number)

    @property
    def days(self) -> str:
        """Return the days of the selection: `9 Sep to 23 Nov`."""
        first, last = self.first.day, self.last.day
        if first == last:
            return last
        return _("%(first)s to %(last)s") % {"first": first, "last": last}

    @property
    def middle(self) -> Column | None:
        """Return the middle run if there is room for its label."""
        return self.columns[len(self.columns) // 2] if len(self.columns) > 4 else None

    @property
    def width(self) -> int:
        return COLUMN * len(self.columns)

    @property
    def edges(self) -> tuple[int, int]:
        """Return the index of the first selected column, and of the one after the last."""
        places = [place for place, one in enumerate(self.columns) if one.is_selected]
        return places[0], places[-1] + 1

    @property
    def selection(self) -> tuple[int, int]:
        """Return where the selection begins in the drawing, and how wide it is."""
        first, last = self.edges
        return COLUMN * first, COLUMN * (last - first)

    @property
    def before(self) -> Column | None:
        place = self.edges[0]
        return self.columns[place - 1] if place else None

    @property
    def compared(self) -> Column | None:
        """Return the run to compare the last selected one with."""
        return self.before or (None if self.is_one else self.first)

    @property
    def after(self) -> Column | None:
        place = self.edges[1]
        return self.columns[place] if place < len(self.columns) else None


def _unread(columns: Sequence[Column]) -> list[Column]:
    """Return the unread runs at the end: those after the last one read."""
    last = max((place for place, one in enumerate(columns) if one.is_read), default=-1)
    return list(columns[last + 1 :])


def _counted(status: str) -> Any:
    shown = Q(delta_items__status=status, delta_items__hidden_reason="")
    return Count("delta_items", filter=shown)


def strip_of(topic: Topic, first: int | None, last: int | None) -> Strip | None:
    """Return the strip with its selection, or None if no run was saved. One query.

    The selection is what the person hasn't read, otherwise everything since the last changes.
    `first` and `last` select runs by number instead. They can be in any order, and are ignored if
    no run is between them.
    """
    found = TopicFact.objects.filter(topic=OuterRef("topic"), first_run=OuterRef("number"))
    of_baseline = found.order_by().values("topic").annotate(n=Count("pk")).values("n")
    baseline = Case(
        When(is_baseline=True, then=Coalesce(Subquery(of_baseline), 0)),
        default=Value(0),
        output_field=IntegerField(),
    )
    rows = (
        Run.objects.kept()
        .filter(topic=topic, report__isnull=False)
        .exclude(number=None)
        .order_by("-number")
        .values(
            "pk",
            "number",
            "is_baseline",
            "status",
            at=F("report__created"),
            is_read=Q(report__read_at__isnull=False),
            new=_counted(Status.NEW) + baseline,
            changed=_counted(Status.CHANGED),
            contradicted=_counted(Status.CONTRADICTED),
            gone=_counted(Status.GONE),
            confirmed=_counted(Status.CONFIRMED),
        )
    )[: MAX_COLUMNS + 1]
    columns = [Column(**row) for row in rows]
    if as_of.current() is not None:
        # What is unread is so today. At an earlier date, the latest changes are selected.
        for column in columns:
            column.is_read = True
    if not columns:
        return None
    is_full = len(columns) > MAX_COLUMNS
    shown = columns[:MAX_COLUMNS][::-1]
    strip = Strip(shown, earlier=shown[0].number - 1 if is_full else 0)
    _select(strip, first, last)
    _draw(strip)
    return strip


def _select(strip: Strip, first: int | None, last: int | None) -> None:
    columns = strip.columns
    if first is not None or last is not None:
        low, high = sorted((first or last or 0, last or first or 0))
        chosen = [column for column in columns if low <= column.number <= high]
        strip.is_chosen = bool(chosen)
    else:
        chosen = []
    if not chosen:
        chosen = _unread(columns) or _since_changes(columns)
    for one in chosen:
        one.is_selected = True


def _since_changes(columns: Sequence[Column]) -> list[Column]:
    """Return the last run with changes and all later runs."""
    numbers = [place for place, one in enumerate(columns) if one.changes]
    return list(columns[numbers[-1] if numbers else -1 :])


def _draw(strip: Strip) -> None:
    most = max((column.changes for column in strip.columns), default=0)
    unit = min(MAX_BAR, (BASE - 3) / max(most, 1))
    confirmed = max((column.confirmed for column in strip.columns), default=0)
    for place, one in enumerate(strip.columns):
        one.x = COLUMN * place
        top = float(BASE)
        parts = (
            ("new", one.new),
            ("changed", one.changed + one.gone),
            ("contra", one.contradicted),
        )
        for kind, count in parts:
            if count:
                height = round(max(1.5, count * unit), 1)
                top = round(top - height, 1)
                one.bars.append((kind, f"{top:.1f}", f"{height - 0.5:.1f}"))
        if one.confirmed:
            height = 2 + (HEIGHT - BASE - 3) * one.confirmed / confirmed
            one.bars.append(("confirmed", str(BASE + 1), f"{height:.1f}"))
