"""Users whose rows are stored once and copied into each test.

Creating a user takes 18 queries and about 20 ms, and nearly every test needs one. So the product's
own code creates each user once in a process. A test copies the rows with one query, under new keys:
what other tests left in the cache belongs to other users.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection, transaction
from psycopg import sql

from memory.models import accounts

SCHEMA = "kept_users"
TIMES = ("date_joined", "created", "updated")  # a copied row was created now
OWNERS = ("owner_id", "user_id")
UUID = 2950  # PostgreSQL's number of the type
_made_by: dict[str, tuple[Callable[[], Any], list[Any]]] = {}


def keep(name: str, create: Callable[[], Any]) -> None:
    """Call `create`, keep every row that it inserted, and delete the rows again.

    The database's function `copy_NAME` inserts them for a new user ID and with new UUIDs. Other
    keys stay: the sequences are past them.
    """
    _made_by[name] = create, list(accounts.ON_ACCOUNT_CREATE)
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
            columns = list(cursor.description)
            insert = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(
                table,
                sql.SQL(", ").join(sql.Identifier(column.name) for column in columns),
                sql.SQL(", ").join(_copied_value(table, column) for column in columns),
                copy,
            )
            inserts.append(insert)
        statements = sql.SQL("; ").join(inserts).as_string(cursor.connection)
        cursor.execute(
            # Without triggers: what they wrote is kept too. PL/pgSQL plans each statement only once.
            sql.SQL(
                "CREATE FUNCTION {}(bigint) RETURNS void LANGUAGE plpgsql"
                " SET session_replication_role = replica AS {}"
            ).format(
                sql.Identifier(SCHEMA, f"copy_{name}"),
                sql.Literal(f"BEGIN {statements}; END"),
            )
        )
        # Without triggers: revisions refuse to be deleted, and rows refer to each other.
        cursor.execute("SET LOCAL session_replication_role = replica")
        for table in filled:
            cursor.execute(sql.SQL("DELETE FROM {}").format(table))


def copied(name: str) -> Any:
    """Insert the kept rows of a user and return the user.

    A test that wants other first rows, or memory files on disk, gets a user that is really created.
    """
    create, first_rows = _made_by[name]
    if first_rows != accounts.ON_ACCOUNT_CREATE or settings.BEACON_MIRROR_DIR:
        return create()
    with connection.cursor() as cursor:
        new_key = "nextval(pg_get_serial_sequence('memory_user', 'id'))"
        function = sql.Identifier(SCHEMA, f"copy_{name}")
        cursor.execute(
            sql.SQL("SELECT key, {}(key) FROM {} AS key").format(function, sql.SQL(new_key))
        )
        key, _nothing = cursor.fetchone()
    return get_user_model().objects.get(pk=key)


def _copied_value(table: sql.Identifier, column: Any) -> sql.Composable:
    name = sql.Identifier(column.name)
    if column.name in OWNERS or (column.name == "id" and table == sql.Identifier("memory_user")):
        return sql.SQL("$1")
    if column.type_code == UUID:
        return sql.SQL("md5({}::text || $1)::uuid").format(name)
    return sql.SQL("now()") if column.name in TIMES else name


def _is_empty(cursor: Any, table: sql.Identifier) -> bool:
    cursor.execute(sql.SQL("SELECT NOT EXISTS (SELECT 1 FROM {})").format(table))
    return bool(cursor.fetchone()[0])
