"""The rows of a database as one stream of SQL, and back: the inner part of a backup.

Postgres' own pg_dump writes the stream, of one moment.  It is brought back by statements of our own
connection and never by psql: in psql a line that begins with a backslash is a command of the
machine, and a file that comes from somewhere must not give any.  A password goes to pg_dump by its
environment, since every user of the machine may read a command line.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, NamedTuple, Protocol

import psycopg
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connection
from django.db.backends.postgresql.client import DatabaseClient
from django.db.utils import ConnectionHandler
from psycopg import sql

from beacon_site.embedded import EmbeddedError
from beacon_site.embedded.binaries import client_program

OTHERS = """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
    AND backend_type = 'client backend' AND pid <> pg_backend_pid()"""
CHUNK = 1024 * 1024
# Tables of vectors as pgvector compares them: made anew from memory_embedding (`manage.py vectors`).
DERIVED = "embedding_[0-9]*"
LEAVING = 20  # looks, a tenth of a second apart
LOCK_SECONDS = 20  # for which a restore waits for somebody who still holds a table
_TABLES = """SELECT relname FROM pg_class table_ WHERE relkind IN ('r', 'p')
    AND relnamespace = %s::regnamespace AND relname !~ '^embedding_[0-9]+$' AND NOT EXISTS (
    SELECT 1 FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = table_.oid
    AND deptype = 'e') ORDER BY relname"""
# As text a row looks the same wherever it is read.
_SAME_TEXT = """SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO, MDY';
    SET LOCAL intervalstyle = 'postgres'; SET LOCAL extra_float_digits = 1;
    SET LOCAL bytea_output = 'hex'"""
# A sum, since rows have no order; of sixteen digits, so that no two changes hide each other.
_COUNT = sql.SQL(
    "SELECT count(*), coalesce(sum(('x' || left(md5(whole_row::text), 16))::bit(64)::bigint), 0)"
    "::text FROM {table} AS whole_row"
)
# Everything of the schema but what an extension brought; in an order in which nothing is in the way.
_WIPE = """
DO $wipe$
DECLARE
    act text;
    acts text[];
    here CONSTANT oid := {schema}::regnamespace;
BEGIN
    SELECT array_agg(words ORDER BY turn) INTO acts FROM (
        SELECT CASE WHEN relkind IN ('v', 'm') THEN 1 WHEN relkind = 'S' THEN 3 ELSE 2 END AS turn,
               format('DROP %s IF EXISTS %I.%I CASCADE', CASE relkind WHEN 'v' THEN 'VIEW'
                      WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
                      {schema}, relname) AS words
          FROM pg_class one WHERE relnamespace = here AND relkind IN ('r', 'p', 'v', 'm', 'S')
           AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE classid = 'pg_class'::regclass
                           AND objid = one.oid AND deptype = 'e')
        UNION ALL
        SELECT 4, format('DROP ROUTINE IF EXISTS %s CASCADE', one.oid::regprocedure)
          FROM pg_proc one WHERE pronamespace = here
           AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE classid = 'pg_proc'::regclass
                           AND objid = one.oid AND deptype = 'e')
    ) found;
    FOREACH act IN ARRAY coalesce(acts, ARRAY[]::text[]) LOOP EXECUTE act; END LOOP;
END
$wipe$
"""
_COPY = re.compile(rb"COPY .+ FROM stdin;\r?\n")


class DumpFailed(RuntimeError):
    """The database was not written, or not brought back; the text says why."""


class Writable(Protocol):
    """Where bytes go."""

    def write(self, data: bytes, /) -> int:
        """Take them."""
        ...


class Counted(NamedTuple):
    """What a table holds: how many rows, and a figure that another row would change."""

    rows: int
    digest: str


@contextmanager
def opened(database: Mapping[str, Any]) -> Iterator[Any]:
    """Open a connection to the database for this alone.  Raises DumpFailed."""
    wrapper = ConnectionHandler({DEFAULT_DB_ALIAS: dict(database)})[DEFAULT_DB_ALIAS]
    try:
        raw = wrapper.get_new_connection(wrapper.get_connection_params())
    except (psycopg.Error, DatabaseError) as exc:
        raise DumpFailed(f"The database cannot be reached: {str(exc).strip()}") from exc
    try:
        raw.autocommit = True
        yield raw
    except psycopg.Error as exc:
        raise DumpFailed(f"The database refused: {str(exc).strip()}") from exc
    finally:
        raw.close()


@contextmanager
def moment(raw: Any) -> Iterator[str]:
    """Hold one moment of the database, whatever is written meanwhile; give its name for `dump`."""
    raw.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    raw.read_only = True
    with raw.transaction():
        yield str(raw.execute("SELECT pg_export_snapshot()").fetchone()[0])


def schema_of(raw: Any) -> str:
    """Return the schema in which Beacon's tables are."""
    return str(raw.execute("SELECT current_schema()").fetchone()[0])


def tables(raw: Any, schema: str) -> list[str]:
    """Return the names of the tables that are dumped, with their rows or without."""
    return [name for (name,) in raw.execute(_TABLES, [schema])]


def count(raw: Any, schema: str, table: str) -> Counted:
    """Count a table's rows and sum them up; in a transaction, whose settings this changes."""
    raw.execute(_SAME_TEXT)
    asked = _COUNT.format(table=sql.Identifier(schema, table))
    rows, digest = raw.execute(asked).fetchone()
    return Counted(int(rows), str(digest))


def dump(
    database: Mapping[str, Any],
    out: Writable,
    *,
    schema: str,
    snapshot: str,
    without_rows: Iterable[str] = (),
) -> None:
    """Write the schema as it was at that moment to `out`.  Raises DumpFailed, OSError."""
    command, secret = _pg_dump(database)
    command += ["--format=plain", "--no-owner", "--no-privileges", f"--snapshot={snapshot}"]
    command += [f'--schema="{schema}"', f'--exclude-table="{schema}".{DERIVED}']
    command += [f'--exclude-table-data="{schema}".{name}' for name in without_rows]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, env=secret, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        )
        assert process.stdout is not None  # noqa: S101 - tells the type checker what PIPE means  # nosec B101
        try:
            while chunk := process.stdout.read(CHUNK):
                out.write(chunk)
        finally:
            process.stdout.close()  # one whose reader has failed ends by that
            ended = process.wait()
        if ended:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip() or f"it ended with {ended}"
            raise DumpFailed(f"pg_dump did not succeed: {said}")


def wipe(raw: Any, schema: str) -> None:
    """Take everything of Beacon's out of the schema; for a transaction that then fills it."""
    raw.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
    raw.execute(sql.SQL(_WIPE).format(schema=sql.Literal(schema)))


def load(raw: Any, script: IO[bytes], *, schema: str) -> None:
    """Carry out what `dump` wrote; for a transaction.  Raises DumpFailed where it breaks off."""
    statements: list[bytes] = []
    # A Postgres older than the one that wrote it knows no such setting; and the schema is there.
    unwanted = {b"SET transaction_timeout = 0;", f"CREATE SCHEMA {schema};".encode()}
    with raw.cursor() as cursor:
        while line := script.readline():
            if _COPY.fullmatch(line):
                cursor.execute(b"".join(statements))
                statements = []
                with cursor.copy(line.strip().rstrip(b";")) as rows:
                    for data in _until_the_end(script):
                        rows.write(data)
            elif not line.startswith(b"\\") and line.strip() not in unwanted:
                statements.append(line)
        cursor.execute(b"".join(statements))


def _until_the_end(script: IO[bytes]) -> Iterator[bytes]:
    """Yield a table's rows, some at a time, up to the line that ends them."""
    some: list[bytes] = []
    size = 0
    while (line := script.readline()) and line.rstrip(b"\r\n") != b"\\.":
        some.append(line)
        size += len(line)
        if size > CHUNK:
            yield b"".join(some)
            some, size = [], 0
    if not line:
        raise DumpFailed("It breaks off within the rows of a table.")
    yield b"".join(some)


def is_in_use() -> bool:
    """Whether others are connected to the database: Beacon's processes, mostly.

    Those that left just now are waited for: Postgres lists them for a moment longer.
    """
    for left in reversed(range(LEAVING)):
        with connection.cursor() as cursor:
            cursor.execute(OTHERS)
            if not cursor.fetchone()[0]:
                return False
        time.sleep(0.1 if left else 0)
    return True


def _pg_dump(database: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Return pg_dump's command line up to the database, and its environment."""
    words, secret = DatabaseClient.settings_to_cmd_args_env(dict(database), [])
    try:
        program = client_program("pg_dump")
    except EmbeddedError as exc:
        raise DumpFailed(str(exc)) from exc
    return (
        [program, *words[1:-1], f"--dbname={words[-1]}"],
        {**os.environ, **(secret or {})},
    )
