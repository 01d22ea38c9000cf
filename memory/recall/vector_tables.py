"""The tables in which vectors are compared, where the database has the extension `vector`.

`embedding_<dimensions>` follows memory_embedding by a trigger, in the writer's own transaction.
None of it is a migration: Beacon works the same on a Postgres without the extension, and
`manage.py vectors` may be run at any time, again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from django.db import DatabaseError, connection, transaction

from beacon_site.providers.embeddings import MOST_DIMENSIONS
from memory.advisory_locks import LockId, lock_until_commit

logger = structlog.get_logger(__name__)

EXACT_UP_TO = 20_000  # vectors of one owner: an exact scan of so many takes 20 to 40 ms
INDEXABLE = 2_000  # dimensions that pgvector's HNSW takes

_FOLLOW = """
CREATE OR REPLACE FUNCTION memory_embedding_follow() RETURNS trigger LANGUAGE plpgsql AS $body$
DECLARE
    place text;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        place := 'embedding_' || OLD.dimensions;
        IF to_regclass(place) IS NOT NULL THEN
            EXECUTE format('DELETE FROM %I WHERE id = $1', place) USING OLD.id;
        END IF;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        place := 'embedding_' || NEW.dimensions;
        IF to_regclass(place) IS NOT NULL THEN
            EXECUTE format('INSERT INTO %I VALUES ($1, $2, $3, $4, $5, $6::vector)', place)
              USING NEW.id, NEW.owner_id, NEW.record_type, NEW.object_id, NEW.model, NEW.values;
        END IF;
    END IF;
    RETURN NULL;
END
$body$;
DROP TRIGGER IF EXISTS memory_embedding_follow ON memory_embedding;
CREATE TRIGGER memory_embedding_follow AFTER INSERT OR UPDATE OR DELETE ON memory_embedding
    FOR EACH ROW EXECUTE FUNCTION memory_embedding_follow();
"""
_TABLE = """
CREATE TABLE IF NOT EXISTS {table} (
    id bigint PRIMARY KEY,
    owner_id bigint NOT NULL,
    record_type text NOT NULL,
    object_id uuid NOT NULL,
    model text NOT NULL,
    vector vector({size}) NOT NULL
);
CREATE INDEX IF NOT EXISTS {table}_owner ON {table} (owner_id, model, record_type);
CREATE INDEX IF NOT EXISTS {table}_object ON {table} (object_id);
DELETE FROM {table} held WHERE NOT EXISTS (
    SELECT 1 FROM memory_embedding made WHERE made.id = held.id AND made.dimensions = {size});
INSERT INTO {table} SELECT id, owner_id, record_type, object_id, model, values::vector
  FROM memory_embedding made WHERE made.dimensions = {size}
    ON CONFLICT (id) DO NOTHING;
"""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What `prepare` found: the extension's version, and how many vectors each table holds.

    `version` is "" where the database has no extension; `why` says why it could not be made.
    """

    version: str
    tables: dict[int, int]
    why: str = ""


def prepare() -> Prepared:
    """Make the extension where the server offers it, and bring all tables up to date."""
    why = _make_extension()
    version = extension_version()
    if not version:
        return Prepared("", {}, why)
    with transaction.atomic(), connection.cursor() as cursor:
        lock_until_commit(LockId.VECTOR_TABLES)
        cursor.execute(_FOLLOW)
        cursor.execute("SELECT DISTINCT dimensions FROM memory_embedding")
        sizes = {size for (size,) in cursor.fetchall()} | set(_sizes())
        for size in sorted(sizes):
            cursor.execute(_TABLE.format(table=table_of(size), size=size))
    for size in sizes:
        index_if_large(size)
    return Prepared(version, {size: _count(size) for size in sorted(sizes)})


def ensure_table(size: int) -> None:
    """Make the table for vectors of so many dimensions, if vectors are compared here at all."""
    if has_table(size) or not extension_version():
        return
    with transaction.atomic(), connection.cursor() as cursor:
        lock_until_commit(LockId.VECTOR_TABLES)
        cursor.execute(_FOLLOW)
        cursor.execute(_TABLE.format(table=table_of(size), size=size))


def index_if_large(size: int | None) -> None:
    """Make the index once somebody has more vectors than are scanned one by one."""
    if size is None or size > INDEXABLE or not has_table(size) or has_index(size):
        return
    table = table_of(size)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT 1 FROM {table} GROUP BY owner_id HAVING count(*) > %s LIMIT 1",  # noqa: S608  a table's own name  # nosec B608
            [EXACT_UP_TO],
        )
        if cursor.fetchone() is None:
            return
        make = f"IF NOT EXISTS {table}_hnsw ON {table} USING hnsw (vector vector_l2_ops)"
        if connection.in_atomic_block:
            cursor.execute(f"CREATE INDEX {make}")
            return
        # Writers are not held up, but it waits for every transaction that is open: an index that
        # was given up half made would never be used.
        cursor.execute("SET lock_timeout = 0")
        try:
            cursor.execute(f"CREATE INDEX CONCURRENTLY {make}")
        finally:
            cursor.execute("RESET lock_timeout")


def table_of(size: int) -> str:
    """Return the name of the table for vectors of so many dimensions."""
    if not 0 < size <= MOST_DIMENSIONS:
        raise ValueError(f"no vector has {size} dimensions")
    return f"embedding_{int(size)}"


def extension_version() -> str:
    """Return the version of the extension in this database, "" if there is none."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
        row = cursor.fetchone()
    return str(row[0]) if row else ""


def has_table(size: int) -> bool:
    """Whether vectors of so many dimensions can be compared."""
    return _exists(table_of(size))


def has_index(size: int) -> bool:
    """Whether they can be looked up without a scan; an index that is still built is none."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%s) AND indisvalid",
            [f"{table_of(size)}_hnsw"],
        )
        return cursor.fetchone() is not None


def is_large(owner_id: int, model: str, size: int) -> bool:
    """Whether the owner has more vectors than are scanned one by one."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM {table_of(size)} "  # noqa: S608  a table's own name  # nosec B608
            "WHERE owner_id = %s AND model = %s LIMIT %s) counted",
            [owner_id, model, EXACT_UP_TO + 1],
        )
        return bool(cursor.fetchone()[0] > EXACT_UP_TO)


def literal(vector: Sequence[float]) -> str:
    """Return a vector as the extension reads one."""
    return "[" + ",".join(f"{figure:.8g}" for figure in vector) + "]"


def _make_extension() -> str:
    """Make the extension if the server offers it; return why that could not be, "" if it could."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'")
        if cursor.fetchone() is None:
            return "the server does not offer it: install pgvector there"
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            lock_until_commit(LockId.VECTOR_TABLES)
            cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except DatabaseError as exc:  # most often the right to do so
        return str(exc).strip().splitlines()[0]
    return ""


def _sizes() -> list[int]:
    """Return the dimensions for which there are tables."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT substring(relname from 'embedding_(\\d+)$')::int FROM pg_class "
            "WHERE relkind = 'r' AND relname ~ '^embedding_\\d+$' "
            "AND relnamespace = current_schema()::regnamespace"
        )
        return [size for (size,) in cursor.fetchall()]


def _count(size: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table_of(size)}")  # noqa: S608  a table's own name  # nosec B608
        return int(cursor.fetchone()[0])


def _exists(name: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [name])
        return bool(cursor.fetchone()[0])
