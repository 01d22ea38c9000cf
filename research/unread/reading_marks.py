"""Marks of having read reports: set and taken away on many at once, each with its undo.

What is done at once carries one moment, which is the key that takes it back.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.db.models import F
from django.utils import timezone

from memory.models import User
from research.models import Report
from research.models.reports import ReportQuerySet

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
