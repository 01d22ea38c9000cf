"""Vectors against the records they are of, and against the tables in which they are compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.doctor.checkup import BAD, WARN
from memory.doctor.examining import Examination, Found
from memory.llm import embedders
from memory.models import Embedding, EmbeddingDue
from memory.recall import embedding, vector_tables
from memory.recall.vectors import recalled_models


def _needless() -> Iterator[QuerySet[Embedding]]:
    """Yield, for each type, the vectors of records that are gone or in the trash."""
    known = recalled_models()
    for record_type, model in known.items():
        about = model.objects.filter(pk=OuterRef("object_id"), trashed_at=None)
        yield Embedding.objects.filter(~Exists(about), record_type=record_type)
    yield Embedding.objects.exclude(record_type__in=known)


def _missing(model_name: str) -> int:
    """Return how many records have no vector of that model and wait for none."""
    missing = 0
    for record_type, model in recalled_models().items():
        about: dict[str, Any] = {"record_type": record_type, "object_id": OuterRef("pk")}
        made = Embedding.objects.filter(**about, model=model_name)
        due = EmbeddingDue.objects.filter(**about)
        live: QuerySet[Any] = model.objects.filter(trashed_at=None)
        missing += live.filter(~Exists(made), ~Exists(due)).count()
    return missing


def look() -> Found:
    """Compare which records there are with which have vectors, or wait for theirs."""
    needless = sum(rows.count() for rows in _needless())
    embedder = embedders.embedder()
    missing = _missing(embedder.model) if embedder is not None else 0
    if missing or needless:
        said = _(
            "Records that have no vector and wait for none: %(missing)s. Vectors of records that "
            "are gone: %(needless)s."
        )
        return Found(said % {"missing": f"{missing:,}", "needless": f"{needless:,}"}, WARN)
    if embedder is None:
        return Found(embedders.why_none())
    return Found(_("Each record has its vector, or waits for it."))


def mend() -> str:
    """Let those records wait for a vector, and delete the vectors of what is gone."""
    gone = sum(rows.delete()[0] for rows in _needless())
    embedder = embedders.embedder()
    marked = embedding.mark_missing(embedder.model) if embedder is not None else 0
    told = {"marked": f"{marked:,}", "gone": f"{gone:,}"}
    return _("Waiting for a vector now: %(marked)s. Vectors deleted: %(gone)s.") % told


def look_at_tables() -> Found:
    """Compare the vectors that are stored with those that can be compared."""
    if not vector_tables.extension_version():
        return Found(_("The database does not compare vectors: there are no such tables."))
    behind = vector_tables.behind()
    if not behind:
        return Found(_("The tables hold the vectors that are stored."))
    said = _("Tables of vectors that are not what is stored, by their dimensions: %(sizes)s.")
    return Found(said % {"sizes": ", ".join(map(str, behind))}, BAD)


def mend_tables() -> str:
    """Bring the tables up to date, as `manage.py vectors` does."""
    held = vector_tables.prepare().tables
    return _("The tables hold %(n)s vectors now.") % {"n": f"{sum(held.values()):,}"}


EXAMINATIONS = (
    Examination(
        "vectors", gettext_lazy("Vectors"),
        gettext_lazy(
            "What has no vector is found by its very words alone; and a vector of what is gone "
            "still tells something of it."
        ),
        look, mend,
    ),
    Examination(
        "vector-tables", gettext_lazy("Vectors: tables"),
        gettext_lazy("Recall compares in these tables: it misses what is not in them."),
        look_at_tables, mend_tables,
    ),
)  # fmt: skip
