"""Marks of having read reports: set and taken away on many at once, each with its undo.

What is done at once carries one moment, which is the key that takes it back.
"""

from __future__ import annotations

import heapq
import json
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime, timedelta
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
from research.reports import since_read
from research.reports.since_read import News

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def mark_read(rows: ReportQuerySet) -> tuple[int, int]:
    """Mark the unread among `rows` as read; return how many, and the key to undo it.

    The key is the moment in microseconds since 1970, the same for all of them.
    """
    at = timezone.now()
    count = rows.filter(read_at=None).update(read_at=at, unread_at=None, read_before=None)
    return count, _key_of(at)


def mark_unread(rows: ReportQuerySet) -> tuple[int, int]:
    """Put the read among `rows` back among the unread; return how many, and the key to undo it."""
    at = timezone.now()
    return rows.put_back(at), _key_of(at)


def undo_read(user: User, key: int) -> int:
    """Take back what `mark_read` did with this key; return how many are unread again."""
    at = _moment_of(key)
    return _mine(user).filter(read_at=at).put_back(timezone.now()) if at else 0


def undo_unread(user: User, key: int) -> int:
    """Take back what `mark_unread` did with this key: read as they were; return how many."""
    at = _moment_of(key)
    if at is None:
        return 0
    unread = _mine(user).filter(unread_at=at, read_at=None)
    return unread.update(read_at=F("read_before"), unread_at=None, read_before=None)


def _mine(user: User) -> ReportQuerySet:
    found: ReportQuerySet = Report.objects.of(user).live()
    return found


def _key_of(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def _moment_of(key: int) -> datetime | None:
    """Return the moment that a key names; None for a number beyond all dates."""
    try:
        return _EPOCH + timedelta(microseconds=key)
    except OverflowError:
        return None


# --- topic news ---

AT_ONCE = 20  # topics that are counted together
SECONDS = 3.0  # for which a tick goes on counting
_NEVER = datetime.min.replace(tzinfo=UTC)
_LINES = 2
# Who is at a row keeps it: its next reader counts again, and nobody waits for anybody.
_STORE = """
    UPDATE research_topicnews news SET told = came.told, counted = came.counted
      FROM jsonb_to_recordset(%s::jsonb) AS came(topic uuid, counted bigint, told jsonb)
     WHERE news.topic_id = came.topic AND news.topic_id IN (
           SELECT topic_id FROM research_topicnews WHERE topic_id = ANY(%s::uuid[])
            ORDER BY topic_id FOR NO KEY UPDATE SKIP LOCKED)
"""


@dataclass(slots=True)
class Told:
    """What a list tells of a topic: its unread reports, and their deltas as one."""

    unread: int = 0
    newest: int = 0  # the run of the newest unread report
    newest_at: datetime | None = None
    read_at: datetime | None = None  # when one was read last
    first: int = 0  # the numbers of the runs of which nothing was read
    last: int = 0
    runs: int = 0
    telling: int = 0  # of them those that say what changed
    has_baseline: bool = False
    was_read: bool = False  # whether there is a last one read, since which it is told
    counts: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, news: News) -> Self:
        """Count what is new of a topic."""
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
        """Read it as it was stored."""
        found = cls(**stored)
        for name in ("newest_at", "read_at"):
            if stored.get(name):
                setattr(found, name, parse_datetime(stored[name]))
        return found

    def as_stored(self) -> dict[str, Any]:
        """Return it as it is stored."""
        stored = asdict(self)
        for name in ("newest_at", "read_at"):
            stored[name] = stored[name].isoformat() if stored[name] else None
        return stored

    @property
    def came(self) -> tuple[datetime, int]:
        """Return when the newest unread report came, and its run: what lists are ordered by."""
        return self.newest_at or _NEVER, self.newest

    @property
    def new(self) -> int:
        """Return how many facts are new."""
        return self.counts.get(DeltaItem.Status.NEW, 0)

    @property
    def changed(self) -> int:
        """Return how many facts changed."""
        return self.counts.get(DeltaItem.Status.CHANGED, 0)

    @property
    def contradicted(self) -> int:
        """Return how many facts are contradicted."""
        return self.counts.get(DeltaItem.Status.CONTRADICTED, 0)

    @property
    def gone(self) -> int:
        """Return how many statements are gone from their pages."""
        return self.counts.get(DeltaItem.Status.GONE, 0)

    @property
    def is_several(self) -> bool:
        """Whether more than one of the unread reports says what changed."""
        return self.telling > 1

    @property
    def is_quiet(self) -> bool:
        """Whether reports came, none of them a baseline, and they list no change."""
        return bool(self.runs) and not self.has_baseline and not self.counts

    @property
    def runs_in_words(self) -> str:
        """Return the unread runs in words: `Run #4` or `Runs #4 to #8`."""
        return since_read.runs_in_words(self.first, self.last) if self.runs else ""

    @property
    def tags(self) -> list[tuple[str, str, str]]:
        """Return a tag of each kind of change: its class, its sign with the number, its word."""
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


_PARTS = {part.name for part in fields(Told)}


def foremost(user: User, most: int) -> list[TopicNews]:
    """Return the news of `user`'s topics whose unread reports came last, `most`, and all that is stale.

    One query.  Each row says in `last_read`, as it is stored, when a report of any topic was read last.
    """
    mine = TopicNews.objects.of(user).filter(topic__trashed_at=None).order_by()
    counted = mine.filter(counted=F("changes"))
    # As they are stored, moments stand in order as text.
    by_day = counted.annotate(came=KT("told__newest_at")).order_by(F("came").desc(nulls_last=True))
    first = by_day.values("pk")[:most]
    read = counted.values("topic__owner").annotate(at=Max(KT("told__read_at"))).values("at")
    wanted = mine.filter(Q(pk__in=first) | Q(pk__in=mine.stale().values("pk")))
    return list(wanted.annotate(last_read=Subquery(read)))


def told_of(rows: Iterable[TopicNews], *, newest: int | None = None) -> dict[Any, Told]:
    """Return of each topic what lists tell; three queries more if any of them is stale.

    With `newest`, only so many topics whose unread reports came last need be told whole: of the
    others, if more are stale, only how many reports are unread and since when, by one more query.
    """
    found: dict[Any, Told] = {}
    stale = {}
    for row in rows:
        # What another version of Beacon stored may lack something, or hold more.
        if row.is_stale or set(row.told) != _PARTS:
            stale[row.topic_id] = row
        else:
            found[row.topic_id] = Told.read(row.told)
    if newest is not None and len(stale) > newest:
        found |= _in_short(stale)
        last = heapq.nlargest(newest, found, key=lambda topic: found[topic].came)
        stale = {topic: stale[topic] for topic in last if topic in stale}
    return found | count(list(stale.values())) if stale else found


def _in_short(topic_ids: Iterable[Any]) -> dict[Any, Told]:
    """Return of each topic that has reports how many are unread and when the last came: one query.

    After an import all topics are stale at once: to count all of their deltas takes minutes.
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
        row["run__topic"]: Told(row["unread"], 0, row["newest_at"], row["last_read_at"])
        for row in counted
    }


def count(rows: Sequence[TopicNews]) -> dict[Any, Told]:
    """Count the rows' topics anew and store it: three queries, however many.

    What changes meanwhile raises a row's number of changes beyond the one that is stored here.
    """
    news = since_read.news_of([row.topic_id for row in rows])
    found = {row.topic_id: Told.of(news.get(row.topic_id, News())) for row in rows}
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
    """Count what became stale, some topics at a time and for some seconds; return how many."""
    done, last, until = 0, uuid.UUID(int=0), time.monotonic() + SECONDS
    stale = TopicNews.objects.stale().order_by("topic")
    # On from the last one: a row that somebody is at stays stale, and is left to the next tick.
    while rows := list(stale.filter(topic__gt=last)[:AT_ONCE]):
        done, last = done + len(count(rows)), rows[-1].topic_id
        if time.monotonic() > until:
            break
    return done
