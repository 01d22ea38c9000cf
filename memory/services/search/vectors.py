"""The tables for comparing vectors, if the database has the extension `vector`.

A trigger copies each row of memory_embedding to `embedding_<dimensions>` in the writer's
transaction. None of this is a migration, because Beacon also works on a Postgres without the
extension. `manage.py vectors` can be run again at any time.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import structlog
from django.apps import apps
from django.conf import settings
from django.core.cache import cache
from django.core.exceptions import EmptyResultSet
from django.db import DatabaseError, connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from beacon_site.db.advisory_locks import LockId, lock_until_commit
from beacon_site.embedded.places import BY_HAND
from beacon_site.net.errors import ProviderError, ended_within
from beacon_site.providers.llm.base import MAX_DIMENSIONS, Embedder
from beacon_site.text.cleaning import clean
from memory.models.search_index import Embedding, Recalled
from memory.services.llm import connections

logger = structlog.get_logger(__name__)

EXACT_UP_TO = 20_000  # vectors per owner; an exact scan of this many takes 20 to 40 ms
INDEXABLE = 2_000  # the most dimensions that pgvector's HNSW index supports

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


def prepare() -> tuple[str, dict[int, int], str]:
    """Create the extension if the server offers it, and bring all tables up to date.

    Return its version ("" if the database doesn't have it), the number of vectors in each table,
    and why the extension couldn't be created.
    """
    why = _make_extension()
    version = extension_version()
    if not version:
        return "", {}, why
    with transaction.atomic(), connection.cursor() as cursor:
        lock_until_commit(LockId.VECTOR_TABLES)
        cursor.execute(_FOLLOW)
        cursor.execute("SELECT DISTINCT dimensions FROM memory_embedding")
        sizes = {size for (size,) in cursor.fetchall()} | set(_sizes())
        for size in sorted(sizes):
            cursor.execute(_TABLE.format(table=table_of(size), size=size))
    for size in sizes:
        index_if_large(size)
    return version, {size: _count(size) for size in sorted(sizes)}, ""


def ensure_table(size: int) -> None:
    """Create the table for vectors with this many dimensions, if this database uses vectors."""
    if has_table(size) or not extension_version():
        return
    with transaction.atomic(), connection.cursor() as cursor:
        lock_until_commit(LockId.VECTOR_TABLES)
        cursor.execute(_FOLLOW)
        cursor.execute(_TABLE.format(table=table_of(size), size=size))


def index_if_large(size: int | None) -> None:
    """Create the index once an owner has too many vectors for an exact scan."""
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
        # This doesn't block writers, but waits for all open transactions. An index that was
        # interrupted halfway would never be used.
        # It takes hours for millions of vectors.
        cursor.execute("SET lock_timeout = 0")
        cursor.execute("SET statement_timeout = 0")
        try:
            cursor.execute(f"CREATE INDEX CONCURRENTLY {make}")
        finally:
            cursor.execute("RESET lock_timeout")
            cursor.execute("RESET statement_timeout")


def table_of(size: int) -> str:
    """Return the name of the table for this number of dimensions."""
    if not 0 < size <= MAX_DIMENSIONS:
        raise ValueError(f"no vector has {size} dimensions")
    return f"embedding_{int(size)}"


def extension_version() -> str:
    """Return the extension's version in this database, or "" if it is missing."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
        row = cursor.fetchone()
    return str(row[0]) if row else ""


def has_table(size: int) -> bool:
    """Return True if vectors with this many dimensions can be compared."""
    return _exists(table_of(size))


def has_index(size: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%s) AND indisvalid",
            [f"{table_of(size)}_hnsw"],
        )
        return cursor.fetchone() is not None


def counted(owner_id: int, model: str, size: int, types: Iterable[str]) -> dict[str, int]:
    """Return how many vectors the owner has of each type; one more than EXACT_UP_TO means more."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT named.type, (SELECT count(*) FROM (SELECT 1 FROM "  # noqa: S608  a table's own name  # nosec B608
            f"{table_of(size)} WHERE owner_id = %s AND model = %s AND record_type = named.type "
            "LIMIT %s) found) "
            "FROM unnest(%s::text[]) named (type)",
            [owner_id, model, EXACT_UP_TO + 1, list(types)],
        )
        return dict(cursor.fetchall())


def literal(vector: Sequence[float]) -> str:
    """Return a vector in the extension's text format."""
    return "[" + ",".join(f"{figure:.8g}" for figure in vector) + "]"


def _make_extension() -> str:
    """Create the extension if the server offers it; return the reason if that fails, or ""."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'")
        if cursor.fetchone() is None:
            return "it isn’t available on the server: install pgvector there"
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            lock_until_commit(LockId.VECTOR_TABLES)
            cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except DatabaseError as exc:  # usually missing permission
        return str(exc).strip().splitlines()[0]
    return ""


def _sizes() -> list[int]:
    """Return the dimensions that have a table."""
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


# --- searching by meaning ---

MAX_QUESTION_LENGTH = 2_000  # characters of a question that are embedded
REMEMBERED = 24 * 3600  # seconds for which a question's vector is cached
# Texts that are further apart are unrelated. In the models that we tried, unrelated texts had
# cosines of about 0, give or take a few hundredths.
FURTHEST = 1.3  # a cosine of 0.155
# longer than an endpoint may take, so that its error can be shown
PATIENCE = connections.ASKING_SECONDS + 1
# For a page or an agent, if the local model isn't loaded yet, which takes seconds. Tasks have time.
STARTING_PATIENCE = 0.2
# superseded records of a type that are compared, the most recently replaced first
MAX_REPLACED = 5_000
GIVEN_UP = 30  # seconds until a failed embedder is asked again


Params = tuple[Any, ...]
Sql = tuple[str, Params]
# Builds the SQL from the rows that can be found, the owner with model and type, and the question's
# vector. The limit is its last parameter.
Statement = Callable[[Sql, Params, Sequence[float]], Sql]


class Neighbor(NamedTuple):
    """A record and its distance from the question: L2 between unit vectors, 0 to 2."""

    type: str
    id: uuid.UUID
    distance: float


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """The `allowed` rows of each type to compare; of some types also the `replaced` ones."""

    allowed: Mapping[str, QuerySet[Any]]
    replaced: Mapping[str, QuerySet[Any]] = field(default_factory=dict)


class Unavailable(Exception):
    """Semantic search isn't available. The message says why, for the user."""


def nearest_each(
    owner: Any, text: str, looks: Iterable[VectorQuery], limit: int
) -> list[list[Neighbor]]:
    """Return the records nearest to `text` for each look, at most `limit` of each type, nearest first.

    Records further away than FURTHEST are left out. `allowed` can't add other owners' records, or
    trashed, expired or superseded ones. Superseded records are only compared if they are in
    `replaced`; the caller then returns their replacements.
    Raises Unavailable, and nothing else.
    """
    embedder = connections.embedder(for_question=True)
    if embedder is None:
        raise Unavailable(connections.why_no_embedder())
    value = " ".join(clean(text)[0].split())[:MAX_QUESTION_LENGTH]
    if not value or limit < 1:
        return [[] for _look in looks]
    if not extension_version():
        raise Unavailable(
            _(
                "Results match words only, because the database has no “vector” extension. Install pgvector on the database server and run “%(manage)s vectors”."
            )
            % BY_HAND
        )
    vector = _vector_of(value, embedder)
    try:
        with transaction.atomic():
            compared = _CompareTarget(owner, embedder.model, vector)
            return _looked_up(compared, list(looks), limit)
    except DatabaseError as exc:
        logger.warning("vectors not searched", error=str(exc).splitlines()[0])
        raise Unavailable(
            _("Results match words only, because the database couldn’t compare vectors.")
        ) from exc


def nearest_to(record: Recalled, look: VectorQuery, limit: int) -> list[Neighbor] | None:
    """Return the records nearest to a record by its stored vector, itself included.

    At most `limit` of each type, nearest first. None if it has no vector yet, or if this database
    can't compare vectors. No embedder is asked.
    """
    stored = Embedding.objects.about([record]).filter(owner=record.owner_id)
    known = stored.values_list("model", "values").first()
    if known is None or limit < 1 or not extension_version():
        return None
    try:
        with transaction.atomic():
            compared = _CompareTarget(record.owner, *known)
            return _looked_up(compared, [look], limit)[0]
    except DatabaseError as exc:
        logger.warning("vectors not compared", error=str(exc).splitlines()[0])
        return None


# --- the question's vector ------------------------------------------------------------------------


def _vector_of(text: str, embedder: Embedder) -> list[float]:
    """Return a question's vector, from the cache if possible. Raises Unavailable."""
    digest = hashlib.sha256(f"{embedder.model}\0{text}".encode("utf-8", "replace")).hexdigest()
    key, failing = f"vector:{digest}", f"embedder-fails:{embedder.model}"
    known = _remembered([key, failing])
    if key in known:
        return list(known[key])
    if failing in known:
        raise Unavailable(str(known[failing]))
    is_ready = getattr(embedder, "is_ready", True)
    try:
        is_short = not is_ready and settings.BEACON_PROCESS in {"web", "mcp"}
        patience = STARTING_PATIENCE if is_short else PATIENCE
        vector = ended_within(patience, lambda: embedder.embed([text]))[0]
    except TimeoutError as exc:  # the local model keeps loading and can answer the next question
        if not is_ready:
            raise Unavailable(
                _(
                    "Results match words only, because the local embedder is starting. Search again in a few seconds to use semantic search."
                )
            ) from exc
        message = _(
            "Results match words only, because the embedder didn’t respond within %(seconds)d seconds."
        )
        raise Unavailable(message % {"seconds": PATIENCE}) from exc
    except ProviderError as exc:
        message = _("Results match words only, because the embedder isn’t responding: %(why)s")
        reason = message % {"why": exc}
        _remember(failing, reason, GIVEN_UP)
        raise Unavailable(reason) from exc
    _remember(key, vector, REMEMBERED)
    return vector


def _remembered(keys: list[str]) -> dict[str, Any]:
    try:
        return dict(cache.get_many(keys))
    except RedisError:  # the cache only saves time
        return {}


def _remember(key: str, value: object, seconds: int) -> None:
    try:
        cache.set(key, value, seconds)
    except RedisError as exc:
        logger.info("query vector not cached", error=type(exc).__name__)


# --- queries --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _CompareTarget:
    """What a question's vector is compared with: an owner's records and a model."""

    owner: Any
    model: str
    vector: Sequence[float]

    def ask(
        self, record_type: str, rows: QuerySet[Any], limit: int, statement: Statement
    ) -> list[Neighbor]:
        """Return the nearest rows, at most `limit`."""
        try:
            allowed = rows.order_by().values("pk").query.sql_with_params()
        except EmptyResultSet:
            return []
        of_owner = (self.owner.pk, self.model, record_type)
        sql, params = statement(allowed, of_owner, self.vector)
        return self._found(record_type, sql, [*params, limit])

    def ask_for(self, record_type: str, rows: QuerySet[Any], limit: int) -> list[Neighbor]:
        """Return the nearest of these records, at most `limit`."""
        try:
            ids, params = rows.values("pk").query.sql_with_params()
        except EmptyResultSet:
            return []
        # `+ 0` keeps the planner from using the index, which finds the nearest vectors of all
        # owners, possibly none of these. As an array, the keys are looked up once, before anything
        # else; a list of thousands of them in the statement would take longer than comparing them.
        sql = (
            "SELECT object_id, (vector <-> %s) + 0 AS distance "  # noqa: S608  a table's own name  # nosec B608
            f"FROM {table_of(len(self.vector))} WHERE {_OF_OWNER} AND object_id = ANY(ARRAY({ids})) "
            "ORDER BY distance, object_id LIMIT %s"
        )
        of_owner = (self.owner.pk, self.model, record_type)
        return self._found(record_type, sql, [literal(self.vector), *of_owner, *params, limit])

    def _found(self, record_type: str, sql: str, params: list[Any]) -> list[Neighbor]:
        with connection.cursor() as cursor:
            cursor.execute(sql, params)
            found = cursor.fetchall()
        return [Neighbor(record_type, pk, float(far)) for pk, far in found if far < FURTHEST]


def _looked_up(
    compared: _CompareTarget, looks: Sequence[VectorQuery], limit: int
) -> list[list[Neighbor]]:
    size = len(compared.vector)
    if not has_table(size):
        return [[] for _look in looks]
    known = recalled_models().keys() & {name for look in looks for name in look.allowed}
    counts = counted(compared.owner.pk, compared.model, size, known)
    if any(count > EXACT_UP_TO for count in counts.values()) and has_index(size):
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL hnsw.iterative_scan = relaxed_order")
            cursor.execute("SET LOCAL hnsw.max_scan_tuples = 200000")
        indexed = {name for name, count in counts.items() if count > EXACT_UP_TO}
    else:
        indexed = set()
    statements = {
        name: _by_index if name in indexed else _exact for name, count in counts.items() if count
    }
    return [_of_look(compared, look, limit, statements) for look in looks]


def _of_look(
    compared: _CompareTarget, look: VectorQuery, limit: int, statements: Mapping[str, Statement]
) -> list[Neighbor]:
    """Return the nearest records for one look, across its types with vectors."""
    results: list[Neighbor] = []
    for record_type, allowed in look.allowed.items():
        if record_type not in statements:
            continue
        rows = recallable_records(allowed, compared.owner)
        results += compared.ask(record_type, rows, limit, statements[record_type])
        if record_type in look.replaced:
            # A separate query without the index: with few matching rows an index scan is slow.
            last = look.replaced[record_type].filter(owner=compared.owner).order_by("-updated")
            results += compared.ask_for(record_type, last[:MAX_REPLACED], limit)
    return sorted(results, key=lambda near: (near.distance, str(near.id)))


_NEAR = "SELECT object_id, distance FROM near ORDER BY distance, object_id"
_OF_OWNER = "owner_id = %s AND model = %s AND record_type = %s"


def _exact(allowed: Sql, of_owner: Params, vector: Sequence[float]) -> Sql:
    """Return the statement that compares all of an owner's vectors.

    Postgres never runs a FULL JOIN as a nested loop. It would run any other join that way for
    records written since the last ANALYZE, because it expects a single row, and the time would grow
    with the square or cube of the number of records. num_nulls() keeps the planner from turning the
    FULL JOIN into an inner join.
    """
    rows, params = allowed
    table = table_of(len(vector))
    sql = (
        f"WITH allowed (id) AS MATERIALIZED ({rows}), "  # noqa: S608  a table's own name and a queryset's own SQL  # nosec B608
        "near AS MATERIALIZED (SELECT object_id, vector <-> %s AS distance "
        f"FROM (SELECT object_id, vector FROM {table} WHERE {_OF_OWNER}) made "
        "FULL JOIN allowed ON allowed.id = made.object_id "
        "WHERE num_nulls(allowed.id, made.object_id) = 0 ORDER BY distance LIMIT %s) "
        f"{_NEAR}"
    )
    return sql, (*params, literal(vector), *of_owner)


def _by_index(allowed: Sql, of_owner: Params, vector: Sequence[float]) -> Sql:
    """Return the statement for an owner with many vectors, which uses the index.

    Each record is looked up by its key: OFFSET 0 keeps the planner from looking it up by its owner,
    which it considers as fast for records written since the last ANALYZE, and then reads all of them.
    """
    rows, params = allowed
    record = rows.split(" FROM ", 1)[1].split(" ", 1)[0]
    by_key = f"(SELECT * FROM {record} WHERE id = made.object_id OFFSET 0) {record}"  # noqa: S608  a table's own name  # nosec B608
    kept = rows.replace(f" FROM {record}", f" FROM {by_key}", 1)
    sql = (
        "WITH near AS MATERIALIZED ("  # noqa: S608  a table's own name  # nosec B608
        f"SELECT object_id, vector <-> %s AS distance FROM {table_of(len(vector))} made "
        f"WHERE {_OF_OWNER} AND EXISTS ({kept}) ORDER BY distance LIMIT %s) {_NEAR}"
    )
    return sql, (literal(vector), *of_owner, *params)


def recallable_records(rows: QuerySet[Any], owner: Any) -> QuerySet[Any]:
    """Keep the owner's records that recall can return: not trashed, expired or superseded."""
    names = {field.name for field in rows.model._meta.concrete_fields}
    rows = rows.filter(owner=owner, trashed_at=None)
    if "superseded_by" in names:
        rows = rows.filter(superseded_by=None)
    if "expires_at" in names:
        rows = rows.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))
    return rows


def recalled_models() -> dict[str, type[Recalled]]:
    """Return the models whose records have vectors, by their type in recall."""
    found = (model for model in apps.get_models() if issubclass(model, Recalled))
    return {model().search_type(): model for model in found}
