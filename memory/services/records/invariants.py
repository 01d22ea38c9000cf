"""What must always be true of the stored data: a table of invariants, which `manage.py verify` checks.

Each invariant finds the rows that break it, by SQL where one statement can. Research adds its own
(`research.services.extensions.invariants`). A fix uses the acts that keep the data right anyway, so it can run at any
time, also while Beacon runs.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pgtrigger
import structlog
from django.apps import apps
from django.core.cache import cache
from django.db import connection, transaction
from django.db.models import Exists, F, Func, IntegerField, OuterRef, Subquery
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from redis.exceptions import RedisError

from beacon_site.db.errors import allow_long_transaction
from memory.models import (
    Archive,
    Embedding,
    EmbeddingDue,
    MemoryFile,
    Remembered,
    SearchEntry,
    SearchSpace,
    User,
)
from memory.services.files import mirror
from memory.services.llm import connections
from memory.services.search import bm25, embedding
from memory.services.search.kinds import KINDS
from memory.services.search.vectors import recalled_models

logger = structlog.get_logger(__name__)

LAST_RESULT = "verify:last"  # in the cache, for System status
KEPT_SECONDS = 30 * 24 * 3600
FRESH_SECONDS = 3600.0  # an upload's file exists before its row

Rows = Sequence[tuple[Any, ...]]


class Invariant(NamedTuple):
    """`find` is SQL, or a function, that returns the rows that break the invariant.

    Fill `todo` with BY_HAND. `reads_everything` marks slow ones, which the daily check skips.
    """

    name: str
    find: str | Callable[[], Iterable[tuple[Any, ...]]]
    todo: Any
    fix: Callable[[Rows], object] | None = None
    sentence: Any = ""
    reads_everything: bool = False

    def broken_by(self) -> Rows:
        """Return the rows that break it, all from one snapshot of the database."""
        is_outermost = not connection.in_atomic_block
        with transaction.atomic(), connection.cursor() as cursor:
            if is_outermost:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            allow_long_transaction()
            if not isinstance(self.find, str):
                return list(self.find())
            cursor.execute(self.find)
            return list(cursor.fetchall())


class Result(NamedTuple):
    """`rows` still break the invariant; `fixed` counts those that no longer do."""

    invariant: Invariant
    rows: Rows
    fixed: int = 0


def verify(*, fix: bool = False, quick: bool = False) -> Iterator[Result]:
    """Check every invariant, with `fix` also repair, and store the result for System status.

    `quick` skips those that read everything; System status keeps their last result.
    """
    broken: list[str] = []
    skipped: set[str] = set()
    for invariant in INVARIANTS:
        if quick and invariant.reads_everything:
            skipped.add(invariant.name)
            continue
        rows = invariant.broken_by()
        count = len(rows)
        if rows and fix and invariant.fix is not None:
            invariant.fix(rows)
            rows = invariant.broken_by()
        if rows:
            broken.append(invariant.name)
        yield Result(invariant, rows, max(count - len(rows), 0))
    try:
        last = cache.get(LAST_RESULT) or {"broken": []}
        broken += [name for name in last["broken"] if name in skipped]
        cache.set(LAST_RESULT, {"at": timezone.now(), "broken": broken}, KEPT_SECONDS)
    except (RedisError, OSError):
        logger.info("result of verify not saved")


# --- triggers, history ----------------------------------------------------------------------------


def _wrong_triggers() -> Iterator[tuple[Any, ...]]:
    """Yield the triggers that are missing, disabled, or of another version of Beacon."""
    for model, trigger in pgtrigger.registered():
        status, is_enabled = trigger.get_installation_status(model)
        if status != "INSTALLED" or not is_enabled:
            yield trigger.get_uri(model), status.lower() if is_enabled else "disabled"


def _install_triggers(rows: Rows) -> None:
    uris = [uri for uri, _status in rows]
    pgtrigger.install(*uris)
    pgtrigger.enable(*uris)


# A record that was never changed can have no history at all (a report, a stored page). A purge may
# cut text out of older versions, never out of the last one.
_HISTORY = """
SELECT '{type}', record.id, record.version, history.last
  FROM {table} record LEFT JOIN (
       SELECT record_id, max(version) AS last, count(*) AS count, min(version) AS first
         FROM memory_revision WHERE record_type = '{type}' GROUP BY 1) history
    ON history.record_id = record.id
 WHERE coalesce(history.last, 1) <> record.version
    OR history.count <> history.last - history.first + 1
    OR EXISTS (
       SELECT 1 FROM memory_revision revision, jsonb_each_text(revision.after) AS field
        WHERE revision.record_type = '{type}' AND revision.record_id = record.id
          AND revision.version = record.version AND field.key IN ('title', 'content', 'text', 'body')
          AND to_jsonb(record) ->> field.key <> field.value)
"""


def _wrong_histories() -> Iterator[tuple[Any, ...]]:
    for model in apps.get_models():
        if issubclass(model, Remembered) and not model.IS_PART:
            with connection.cursor() as cursor:
                cursor.execute(
                    _HISTORY.format(type=model.record_type(), table=model._meta.db_table)
                )
                yield from cursor.fetchall()


# --- search index ---------------------------------------------------------------------------------


def _wrong_entries() -> Iterator[tuple[Any, ...]]:
    """Yield owner, type and id of records without their entry, and of entries without a record."""
    for search_type, rows in bm25.indexed_rows().items():
        # As a subquery, since with a join the planner would read all entries.
        space = SearchSpace.objects.filter(
            owner=OuterRef(OuterRef("owner")), record_type=search_type
        )
        # A search uses these to leave out what an agent must not see. Documents have none of them.
        marks = ["trust", "sensitivity"] if search_type in KINDS else []
        if hasattr(rows.model, "paused"):
            marks.append("paused")
        own = SearchEntry.objects.filter(
            space_id=Subquery(space.values("pk")),
            record_id=OuterRef("pk"),
            **{name: OuterRef(name) for name in marks},
        )
        for owner, key in rows.filter(~Exists(own)).order_by().values_list("owner_id", "pk"):
            yield owner, search_type, key
        record = rows.filter(pk=OuterRef("record_id"), owner=OuterRef("space__owner"))
        orphans = SearchEntry.objects.filter(~Exists(record), space__record_type=search_type)
        for owner, key in orphans.values_list("space__owner", "record_id"):
            yield owner, search_type, key


# A term's bounds may be too wide, which only costs time, but never too narrow: results would be lost.
_WRONG_FIGURES = """
SELECT space.owner_id, space.record_type FROM memory_searchspace space CROSS JOIN LATERAL (
       SELECT count(*) AS documents, coalesce(sum(entry.length), 0) AS length
         FROM memory_searchentry entry WHERE entry.space_id = space.id) counted
 WHERE space.documents <> counted.documents OR space.length <> counted.length
    OR EXISTS (
       SELECT 1 FROM (SELECT lexeme, documents, max_count, min_length FROM memory_searchterm
                       WHERE space_id = space.id) held
         FULL JOIN (SELECT word.lexeme COLLATE "C" AS lexeme, count(*) AS documents,
                           coalesce(max(cardinality(word.positions)), 1) AS max_count,
                           min(entry.length) AS min_length
                      FROM memory_searchentry entry, unnest(entry.words) word
                     WHERE entry.space_id = space.id GROUP BY 1) real USING (lexeme)
        WHERE coalesce(held.documents, 0) <> coalesce(real.documents, 0)
           OR held.max_count < real.max_count OR held.min_length > real.min_length)
 ORDER BY 1
"""


def _rebuild(rows: Rows) -> None:
    """Rebuild the search index of the owners that the rows begin with."""
    for owner in User.objects.filter(pk__in={row[0] for row in rows}).order_by("pk"):
        bm25.rebuild_owner(owner)


# --- vectors --------------------------------------------------------------------------------------


def _orphan_vectors() -> Iterator[tuple[Any, ...]]:
    known = recalled_models()
    for record_type, model in known.items():
        live = model.objects.filter(pk=OuterRef("object_id"), trashed_at=None)
        orphans = Embedding.objects.filter(~Exists(live), record_type=record_type)
        yield from orphans.values_list("pk", "record_type", "object_id")
    unknown = Embedding.objects.exclude(record_type__in=known)
    yield from unknown.values_list("pk", "record_type", "object_id")


def _records_without_vector() -> Iterator[tuple[Any, ...]]:
    embedder = connections.embedder()
    if embedder is None:
        return
    for record_type, model in recalled_models().items():
        about = {"record_type": record_type, "object_id": OuterRef("pk")}
        rows = Embedding.objects.filter(**about, model=embedder.model)
        due = EmbeddingDue.objects.filter(**about)
        missing = model.objects.filter(~Exists(rows), ~Exists(due), trashed_at=None)
        for key in missing.order_by().values_list("pk", flat=True):
            yield record_type, key


def _mark_missing_vectors(rows: Rows) -> None:
    if (embedder := connections.embedder()) is not None:
        embedding.mark_missing(embedder.model)


# --- accounts, sizes, waiting work ----------------------------------------------------------------

_NO_ADMIN = """
SELECT count(*) FROM memory_user HAVING count(*) > 0 AND NOT bool_or(is_staff AND is_active)
"""
_OTHER_OWNERS = """
SELECT 'fact', record.id FROM memory_topicfact record JOIN memory_topic topic
    ON topic.id = record.topic_id WHERE topic.owner_id <> record.owner_id
UNION ALL SELECT 'note', record.id FROM memory_note record JOIN memory_topic topic
    ON topic.id = record.topic_id WHERE topic.owner_id <> record.owner_id
UNION ALL SELECT 'observation', record.id FROM memory_observation record JOIN memory_topic topic
    ON topic.id = record.topic_id WHERE topic.owner_id <> record.owner_id
UNION ALL SELECT 'content', record.id FROM memory_contentitem record JOIN memory_topic topic
    ON topic.id = record.topic_id WHERE topic.owner_id <> record.owner_id
UNION ALL SELECT 'section', record.id FROM memory_section record JOIN memory_memoryfile file
    ON file.id = record.file_id WHERE file.owner_id <> record.owner_id
"""
_WRONG_SIZES = "SELECT id, path, size FROM memory_memoryfile WHERE size <> octet_length(content)"
# Every kind of work that is a row until a worker takes it, usually within a minute.
_WAITING = """
SELECT 'bulk action', id::text, created FROM memory_bulkaction WHERE state IN ('waiting', 'running')
   AND coalesce(lease_until, not_before) < now() - interval '30 min'
UNION ALL SELECT kind, id::text, created FROM memory_archive WHERE state IN ('waiting', 'running')
   AND coalesce(lease_until, not_before) < now() - interval '30 min'
UNION ALL SELECT 'answer', id::text, created FROM memory_message
 WHERE state IN ('waiting', 'answering')
   AND coalesce(lease_until, not_before) < now() - interval '30 min'
UNION ALL SELECT 'reflection', source, created FROM memory_reflection
 WHERE state IN ('waiting', 'running')
   AND coalesce(lease_until, not_before) < now() - interval '30 min'
UNION ALL SELECT 'copy in Redis', slug, created FROM memory_publishdue
 WHERE created < now() - interval '30 min'
"""


def _measure(rows: Rows) -> None:
    size = Func(F("content"), function="octet_length", output_field=IntegerField())
    MemoryFile.objects.filter(pk__in=[row[0] for row in rows]).update(size=size)


# --- files on disk --------------------------------------------------------------------------------


def _leftover_files() -> Iterator[tuple[Any, ...]]:
    """Yield the files of exports and imports that belong to no row."""
    names = {f"{key}.file" for key in Archive.objects.values_list("pk", flat=True)}
    for path in Archive(pk=uuid.UUID(int=0)).file.parent.glob("????????-*-????????????.file"):
        with suppress(FileNotFoundError):  # deleted just now
            if path.name not in names and time.time() - path.stat().st_mtime > FRESH_SECONDS:
                yield (path,)


def _delete_files(rows: Rows) -> None:
    for (path,) in rows:
        path.unlink(missing_ok=True)


REPAIR = _("Run “%(manage)s verify --fix”.")
RESTORE = _("These rows were changed outside Beacon. To undo this, restore an earlier backup.")
START = _(
    "Start Beacon. Its workers will finish this automatically. If they’re already running, check their logs."
)

INVARIANTS: list[Invariant] = [
    Invariant(
        "triggers", _wrong_triggers, REPAIR, _install_triggers,
        sentence=_("All triggers that protect histories and maintain counts are installed."),
    ),
    Invariant(
        "admin", _NO_ADMIN, _("Create an admin with “%(manage)s createsuperuser”."),
        sentence=_("At least one active account is an admin."),
    ),
    Invariant(
        "owners", _OTHER_OWNERS, RESTORE,
        sentence=_("Everything in a topic or file belongs to the owner of that topic or file."),
    ),
    Invariant(
        "history", _wrong_histories, RESTORE, reads_everything=True,
        sentence=_("Each record’s history is complete, and its last version matches the current text."),
    ),
    Invariant(
        "search-entries", _wrong_entries, REPAIR, _rebuild,
        sentence=_("Each record has one entry in the search index, with the record’s trust level and sensitivity."),
    ),
    Invariant(
        "search-counts", _WRONG_FIGURES, REPAIR, _rebuild,
        sentence=_("The search index’s counts of entries and terms are correct."),
    ),
    Invariant(
        "orphan-vectors", _orphan_vectors, REPAIR,
        lambda rows: Embedding.objects.filter(pk__in=[row[0] for row in rows]).delete(),
        sentence=_("Each vector belongs to a record that still exists."),
    ),
    Invariant(
        "missing-vectors", _records_without_vector, REPAIR, _mark_missing_vectors,
        sentence=_("Each record has an embedding, or is waiting for one."),
    ),
    Invariant(
        "file-sizes", _WRONG_SIZES, REPAIR, _measure,
        sentence=_("The stored size of each memory file matches its text."),
    ),
    Invariant(
        "waiting-work", _WAITING, START,
        sentence=_("No bulk action, export, import, answer or reflection is more than 30 minutes overdue."),
    ),
    Invariant(
        "leftover-files", _leftover_files, REPAIR, _delete_files,
        sentence=_("Each export or import file has a database record."),
    ),
    Invariant(
        "mirror", mirror.differing, REPAIR, lambda rows: mirror.reconcile(),
        sentence=_("The memory files on disk match those in the database."),
    ),
]  # fmt: skip
