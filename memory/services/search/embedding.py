"""Creates embeddings of records in the background.

A writer only adds a row for the record (memory/models/search_index.py), in its own transaction. A
background task then calls the embedder, so writers never wait for it or see its errors. Sensitive
records are embedded only by the model on this machine.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import connection, transaction
from django.db.models import Count, F, Q
from django.utils import timezone

from beacon_site import celery
from beacon_site.net.errors import ProviderError
from beacon_site.providers.llm.base import Embedder
from memory.models import Activity, Connection, Embedding, EmbeddingDue, User
from memory.models.actors import SYSTEM
from memory.models.remembered import Sensitivity
from memory.services.llm import connections
from memory.services.search.vectors import ensure_table, index_if_large, recalled_models

logger = structlog.get_logger(__name__)

BATCH = 64
HELD = timedelta(hours=1)  # until a sensitive record is checked again
FIRST_WAIT = timedelta(minutes=1)
MAX_WAIT = timedelta(hours=1)
# tries; after that, a text is embedded by itself, since one text can make its whole batch fail
ALONE_AFTER = 2
SECONDS = 600.0  # per task
NUDGE_EVERY = 1.0  # seconds between two nudges of a process, since one task does all waiting work

_nudged_at = 0.0


# --- writers --------------------------------------------------------------------------------------


def follow(records: list[Any]) -> None:
    """Queue written records for embedding, and nudge a task after the commit.

    If vectors are turned off, nothing is queued, but the records' outdated vectors are deleted.
    """
    if not records:
        return
    if connections.has_no_embeddings():
        Embedding.objects.about(records).delete()
        return
    EmbeddingDue.objects.mark(records)
    transaction.on_commit(_nudge)


def _nudge() -> None:
    global _nudged_at
    now = time.monotonic()
    if now - _nudged_at >= NUDGE_EVERY:
        _nudged_at = now
        celery.send("memory.tasks.embed_due", queue="maintenance")


# --- tasks ----------------------------------------------------------------------------------------


def process_due(seconds: float = SECONDS) -> int:
    """Embed queued records for about this many seconds; return the number of vectors created.

    Call it in one process at a time (`embed_due` holds a lock), so that rows need no lease. A
    vector is stored only if its record still has the embedded text. Never raises if the embedder
    fails: its rows wait, and the first of several failures is reported (Models and search, System
    status, Activity).
    """
    embedder = connections.embedder()
    if embedder is None:
        forget_model_if_off()
        return 0
    _queue_all_records(embedder)
    count, ends_at = 0, time.monotonic() + seconds
    while time.monotonic() < ends_at and (batch := _next_batch()):
        try:
            count += _embedded(batch, embedder)
        except ProviderError as exc:
            _failed(batch, embedder, str(exc))
            break
    if count:
        _works(embedder)
        index_if_large(embedder.dimensions)
    return count


def progress(embedder: Embedder | None = None, row: Connection | None = None) -> dict[str, Any]:
    """Return how many vectors the current model has created, and how many are waiting and held.

    `why` is the embedder's last error, or "" if it works. `row` is the row of its connection.
    """
    used = (row.profile.get("used") or {}) if row else used_state()
    waiting = EmbeddingDue.objects.aggregate(
        due=Count("id", filter=Q(needs_local_embedder=False)),
        held=Count("id", filter=Q(needs_local_embedder=True)),
    )
    count = Embedding.objects.filter(model=embedder.model).count() if embedder else 0
    since = datetime.fromisoformat(used["failing_at"]) if used.get("failing_at") else None
    return {
        **waiting,
        "made": count,
        "total": count + waiting["due"],
        "why": str(used.get("failing", "")),
        "since": since,
    }


def used_state() -> dict[str, Any]:
    """Return the embedder's state after its last use: `model`, `failing` and `failing_at`."""
    return dict(connections.stored(connections.EMBEDDINGS).profile.get("used") or {})


def forget_model_if_off() -> None:
    """If vectors are turned off, forget which model created them.

    Records aren't queued while vectors are off. When vectors are turned on again the model counts
    as new, and every record without a vector is queued.
    """
    used = used_state()
    if connections.has_no_embeddings() and used.pop("model", ""):
        connections.keep_found(connections.EMBEDDINGS, used, under="used")


def _queue_all_records(embedder: Embedder) -> None:
    """If the model is new, queue every record that has no vector from it."""
    used = used_state()
    if used.get("model") == embedder.model and used.get("is_local") == embedder.is_local:
        return
    marked = mark_missing(embedder.model)
    EmbeddingDue.objects.filter(needs_local_embedder=True).update(
        needs_local_embedder=False, not_before=timezone.now()
    )
    state = {"model": embedder.model, "is_local": embedder.is_local}
    connections.keep_found(connections.EMBEDDINGS, state, under="used")
    logger.info("embedder changed, records queued for embedding", model=embedder.model, n=marked)


def mark_missing(model: str) -> int:
    """Queue every record without a vector from `model`; return how many were added."""
    marked = 0
    with connection.cursor() as cursor:
        for record_type, kind in recalled_models().items():
            cursor.execute(
                "INSERT INTO memory_embeddingdue "  # noqa: S608  a table's own name  # nosec B608
                "(owner_id, record_type, object_id, tries, not_before, created, needs_local_embedder) "
                f"SELECT owner_id, %s, id, 0, now(), now(), false FROM {kind._meta.db_table} record "
                "WHERE trashed_at IS NULL AND NOT EXISTS (SELECT 1 FROM memory_embedding made "
                "WHERE made.record_type = %s AND made.object_id = record.id AND made.model = %s) "
                "ON CONFLICT (record_type, object_id) DO NOTHING",
                [record_type, record_type, model],
            )
            marked += cursor.rowcount
    return marked


def _next_batch() -> list[EmbeddingDue]:
    """Return the next rows, and count the try first; a row that failed twice gets its own batch."""
    due = EmbeddingDue.objects.filter(not_before__lte=timezone.now())
    rows = list(due.order_by("not_before", "id")[:BATCH])
    if rows and rows[0].tries >= ALONE_AFTER:
        rows = rows[:1]
    else:
        rows = [row for row in rows if row.tries < ALONE_AFTER]
    EmbeddingDue.objects.filter(pk__in=[row.pk for row in rows]).update(tries=F("tries") + 1)
    for row in rows:
        row.tries += 1
    return rows


def _embedded(batch: Sequence[EmbeddingDue], embedder: Embedder) -> int:
    """Store vectors for the rows whose records the embedder may receive; return how many."""
    records = _records_of(batch)
    held, todo, gone = [], [], []
    for row in batch:
        record = records.get((row.record_type, row.object_id))
        if record is None or record.trashed_at is not None:
            gone.append(row)
        elif record.sensitivity == Sensitivity.SENSITIVE and not embedder.is_local:
            held.append(row)
        else:
            todo.append((row, record))
    if held:
        ids = [row.pk for row in held]
        later = timezone.now() + HELD
        EmbeddingDue.objects.filter(pk__in=ids).update(
            needs_local_embedder=True, tries=0, not_before=later
        )
    texts = [record.search_text() for _row, record in todo]
    made = embedder.embed(texts) if texts else []
    return _store_vectors(embedder.model, [row for row, _record in todo], made, gone)


def _records_of(batch: Sequence[EmbeddingDue]) -> dict[tuple[str, Any], Any]:
    ids = defaultdict(list)
    for row in batch:
        ids[row.record_type].append(row.object_id)
    known = recalled_models()
    return {
        (record_type, record.pk): record
        for record_type, some in ids.items()
        if record_type in known
        for record in known[record_type]._default_manager.filter(pk__in=some)
    }


def _store_vectors(
    model: str,
    rows: list[EmbeddingDue],
    made: list[list[float]],
    gone: list[EmbeddingDue],
) -> int:
    """Store the vectors of unchanged records, and delete the finished rows."""
    if made:
        ensure_table(len(made[0]))
    with transaction.atomic():
        ids = [row.pk for row in (*rows, *gone)]
        locked = EmbeddingDue.objects.filter(pk__in=ids).order_by("object_id").select_for_update()
        stamps = {row.pk: row.created for row in locked}
        standing = [
            Embedding(
                owner_id=row.owner_id,
                record_type=row.record_type,
                object_id=row.object_id,
                model=model,
                dimensions=len(vector),
                values=vector,
            )
            for row, vector in zip(rows, made, strict=True)
            if stamps.get(row.pk) == row.created
        ]
        Embedding.objects.bulk_create(
            standing,
            update_conflicts=True,
            unique_fields=["record_type", "object_id"],
            update_fields=["model", "dimensions", "values", "created"],
        )
        done = [row.pk for row in (*rows, *gone) if stamps.get(row.pk) == row.created]
        EmbeddingDue.objects.filter(pk__in=done).delete()
    return len(standing)


# --- failure and recovery -------------------------------------------------------------------------


def _failed(batch: Sequence[EmbeddingDue], embedder: Embedder, why: str) -> None:
    """Delay the rows, longer after each failure, and report the first failure."""
    now = timezone.now()
    for row in batch:
        wait = min(FIRST_WAIT * 2 ** min(row.tries - 1, 10), MAX_WAIT)
        same = EmbeddingDue.objects.filter(pk=row.pk, created=row.created)
        same.update(not_before=now + wait)
    used = used_state()
    if used.get("failing"):
        return
    logger.warning("embedder failed, its records stay queued", model=embedder.model, why=why)
    failing = {"failing": why, "failing_at": now.isoformat()}
    connections.keep_found(connections.EMBEDDINGS, used | failing, under="used")
    for owner in User.objects.filter(pk__in={row.owner_id for row in batch}):
        Activity.log(owner, SYSTEM, "embedding-failed", label=embedder.model, warning=True, why=why)


def _works(embedder: Embedder) -> None:
    """Note that the embedder works again after a failure."""
    used = used_state()
    if used.get("failing"):
        logger.info("embedder works again", model=embedder.model)
        state = {"model": embedder.model, "is_local": embedder.is_local}
        connections.keep_found(connections.EMBEDDINGS, state, under="used")
