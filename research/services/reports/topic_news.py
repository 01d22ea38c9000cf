"""Read marks of reports, with undo, and the stored counts of unread news per topic.

Everything marked at once gets the same timestamp, which identifies it for undo.
"""

from __future__ import annotations

import heapq
import json
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Self

from django.db import connection
from django.db.models import Count, F, Max, Q, Subquery
from django.db.models.fields.json import KT
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.models import User
from research.models import DeltaItem, Report, TopicNews
from research.models.reports import ReportQuerySet
from research.services.reports import since_read
from research.services.reports.since_read import UnreadNews


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
    found: ReportQuerySet = Report.objects.of(user).live()
    return found


# --- counts per topic ---

AT_ONCE = 20  # topics counted together
SECONDS = 3.0  # time limit of one tick
_NEVER = datetime.min.replace(tzinfo=UTC)
_LINES = 2
# A row that someone else has locked is skipped. Its next reader counts it again.
_STORE = """
    UPDATE research_topicnews news SET told = came.told, counted = came.counted
      FROM jsonb_to_recordset(%s::jsonb) AS came(topic uuid, counted bigint, told jsonb)
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

    @classmethod
    def of(cls, news: UnreadNews) -> Self:
        """Count a topic's unread news."""
        window, listed = news.window, [one for one in news.changes if one.is_listed]
        return cls(
            unread=len(window.runs) + window.older,
            newest=window.newest.pk if window.newest else 0,
            newest_at=window.newest.at if window.newest else None,
            read_at=window.read_at,
            first=window.first.number if window.first else 0,
            last=window.latest.number if window.latest else 0,
            runs=len(window.runs),
            telling=sum(not run.is_baseline for run in window.runs),
            has_baseline=any(run.is_baseline for run in window.runs),
            was_read=window.last is not None,
            counts=news.counts,
            lines=[one.shown.sentence for one in listed[:_LINES]],
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
    def came(self) -> tuple[datetime, int]:
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
        """Whether more than one unread report has changes."""
        return self.telling > 1

    @property
    def is_quiet(self) -> bool:
        """Whether there are unread reports, none of them a baseline, without any listed change."""
        return bool(self.runs) and not self.has_baseline and not self.counts

    @property
    def runs_in_words(self) -> str:
        """Return the unread runs as text: `Run #4` or `Runs #4 to #8`."""
        return since_read.runs_in_words(self.first, self.last) if self.runs else ""

    @property
    def tags(self) -> list[tuple[str, str, str]]:
        """Return a tag for each kind of change: class, sign with number, and label."""
        found = []
        if n := self.new:
            found.append(("new", f"+ {n}", ngettext("new fact", "new facts", n)))
        if n := self.changed:
            found.append(("changed", f"≠ {n}", _("changed")))
        if n := self.contradicted:
            found.append(("contra", f"! {n}", _("contradicted")))
        if n := self.gone:
            found.append(("gone", f"− {n}", _("gone")))
        return found

    @property
    def words(self) -> str:
        """Return the counts as a sentence: `3 new facts since you last read, 2 changed`."""
        return since_read.counts_in_words(self.counts, was_read=self.was_read)


_PARTS = {part.name for part in fields(TopicSummary)}


def foremost(user: User, most: int) -> list[TopicNews]:
    """Return the `most` topics of `user` with the newest unread reports, and all stale ones.

    One query. Each row has `last_read`, the stored time when a report of any topic was last read.
    """
    mine = TopicNews.objects.of(user).filter(topic__trashed_at=None).order_by()
    counted = mine.filter(counted=F("changes"))
    # Stored timestamps sort correctly as text.
    by_day = counted.annotate(came=KT("told__newest_at")).order_by(F("came").desc(nulls_last=True))
    first = by_day.values("pk")[:most]
    read = counted.values("topic__owner").annotate(at=Max(KT("told__read_at"))).values("at")
    wanted = mine.filter(Q(pk__in=first) | Q(pk__in=mine.stale().values("pk")))
    return list(wanted.annotate(last_read=Subquery(read)))


def told_of(rows: Iterable[TopicNews], *, newest: int | None = None) -> dict[Any, TopicSummary]:
    """Return what lists show for each topic. Takes three more queries if any is stale.

    With `newest`, only this many topics with the newest unread reports are complete. If more are
    stale, one more query gets only the number and time of unread reports for the rest.
    """
    found: dict[Any, TopicSummary] = {}
    stale = {}
    for row in rows:
        # Another version of Beacon may have stored fewer or more fields.
        if row.is_stale or set(row.told) != _PARTS:
            stale[row.topic_id] = row
        else:
            found[row.topic_id] = TopicSummary.read(row.told)
    if newest is not None and len(stale) > newest:
        found |= _in_short(stale)
        last = heapq.nlargest(newest, found, key=lambda topic: found[topic].came)
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
    """Count the rows' topics again and store the result, in three queries for any number.

    A change during counting raises the row's change number above the stored one, so it stays stale.
    """
    news = since_read.news_of([row.topic_id for row in rows])
    found = {row.topic_id: TopicSummary.of(news.get(row.topic_id, UnreadNews())) for row in rows}
    stored = [
        {
            "topic": str(row.topic_id),
            "counted": row.changes,
            "told": found[row.topic_id].as_stored(),
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
