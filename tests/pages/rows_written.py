"""Which tables a piece of a test writes to, by Postgres's own count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

# What a GET may write: the session, who was last seen, a token's last use, what entered an answer,
# and what lists tell of a topic, which is counted from its reports and kept.
BY_READING = frozenset(
    {
        "django_session",
        "memory_signin",
        "memory_apitoken",
        "memory_use",
        "research_topicnews",
    }
)
_COUNTS = """
    SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_xact_user_tables
    WHERE n_tup_ins + n_tup_upd + n_tup_del > 0
"""


def _counts() -> dict[str, int]:
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS)
        return dict(cursor.fetchall())


@contextmanager
def rows_written() -> Iterator[set[str]]:
    """Give a set that afterwards holds the tables with rows inserted, changed or deleted in the meantime.

    The counts are of this very transaction, in which a test's requests all are.
    """
    before, tables = _counts(), set[str]()
    yield tables
    tables |= {name for name, n in _counts().items() if n != before.get(name, 0)} - BY_READING
