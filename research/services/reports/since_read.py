"""Changes in a topic since its owner last read a report of it.

Data flow: reports with their read marks -> a `Window` per topic (the last report read, and those
after it) -> the delta items of the runs between, merged into one delta
(`research.services.runs.reporting.merged_deltas`). For any number of topics, this takes two queries, or four with
everything a page shows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db.models import F, Max, OuterRef, Q, Subquery
from django.db.models import Window as RowWindow
from django.db.models.functions import JSONObject
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.models import TopicFact
from research.models import DeltaItem, Report, Run
from research.services.runs.reporting.merged_deltas import Merged, merge

# field names in the order of ReadRun
_RUN = ("run_id", "run__number", "created", "run__is_baseline")
# The fields a list needs. A page of topics can have thousands of items.
_IN_A_LIST = (
    "run_id",
    "position",
    "status",
    "sentence",
    "previous_text",
    "previous_fact_id",
    "withheld",
)
_Status = DeltaItem.Status
_COUNTED = (_Status.NEW, _Status.CHANGED, _Status.CONTRADICTED, _Status.GONE)
MOST_RUNS = 60  # per topic; older deltas remain in their reports


# The fact that a run created from an item's sentence, unless its text was edited since.
_FACT = TopicFact.objects.live().filter(
    topic=OuterRef("run__topic"), first_run=OuterRef("run__number"), text=OuterRef("sentence")
)


@dataclass(frozen=True, slots=True)
class ReadRun:
    """A saved run, with what is needed to tell what was read."""

    pk: int
    number: int
    at: datetime
    is_baseline: bool = False
    sources: Sequence[dict[str, Any]] = ()  # its report's sources, only for the topic's page

    @property
    def day(self) -> str:
        """Return its day: `12 May`, with the year if it isn't the current one."""
        at = timezone.localtime(self.at)
        return date_format(at, "j F" if at.year == timezone.localdate().year else "j F Y")


@dataclass(slots=True)
class Window:
    """The unread reports of a topic: those after the last one read, and how many older ones."""

    last: ReadRun | None = None
    runs: list[ReadRun] = field(default_factory=list)
    older: int = 0
    newest: ReadRun | None = None  # of all unread reports, including older ones
    read_at: datetime | None = None  # when the last report was read

    @property
    def first(self) -> ReadRun | None:
        """Return the first unread run."""
        return self.runs[0] if self.runs else None

    @property
    def latest(self) -> ReadRun | None:
        """Return the latest unread run."""
        return self.runs[-1] if self.runs else None

    @property
    def is_several(self) -> bool:
        """Whether more than one unread report has changes."""
        return sum(not run.is_baseline for run in self.runs) > 1

    @property
    def merged(self) -> list[ReadRun]:
        """Return the runs whose deltas are merged, at most the latest MOST_RUNS."""
        return self.runs[-MOST_RUNS:]

    @property
    def since(self) -> str:
        """Return the last read run as text: `Run #3, 12 May`. Empty if none was read."""
        if self.last is None:
            return ""
        return _("Run #%(number)d, %(day)s") % {"number": self.last.number, "day": self.last.day}

    @property
    def runs_in_words(self) -> str:
        """Return the unread runs as text: `Run #4` or `Runs #4 to #8`."""
        if self.first is None or self.latest is None:
            return ""
        return runs_in_words(self.first.number, self.latest.number)


@dataclass(slots=True)
class UnreadNews:
    """The unread news of one topic: the window, and its merged deltas."""

    window: Window = field(default_factory=Window)
    changes: list[Merged] = field(default_factory=list)
    withheld: int = 0
    # by run, including all items
    items: Mapping[int, Sequence[DeltaItem]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of listed changes by status."""
        return dict(Counter(str(one.status) for one in self.changes if one.is_listed))

    @property
    def words(self) -> str:
        """Return the counts as a sentence: `3 new facts since you last read, 2 changed`."""
        return counts_in_words(self.counts, was_read=self.window.last is not None)


def runs_in_words(first: int, last: int) -> str:
    """Return a range of runs as text: `Run #4` or `Runs #4 to #8`."""
    if first == last:
        return _("Run #%(last)d") % {"last": last}
    return _("Runs #%(first)d to #%(last)d") % {"first": first, "last": last}


def counts_in_words(counts: Mapping[str, int], *, was_read: bool) -> str:
    """Return the counts of changes as a sentence: `3 new facts since you last read`."""
    new, changed, against, gone = (counts.get(str(status), 0) for status in _COUNTED)
    parts = []
    if new:
        parts.append(ngettext("%(n)d new fact", "%(n)d new facts", new) % {"n": new})
    if changed:
        parts.append(_("%(n)d changed") % {"n": changed})
    if against:
        parts.append(_("%(n)d contradicted") % {"n": against})
    if gone:
        parts.append(_("%(n)d gone") % {"n": gone})
    if parts and was_read:
        parts[0] = _("%(counts)s since you last read") % {"counts": parts[0]}
    return ", ".join(parts)


def windows_of(topic_ids: Iterable[Any]) -> dict[Any, Window]:
    """Return the unread window of each topic with reports, in one query."""
    was_read = Max("run__number", filter=Q(read_at__isnull=False))
    rows = (
        Report.objects.live()
        .filter(run__topic__in=list(topic_ids))
        .exclude(run__number=None)
        # One pass over all reports of the topic, because a subquery per report would count them
        # again.
        .annotate(
            last_read=RowWindow(was_read, partition_by=F("run__topic")),
            last_at=RowWindow(Max("read_at"), partition_by=F("run__topic")),
        )
        .filter(Q(read_at=None) | Q(run__number=F("last_read")))
        .order_by("run__topic", "run__number")
        .values_list("run__topic", "last_read", "last_at", *_RUN)
    )
    found: dict[Any, Window] = defaultdict(Window)
    for topic_id, last_read, last_at, *told in rows:
        window, run = found[topic_id], ReadRun(*told)
        window.read_at = last_at
        if last_read is None or run.number > last_read:
            window.runs.append(run)
        elif run.number == last_read:
            window.last = run
            continue
        else:
            window.older += 1
        if window.newest is None or run.at >= window.newest.at:
            window.newest = run
    return dict(found)


def news_of(topic_ids: Iterable[Any], *, in_full: bool = False) -> dict[Any, UnreadNews]:
    """Return the unread news of each topic, in two queries, or four if `in_full`.

    `in_full` is for a page of one topic. It adds the reports' sources, facts that went quiet (lists
    leave them out), and each shown item's current `fact` as `{id, state}`.
    """
    windows = windows_of(topic_ids)
    runs = [run.pk for window in windows.values() for run in window.merged]
    if in_full:
        _add_sources(windows.values(), runs)
    told = _items_of(runs, in_full=in_full)
    found = {}
    for topic_id, window in windows.items():
        by_run = {run.pk: told[run.pk] for run in window.merged if run.pk in told}
        items = [item for of_run in by_run.values() for item in of_run]
        shown = [item for item in items if not item.withheld]
        found[topic_id] = UnreadNews(window, merge(shown), len(items) - len(shown), by_run)
    if in_full:
        add_facts([one.shown for news in found.values() for one in news.changes])
    return found


def _add_sources(windows: Iterable[Window], runs: Sequence[int]) -> None:
    """Add the report's sources to each run whose delta is shown."""
    sources = dict(Report.objects.filter(run__in=runs).values_list("run_id", "sources"))
    for window in windows:
        window.runs = [replace(run, sources=sources.get(run.pk, ())) for run in window.runs]


def add_facts(items: Sequence[DeltaItem]) -> None:
    """Add the current `fact` to each item, or None if its text was edited."""
    fact = Subquery(_FACT.values(told=JSONObject(id="id", state="state"))[:1])
    rows = DeltaItem.objects.filter(pk__in=[item.pk for item in items]).annotate(fact=fact)
    facts = dict(rows.values_list("pk", "fact"))
    for item in items:
        item.fact = facts.get(item.pk)  # type: ignore[attr-defined]


def _items_of(runs: Sequence[int], *, in_full: bool) -> Mapping[int, list[DeltaItem]]:
    """Return the runs' delta items in order, including withheld ones."""
    found: dict[int, list[DeltaItem]] = defaultdict(list)
    if runs:
        items = DeltaItem.objects.filter(run__in=runs)
        if in_full:
            items = items.select_related("conflict")
        else:
            items = items.exclude(status=DeltaItem.Status.GONE_QUIET).only(*_IN_A_LIST)
        for item in items.order_by("run", "position"):
            found[item.run_id].append(item)
    return found


def between(topic: Any, first: int, last: int) -> list[Merged]:
    """Merge the deltas of the runs after `first` up to `last`, in one query."""
    runs = Run.objects.kept().filter(topic=topic, number__gt=first, number__lte=last)
    items = DeltaItem.objects.filter(run__in=runs, withheld="").select_related("run")
    return merge(items.order_by("run__number", "position"))
