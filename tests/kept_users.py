"""Users whose rows are stored once and copied into each test.

Creating a user takes 18 queries and about 20 ms, and nearly every test needs one. So the product's
own code creates each user once in a process. A test copies the rows with one query.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection, transaction
from psycopg import sql

SCHEMA = "kept_users"
_TIMES = ("date_joined", "created", "updated")  # a copied row was created now


def keep(name: str, create: Callable[[], object]) -> None:
    """Call `create`, keep every row that it inserted, and delete the rows again.

    The database's function `copy_NAME` inserts them with the same primary keys. The sequences are
    past these keys, so no other row gets one of them.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        all_tables = map(sql.Identifier, connection.introspection.table_names(cursor))
        empty = [table for table in all_tables if _is_empty(cursor, table)]
        create()
        filled = [table for table in empty if not _is_empty(cursor, table)]
        cursor.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(SCHEMA)))
        inserts = []
        for number, table in enumerate(filled):
            copy = sql.Identifier(SCHEMA, f"{name}_{number}")
            cursor.execute(sql.SQL("CREATE TABLE {} AS TABLE {}").format(copy, table))
            cursor.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(table))
            columns = [column.name for column in cursor.description]
            insert = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(
                table,
                sql.SQL(", ").join(map(sql.Identifier, columns)),
                sql.SQL(", ").join(
                    sql.SQL("now()") if column in _TIMES else sql.Identifier(column)
                    for column in columns
                ),
                copy,
            )
            inserts.append(insert)
        cursor.execute(
            # Without triggers: what they wrote is kept too.
            sql.SQL(
                "CREATE FUNCTION {}() RETURNS void LANGUAGE sql"
                " SET session_replication_role = replica AS {}"
            ).format(
                sql.Identifier(SCHEMA, f"copy_{name}"),
                sql.Literal(sql.SQL("; ").join(inserts).as_string(cursor.connection)),
            )
        )
        # Without triggers: revisions refuse to be deleted, and rows refer to each other.
        cursor.execute("SET LOCAL session_replication_role = replica")
        for table in filled:
            cursor.execute(sql.SQL("DELETE FROM {}").format(table))


def copied(name: str) -> Any:
    """Insert the kept rows of a user and return the user."""
    with connection.cursor() as cursor:
        function = sql.Identifier(SCHEMA, f"copy_{name}")
        cursor.execute(sql.SQL("SELECT {}()").format(function))
    return get_user_model().objects.get(username=name)


def _is_empty(cursor: Any, table: sql.Identifier) -> bool:
    cursor.execute(sql.SQL("SELECT NOT EXISTS (SELECT 1 FROM {})").format(table))
    return bool(cursor.fetchone()[0])
