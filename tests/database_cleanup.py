"""Empties the database after a test that commits, without Django's `flush`.

`flush` truncates all tables, also empty ones, and creates content types and permissions again. Tests
leave rows in a few tables, so only those are emptied. At a load of 15, a teardown of tests/api/test_races.py
took 1.6 s with `flush` and takes 0.17 s with this.
"""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.test import TransactionTestCase

# What `flush` would create again.
KEPT = ("auth_permission", "django_content_type", "django_migrations")
DELETE = """
DO $$
DECLARE
    one regclass;
    has_rows boolean;
BEGIN
    -- Without triggers: revisions refuse to be deleted, and rows refer to each other.
    SET LOCAL session_replication_role = replica;
    FOR one IN
        SELECT oid FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> ALL ({kept})
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT 1 FROM %s)', one) INTO has_rows;
        IF has_rows THEN
            EXECUTE format('DELETE FROM %s', one);
        END IF;
    END LOOP;
END $$
"""


def instead_of_flush() -> None:
    """Let tests with `transaction=True` empty tables this way."""
    kept = ", ".join(f"'{table}'" for table in KEPT)

    def emptied(self: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(DELETE.format(kept=f"ARRAY[{kept}]"))

    TransactionTestCase._fixture_teardown = emptied
