"""PostgreSQL advisory locks: held for a block, or until the transaction ends."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum, unique
from typing import Any
from uuid import UUID

from django.db import connection

RETRY_SECONDS = 0.05


@unique
class LockId(IntEnum):
    """What is locked: the first of an advisory lock's two numbers."""

    LIBRARY_FOLDER = 772_511
    PUBLISHED_SLUG = 772_512
    NOTE_MAINTENANCE = 772_513
    EMBEDDING = 772_515
    VECTOR_TABLES = 772_516
    MIRROR_FILE = 772_517
    MIRROR_SCAN = 772_518
    CONTENT_RELATIONS = 772_519
    SPENDING = 772_521
    FILE_CREATION = 772_522
    IDEMPOTENCY_KEY = 772_523
    FIRST_TOOL_RESULT = 772_524
    DOUBLE_SUBMIT = 772_525
    BACKUP = 772_526
    AGENT_FOLDERS = 772_527
    USERNAME = 772_528
    SAME_NOTE = 772_529


Key = int | str | UUID


@contextmanager
def advisory_lock(lock: LockId, key: Key = 0, *, wait: bool | float = False) -> Iterator[bool]:
    """Hold a lock of the database session for the block; yields whether it could be acquired.

    `wait` is the number of seconds to wait, or True to wait without limit.  The lock doesn't belong
    to a transaction and is released if its process is killed.  One process can hold it twice.
    """
    ends = time.monotonic() + wait
    if wait is True:
        acquired = _execute("SELECT true FROM pg_advisory_lock(%s, %s)", lock, key)
    else:
        while not (acquired := _execute("SELECT pg_try_advisory_lock(%s, %s)", lock, key)):
            if time.monotonic() >= ends:
                break
            time.sleep(RETRY_SECONDS)
    try:
        yield acquired
    finally:
        if acquired:
            _execute("SELECT pg_advisory_unlock(%s, %s)", lock, key)


def release_all_locks(pooled: Any) -> None:
    """Release what an interrupted task has left locked in a connection that it returns to the pool."""
    pooled.execute("SELECT pg_advisory_unlock_all()")
    pooled.commit()  # does nothing unless it was returned in the middle of a transaction


def lock_until_commit(lock: LockId, key: Key = 0) -> None:
    """Wait for a lock and hold it until the transaction ends."""
    _execute("SELECT true FROM pg_advisory_xact_lock(%s, %s)", lock, key)


def try_lock_until_commit(lock: LockId, key: Key = 0) -> bool:
    """Hold a lock until the transaction ends; False if another session has it."""
    return _execute("SELECT pg_try_advisory_xact_lock(%s, %s)", lock, key)


def _execute(sql: str, lock: LockId, key: Key) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(sql, [lock.value, second_number(key)])
        return bool(cursor.fetchone()[0])


def second_number(key: Key) -> int:
    """Return the second number of a lock.

    Two keys can share one (31 bits).  Then they wait for each other, and of two simultaneous
    requests with an Idempotency-Key one has to retry.
    """
    if isinstance(key, str):
        return zlib.crc32(key.encode()) & 0x7FFF_FFFF
    return int(key) & 0x7FFF_FFFF
