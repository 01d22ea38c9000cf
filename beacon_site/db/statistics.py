"""Fresh statistics for Postgres' planner after many rows were written."""

from __future__ import annotations

import structlog
from django.db import DatabaseError, connection

logger = structlog.get_logger(__name__)

MANY_CHANGED = 1_000  # rows of a table


def analyze_changed() -> list[str]:
    """Analyze each table with many new rows, and return the names; call it after a bulk write.

    Autovacuum does that too, but up to a minute later, and in a large table only after a tenth has
    changed. Until then, the planner expects a single row for an owner whose rows are all new.
    Outside a transaction only, where Postgres has counted the new rows. A failure is only logged,
    because the rows themselves are stored.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")  # this session's counts
            cursor.execute(
                "SELECT relname FROM pg_stat_user_tables WHERE schemaname = current_schema() "
                "AND n_mod_since_analyze >= least(%s, 50 + n_live_tup / 10) ORDER BY relname",
                [MANY_CHANGED],
            )
            names = [name for (name,) in cursor.fetchall()]
            for name in names:
                # Another process can be analyzing it already.
                cursor.execute(f"ANALYZE (SKIP_LOCKED) {connection.ops.quote_name(name)}")
    except DatabaseError as exc:
        logger.warning("tables not analyzed", error=str(exc).splitlines()[0])
        return []
    return names
