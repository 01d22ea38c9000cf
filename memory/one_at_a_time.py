"""The right to do a thing alone, held by a lock of the database that dies with its holder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection


@contextmanager
def alone(what: int, which: int = 0) -> Iterator[bool]:
    """Hold the right to do `what` with `which` (both below 2**31), or find it taken (then False).

    A killed process holds nothing: its connection is gone.  One process may hold it twice.
    """
    held = _ask("SELECT pg_try_advisory_lock(%s, %s)", what, which)
    try:
        yield held
    finally:
        if held:
            _ask("SELECT pg_advisory_unlock(%s, %s)", what, which)


def _ask(sql: str, what: int, which: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(sql, [what, which])
        (answer,) = cursor.fetchone() or (False,)
    return bool(answer)
