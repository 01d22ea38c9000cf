"""Plain explanations of database and disk failures.

Postgres identifies errors by five characters (`sqlstate`, PostgreSQL 18, appendix A).  Pages, the
API and MCP explain each kind in the same words: what happened, what is safe, what to do next.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import psycopg
import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import Error, InterfaceError, OperationalError, connection, transaction
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

T = TypeVar("T")
logger = structlog.get_logger(__name__)
FULL_FOR = 60.0  # seconds for which a process remembers that the disk was full


@dataclass(frozen=True, slots=True)
class Failure:
    """A kind of failure that isn't a bug in Beacon."""

    status: int
    retry_after: int  # seconds
    title: str | Promise
    words: str | Promise


GONE = Failure(
    503,
    5,
    _("The database isn’t responding"),
    _(
        "The database can’t be reached right now. Your saved data is safe, and nothing was changed. Try again soon."
    ),
)
FULL = Failure(
    503,
    60,
    _("The disk is full"),
    _(
        "The server’s disk is full, so nothing new can be saved. Your saved data is safe, but this change wasn’t saved. Free up disk space on the server, or ask your admin to, then try again."
    ),
)
OVERLOADED = Failure(
    503,
    5,
    _("The database is overloaded"),
    _(
        "The database has run out of memory or connections. Your saved data is safe, but this change wasn’t saved. Try again in a few seconds."
    ),
)
BUSY = Failure(
    503,
    5,
    _("Another change is in progress"),
    _(
        "Another change is using the same data, and it didn’t finish in time. Nothing was changed. Try again in a few seconds."
    ),
)
TOO_LONG = Failure(
    503,
    5,
    _("This took too long"),
    _(
        "The database cancelled this change because its connection was idle for too long. Nothing was changed. Try again."
    ),
)
SLOW = Failure(
    503,
    30,
    _("The database took too long to respond"),
    _(
        "The database took too long to respond, so this request was stopped. Nothing was changed, and your saved data is safe. Try again in a minute. If you were searching, use fewer words or add a filter. If this keeps happening, ask your admin to check System status."
    ),
)
DEADLOCK = Failure(
    409,
    1,
    _("Two changes conflicted"),
    _(
        "Two changes to the same data blocked each other, so this one was stopped. Nothing was changed. Check the current state, then try again."
    ),
)

_BY_STATE = {
    "08": GONE,  # connection
    "57P": GONE,  # the server stops, starts, or has crashed
    "53100": FULL,
    "53": OVERLOADED,  # memory, connections
    "55P03": BUSY,  # lock_timeout
    "25P03": TOO_LONG,  # idle_in_transaction_session_timeout
    "57014": SLOW,  # statement_timeout, or an admin canceled it
    "40001": DEADLOCK,  # serialization failure
    "40P01": DEADLOCK,
}
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_full_at = -FULL_FOR


def failure_of(exc: BaseException | None) -> Failure | None:
    """Return the kind of failure, or None if it is a bug in Beacon or another kind of error.

    A full disk is recorded, for `was_full()`.
    """
    failure = _failure_of(exc)
    if failure is FULL:
        _note_full()
    return failure


def _failure_of(exc: BaseException | None) -> Failure | None:
    if isinstance(exc, OSError):
        return FULL if exc.errno in _NO_ROOM else None
    if not isinstance(exc, Error | psycopg.Error):
        return None
    cause = exc if isinstance(exc, psycopg.Error) else exc.__cause__
    state = getattr(cause, "sqlstate", None) or ""
    if state == "25P02":  # something tidied up in a transaction that had already failed
        return _failure_of(cause.__context__ if cause else None)
    if not state:  # the server sent no answer, so there is no connection
        gone = OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError
        return GONE if isinstance(exc, gone) else None
    found = (_BY_STATE.get(state[:length]) for length in (5, 3, 2))
    return next((failure for failure in found if failure), None)


def _note_full() -> None:
    global _full_at
    _full_at = time.monotonic()


def was_full() -> bool:
    """Return whether this process found the disk full within the last minute."""
    return time.monotonic() - _full_at < FULL_FOR


def retried(act: Callable[[], T], *, savepoint: bool = True) -> T:
    """Run `act` in a transaction, and retry it once after a deadlock.

    If two transactions wait for each other, Postgres ends one.  A retry usually works, since the
    other has finished by then.  `act` must be safe to repeat outside the database, and must not
    rely on what its first try changed in memory.  Inside an open transaction there is no retry,
    because only the caller that opened it can repeat all of it.  `savepoint` can be False for an
    act that undoes its own changes when it fails.
    """
    if connection.in_atomic_block:
        if not savepoint:
            return act()
        with transaction.atomic():
            return act()
    try:
        with transaction.atomic():
            return act()
    except OperationalError as exc:
        if failure_of(exc) is not DEADLOCK:
            raise
    with transaction.atomic():
        return act()


class LoggedFailure(AbstractContextManager["LoggedFailure"]):
    """Log a failure of the block, and continue after it: other jobs don't depend on this one.

    `error` is the exception, or None. The task's time limit isn't a failure and ends the task.
    """

    def __init__(self, event: str, **about: Any) -> None:
        self.error: Exception | None = None
        self._event, self._about = event, about

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, SoftTimeLimitExceeded):
            return False
        self.error = error
        logger.error(self._event, exc_info=error, **self._about)
        return True


def allow_long_transaction() -> None:
    """Let the open transaction wait for locks, pause and compute longer than a request's can.

    For imports and exports, which read files or a model's answer between two statements, and for
    deleting an account, whose rows can be millions.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('lock_timeout', %s, true), "
            "set_config('idle_in_transaction_session_timeout', %s, true), "
            # A command has no limit, and keeps none.
            "CASE current_setting('statement_timeout') WHEN '0' THEN '0' "
            "ELSE set_config('statement_timeout', %s, true) END",
            ["2min", "15min", f"{settings.BEACON_TASK_STATEMENT_SECONDS}s"],
        )
