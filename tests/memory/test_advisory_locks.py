"""Advisory locks between two connections of one database."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from beacon_site.db.advisory_locks import (
    LockId,
    advisory_lock,
    lock_until_commit,
    second_number,
    try_lock_until_commit,
)

pytestmark = pytest.mark.django_db(transaction=True)
LOCK = LockId.NOTE_MAINTENANCE


@pytest.fixture
def other() -> Iterator[Any]:
    """A cursor of another connection."""
    another = connection.copy()
    with another.cursor() as cursor:
        yield cursor
    another.close()


def is_free(cursor: Any, key: Any = 0) -> bool:
    cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [LOCK, second_number(key)])
    (free,) = cursor.fetchone()
    if free:
        cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [LOCK, second_number(key)])
    return bool(free)


def hold(cursor: Any) -> None:
    cursor.execute("SELECT pg_advisory_lock(%s, 0)", [LOCK])


def test_it_is_held_for_the_block_only(other: Any) -> None:
    with advisory_lock(LOCK) as acquired:
        assert acquired and not is_free(other)
        assert is_free(other, "another key")
    assert is_free(other)


def test_it_is_released_when_the_block_raises(other: Any) -> None:
    with pytest.raises(ValueError, match="broken"), advisory_lock(LOCK, "key"):
        raise ValueError("broken")
    assert is_free(other, "key")


@pytest.mark.parametrize(("wait", "seconds"), [(False, 0.0), (0.3, 0.3)])
def test_a_lock_of_another_session_is_not_acquired(other: Any, wait: Any, seconds: float) -> None:
    hold(other)
    began = time.monotonic()
    with advisory_lock(LOCK, wait=wait) as acquired:
        assert not acquired
    assert time.monotonic() - began >= seconds
    assert not try_lock_until_commit(LOCK)


@pytest.mark.parametrize("wait", [True, 20.0])
def test_a_waiter_gets_it_once_it_is_released(other: Any, wait: Any) -> None:
    hold(other)
    unlock = ("SELECT pg_advisory_unlock(%s, 0)", [LOCK])
    threading.Timer(0.3, other.execute, unlock).start()
    with advisory_lock(LOCK, wait=wait) as acquired:
        assert acquired


def test_a_lock_until_commit_ends_with_the_transaction(other: Any) -> None:
    with transaction.atomic():
        lock_until_commit(LOCK, 2**40)
        assert not is_free(other, 2**40)
    assert is_free(other, 2**40)
