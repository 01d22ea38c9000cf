"""Running `verify` in tests."""

from __future__ import annotations

from collections.abc import Iterator

import pgtrigger
import pytest
from django.core.cache import cache
from django.db import connection

from memory.models import Revision
from memory.services.records import invariants

PLACES = {
    ":append_only": pgtrigger.registered("memory.Revision:append_only")[0][1].get_pgid(Revision),
    ":note": "(SELECT id FROM memory_note WHERE content LIKE 'Green%')",
    ":old": "now() - interval '1 hour'",
}


@pytest.fixture(autouse=True)
def _forget_the_result() -> Iterator[None]:
    """The Health page of the next test starts without a result."""
    yield
    cache.delete(invariants.LAST_RESULT)


def broken(*, fix: bool = False) -> dict[str, int]:
    """Return the broken invariants, each with the number of its rows."""
    found = list(invariants.verify(fix=fix))
    return {result.invariant.name: len(result.rows) for result in found if result.rows}


def sql(statement: str) -> None:
    """Change rows directly with SQL; `:name` is replaced by one of PLACES."""
    for name, words in PLACES.items():
        statement = statement.replace(name, words)
    with connection.cursor() as cursor:
        # A table with constraints still to be checked can't be altered.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(statement)
        assert cursor.rowcount, statement
