"""Changes in a topic since its owner last read a report of it; read marks and unread counts.

Data flow: reports with their read marks -> an `UnreadNews` per topic (the last report read, and
those after it) -> the delta items of the runs between, merged into one delta
(`research.services.runs.reporting.merged_deltas`). For any number of topics, this takes two queries, or four with
everything a page shows.
"""

from __future__ import annotations

import heapq
import json
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Self

from django.db import connection
from django.db.models import Count, F, Max, OuterRef, Q, Subquery, Window
from django.db.models.fields.json import KT
from django.db.models.functions import JSONObject
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext as _

from memory.models import TopicFact, User
from research.models import DeltaItem, Report, TopicNews
from research.models.reports import ReportQuerySet
from research.services.facts.history import SavedRun
from research.services.runs.reporting.merged_deltas import Merged, merge

# field names in the order of SavedRun
_RUN = ("run_id", "run__number", "created", "run__is_baseline")
# The fields a list needs. A page of topics can have thousands of items.
_IN_A_LIST = (
    "run_id",
    "position",
    "status",
    "sentence",
    "previous_text",
    "previous_fact_id",
    "citations",
    "hidden_reason",
)
_Status = DeltaItem.Status
_COUNTED = (_Status.NEW, _Status.CHANGED, _Status.CONTRADICTED, _Status.GONE)
MAX_RUNS = 60  # per topic; older deltas remain in their reports


# The fact that a run created from an item's sentence, unless its text was edited since.
_FACT = TopicFact.objects.live().filter(
    topic=OuterRef("run__topic"), first_run=OuterRef("run__number"), text=OuterRef("sentence")
)


@dataclass(slots=True)
class UnreadNews:
    """The unread reports of a topic: those after the last one read, and their merged deltas."""

    last: SavedRun | None = None
    runs: list[SavedRun] = field(default_factory=list)
    older: int = 0  # how many unread reports are from before the last one read
    newest: SavedRun | None = None  # of all unread reports, including older ones
    read_at: datetime | None = None  # when the last report was read
    changes: list[Merged] = field(default_factory=list)
    filtered_out: int = 0

    @property
    def first(self) -> SavedRun | None:
        return self.runs[0] if self.runs else None

    @property
    def latest(self) -> SavedRun | None:
        return self.runs[-1] if self.runs else None

    @property
    def is_several(self) -> bool:
        """Return True if more than one unread report has changes."""
        return sum(not run.is_baseline for run in self.runs) > 1

    @property
    def merged(self) -> list[SavedRun]:
        """Return the runs whose deltas are merged, at most the latest MAX_RUNS."""
        return self.runs[-MAX_RUNS:]

    @property
    def since(self) -> str:
        """Return the last read run as text: `Run #3, 12 May`. Empty if none was read."""
        if self.last is None:
            return ""
        return _("Run #%(number)d, %(day)s") % {"number": self.last.number, "day": self.last.day}

    @property
    def run_range(self) -> str:
        """Return the unread runs as text: `Run #4` or `Runs #4 to #8`."""
        if self.first is None or self.latest is None:
            return ""
        return run_range(self.first.number, self.latest.number)

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of listed changes by status."""
        return dict(Counter(str(change.status) for change in self.changes if change.is_listed))

    @property
    def words(self) -> str:
        """Return the counts as a sentence: `3 new facts since you last read, 2 changed`."""
        return describe_counts(self.counts, was_read=self.last is not None)


def run_range(first: int, last: int) -> str:
    """Return a range of runs as text: `Run #4` or `Runs #4 to #8`."""
    if first == last:
        return _("Run #%(last)d") % {"last": last}
    return _("Runs #%(first)d to #%(last)d") % {"first": first, "last": last}


def describe_counts(counts: Mapping[str, int], *, was_read: bool) -> str:
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


def unread_of(topic_ids: Iterable[Any]) -> dict[Any, UnreadNews]:
    """Return the unread reports of each topic with reports, without their deltas, in one query."""
    was_read = Max("run__number", filter=Q(read_at__isnull=False))
    rows = (
        Report.objects.live()
        .filter(run__topic__in=list(topic_ids))
        .exclude(run__number=None)
        # One pass over all reports of the topic, because a subquery per report would count them
        # again.
        .annotate(
            last_read=Window(was_read, partition_by=F("run__topic")),
            last_at=Window(Max("read_at"), partition_by=F("run__topic")),
        )
        .filter(Q(read_at=None) | Q(run__number=F("last_read")))
        .order_by("run__topic", "run__number")
        .values_list("run__topic", "last_read", "last_at", *_RUN)
    )
    found: dict[Any, UnreadNews] = defaultdict(UnreadNews)
    for topic_id, last_read, last_at, *told in rows:
        news, run = found[topic_id], SavedRun(*told)
        news.read_at = last_at
        if last_read is None or run.number > last_read:
            news.runs.append(run)
        elif run.number == last_read:
            news.last = run
            continue
        else:
            news.older += 1
        if news.newest is None or run.at >= news.newest.at:
            news.newest = run
    return dict(found)


def news_of(topic_ids: Iterable[Any], *, in_full: bool = False) -> dict[Any, UnreadNews]:
    """Return the unread news of each topic, in two queries, or four if `in_full`.

    `in_full` is for a page of one topic. It adds the reports' sources, facts that went quiet (lists
    leave them out), and each shown item's current `fact` as `{id, state}`.
    """
    found = unread_of(topic_ids)
    runs = [run.pk for news in found.values() for run in news.merged]
    if in_full:
        _add_sources(found.values(), runs)
    told = _items_of(runs, in_full=in_full)
    for news in found.values():
        items = [item for run in news.merged for item in told.get(run.pk, ())]
        shown = [item for item in items if not item.hidden_reason]
        news.changes, news.filtered_out = merge(shown), len(items) - len(shown)
    if in_full:
        add_facts([one.shown for news in found.values() for one in news.changes])
    return found


def _add_sources(unread: Iterable[UnreadNews], runs: Sequence[int]) -> None:
    sources = dict(Report.objects.filter(run__in=runs).values_list("run_id", "sources"))
    for news in unread:
        news.runs = [replace(run, sources=sources.get(run.pk, ())) for run in news.runs]


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


# --- read marks and unread counts ---
# Everything marked at once gets the same timestamp, which identifies it for undo.


def mark_read(rows: ReportQuerySet) -> tuple[int, datetime]:
    """Mark the unread reports in `rows` as read. Return how many, and their common timestamp."""
    at = timezone.now()
    return rows.filter(read_at=None).update(read_at=at, unread_at=None, read_before=None), at


def mark_unread(rows: ReportQuerySet) -> tuple[int, datetime]:
    """Mark the read reports in `rows` as unread. Return how many, and their common timestamp."""
    at = timezone.now()
    return rows.restore_state(at), at


def undo_read(user: User, at: datetime) -> int:
    """Undo `mark_read`. Return how many are unread again."""
    return _mine(user).filter(read_at=at).restore_state(timezone.now())


def undo_unread(user: User, at: datetime) -> int:
    """Undo `mark_unread`, restoring when each was read. Return how many."""
    unread = _mine(user).filter(unread_at=at, read_at=None)
    return unread.update(read_at=F("read_before"), unread_at=None, read_before=None)


def _mine(user: User) -> ReportQuerySet:
    return Report.objects.for_user(user).live()


# --- counts per topic ---

AT_ONCE = 20  # topics counted together
SECONDS = 3.0  # time limit of one tick
_NEVER = datetime.min.replace(tzinfo=UTC)
_LINES = 2
# A row that someone else has locked is skipped. Its next reader counts it again.
_STORE = """
    UPDATE research_topicnews news SET counts = came.counts, counted_changes = came.counted_changes
      FROM jsonb_to_recordset(%s::jsonb) AS came(topic uuid, counted_changes bigint, counts jsonb)
     WHERE news.topic_id = came.topic AND news.topic_id IN (
           SELECT topic_id FROM research_topicnews WHERE topic_id = ANY(%s::uuid[])
            ORDER BY topic_id FOR NO KEY UPDATE SKIP LOCKED)
"""


@dataclass(slots=True)
class TopicSummary:
    """What lists show for a topic: its unread reports, and the counts of their merged deltas."""

    unread: int = 0
    newest: int = 0  # the run of the newest unread report
    newest_at: datetime | None = None
    read_at: datetime | None = None  # when the last report was read
    first: int = 0  # the number of the first unread run
    last: int = 0
    runs: int = 0
    telling: int = 0  # how many of them have changes
    has_baseline: bool = False
    was_read: bool = False  # whether any report was read before
    counts: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)  # of each line
    cited: list[list[str]] = field(default_factory=list)  # site and URL of each line's first source

    @classmethod
    def of(cls, news: UnreadNews, sources: Mapping[int, Sequence[dict[str, Any]]]) -> Self:
        """Count a topic's unread news. `sources` has those of each run's report."""
        listed = [change for change in news.changes if change.is_listed]
        return cls(
            unread=len(news.runs) + news.older,
            newest=news.newest.pk if news.newest else 0,
            newest_at=news.newest.at if news.newest else None,
            read_at=news.read_at,
            first=news.first.number if news.first else 0,
            last=news.latest.number if news.latest else 0,
            runs=len(news.runs),
            telling=sum(not run.is_baseline for run in news.runs),
            has_baseline=any(run.is_baseline for run in news.runs),
            was_read=news.last is not None,
            counts=news.counts,
            lines=[one.shown.sentence for one in listed[:_LINES]],
            statuses=[str(one.status) for one in listed[:_LINES]],
            cited=[_first_source(one.shown, sources) for one in listed[:_LINES]],
        )

    @classmethod
    def read(cls, stored: dict[str, Any]) -> Self:
        """Load it from its stored form."""
        found = cls(**stored)
        for name in ("newest_at", "read_at"):
            if stored.get(name):
                setattr(found, name, parse_datetime(stored[name]))
        return found

    def as_stored(self) -> dict[str, Any]:
        stored = asdict(self)
        for name in ("newest_at", "read_at"):
            stored[name] = stored[name].isoformat() if stored[name] else None
        return stored

    @property
    def newest_unread(self) -> tuple[datetime, int]:
        """Return when the newest unread report was created, and its run. Lists sort by this."""
        return self.newest_at or _NEVER, self.newest

    @property
    def new(self) -> int:
        return self.counts.get(DeltaItem.Status.NEW, 0)

    @property
    def changed(self) -> int:
        return self.counts.get(DeltaItem.Status.CHANGED, 0)

    @property
    def contradicted(self) -> int:
        return self.counts.get(DeltaItem.Status.CONTRADICTED, 0)

    @property
    def gone(self) -> int:
        """Return how many statements are gone from their pages."""
        return self.counts.get(DeltaItem.Status.GONE, 0)

    @property
    def is_several(self) -> bool:
        """Return True if more than one unread report has changes."""
        return self.telling > 1

    @property
    def is_quiet(self) -> bool:
        """Whether there are unread reports, none of them a baseline, without any listed change."""
        return bool(self.runs) and not self.has_baseline and not self.counts

    @property
    def run_range(self) -> str:
        """Return the unread runs as text: `Run #4` or `Runs #4 to #8`."""
        return run_range(self.first, self.last) if self.runs else ""

    @property
    def tags(self) -> SafeString:
        """Return a tag for each kind of change, with the counts as a sentence for screen readers."""
        counts = (self.contradicted, self.changed, self.new, self.gone)
        return _tags(counts, self.words, get_language())

    @property
    def words(self) -> str:
        """Return the counts as a sentence: `3 new facts since you last read, 2 changed`."""
        counts = tuple(sorted(self.counts.items()))
        return _cached_counts_text(counts, self.was_read, get_language())


# Lists have dozens of these but few different ones.
@lru_cache(500)
def _tags(counts: tuple[int, int, int, int], words: str, _language: str | None) -> SafeString:
    contradicted, changed, new, gone = counts
    shown = [
        ("contra", "!", contradicted, _("contradicted")),
        ("changed", "≠", changed, _("changed")),
        ("new", "+", new, ngettext("new fact", "new facts", new)),
        ("gone", "−", gone, _("gone")),
    ]
    tag = '<span class="tag {}" aria-hidden="true" title="{}">{} {}<span class="narrow-word"> {}</span></span>'
    rows = ((kind, said, sign, n, said) for kind, sign, n, said in shown if n)
    tags = format_html_join("", tag, rows)
    return format_html('<span class="tags"><span class="sr-only">{}</span>{}</span>', words, tags)


@lru_cache(500)
def _cached_counts_text(
    counts: tuple[tuple[str, int], ...], was_read: bool, _language: str | None
) -> str:
    return describe_counts(dict(counts), was_read=was_read)


_PARTS = {part.name for part in fields(TopicSummary)}


def _first_source(item: DeltaItem, sources: Mapping[int, Sequence[dict[str, Any]]]) -> list[str]:
    """Return the site and the URL of the first source that an item cites, if it cites one."""
    numbered = {source["n"]: source for source in sources.get(item.run_id, ())}
    cited = next((numbered[n] for n in item.citations if n in numbered), {})
    return [str(cited.get("domain", "")), str(cited.get("link", ""))] if cited else []


def topics_with_news(user: User, most: int) -> list[TopicNews]:
    """Return the `most` topics of `user` with the newest unread reports, and all stale ones.

    One query. Each row has `last_read`, the stored time when a report of any topic was last read.
    """
    mine = TopicNews.objects.for_user(user).filter(topic__trashed_at=None).order_by()
    counted = mine.filter(counted_changes=F("changes"))
    # Stored timestamps sort correctly as text.
    by_day = counted.annotate(came=KT("counts__newest_at")).order_by(
        F("came").desc(nulls_last=True)
    )
    first = by_day.values("pk")[:most]
    read = counted.values("topic__owner").annotate(at=Max(KT("counts__read_at"))).values("at")
    rows = mine.filter(Q(pk__in=first) | Q(pk__in=mine.stale().values("pk")))
    return list(rows.annotate(last_read=Subquery(read)))


def summary_for_lists(
    rows: Iterable[TopicNews], *, newest: int | None = None
) -> dict[Any, TopicSummary]:
    """Return what lists show for each topic. Takes four more queries if any is stale.

    With `newest`, only this many topics with the newest unread reports are complete. If more are
    stale, one more query gets only the number and time of unread reports for the rest.
    """
    found: dict[Any, TopicSummary] = {}
    stale = {}
    for row in rows:
        # Another version of Beacon may have stored fewer or more fields.
        if row.is_stale or set(row.counts) != _PARTS:
            stale[row.topic_id] = row
        else:
            found[row.topic_id] = TopicSummary.read(row.counts)
    if newest is not None and len(stale) > newest:
        found |= _in_short(stale)
        last = heapq.nlargest(newest, found, key=lambda topic: found[topic].newest_unread)
        stale = {topic: stale[topic] for topic in last if topic in stale}
    return found | count(list(stale.values())) if stale else found


def _in_short(topic_ids: Iterable[Any]) -> dict[Any, TopicSummary]:
    """Return the number of unread reports and the newest one for each topic, in one query.

    After an import, all topics are stale at once, and counting all deltas would take minutes.
    """
    reports = Report.objects.live().filter(run__topic__in=list(topic_ids))
    unread = Q(read_at=None)
    rows = reports.exclude(run__number=None).order_by().values("run__topic")
    counted = rows.annotate(
        unread=Count("pk", filter=unread),
        newest_at=Max("created", filter=unread),
        last_read_at=Max("read_at"),
    )
    return {
        row["run__topic"]: TopicSummary(row["unread"], 0, row["newest_at"], row["last_read_at"])
        for row in counted
    }


def count(rows: Sequence[TopicNews]) -> dict[Any, TopicSummary]:
    """Count the rows' topics again and store the result, in four queries for any number.

    A change during counting raises the row's change number above the stored one, so it stays stale.
    """
    news = news_of([row.topic_id for row in rows])
    cited = {
        one.shown.run_id
        for of_topic in news.values()
        for one in [change for change in of_topic.changes if change.is_listed][:_LINES]
    }
    sources = dict(Report.objects.filter(run__in=cited).values_list("run_id", "sources"))
    found = {
        row.topic_id: TopicSummary.of(news.get(row.topic_id, UnreadNews()), sources) for row in rows
    }
    stored = [
        {
            "topic": str(row.topic_id),
            "counted_changes": row.changes,
            "counts": found[row.topic_id].as_stored(),
        }
        for row in rows
    ]
    with connection.cursor() as cursor:
        cursor.execute(_STORE, [json.dumps(stored), [one["topic"] for one in stored]])
    return found


def catch_up() -> int:
    """Count stale topics, a few at a time, for a few seconds. Return how many."""
    done, last, until = 0, uuid.UUID(int=0), time.monotonic() + SECONDS
    stale = TopicNews.objects.stale().order_by("topic")
    # Continue after the last one. A row that someone has locked remains stale until the next tick.
    while rows := list(stale.filter(topic__gt=last)[:AT_ONCE]):
        done, last = done + len(count(rows)), rows[-1].topic_id
        if time.monotonic() > until:
            break
    return done
