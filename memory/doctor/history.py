"""Records against their history, and memory files against what is said of their size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.db import connection, transaction
from django.db.models import F, Func, IntegerField, QuerySet, Sum
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from psycopg import sql

from memory.actors import MAINTENANCE
from memory.doctor.checkup import BAD, WARN
from memory.doctor.examining import Examination, Found
from memory.files.limits import MOST_EPISODES, MOST_FACTS
from memory.models import MemoryFile, Remembered, Revision

# What was never changed may have no history (a report, a stored page).
_HEADS = sql.SQL(
    """
SELECT record.id FROM {table} record LEFT JOIN (
       SELECT record_id, max(version) AS last FROM memory_revision
        WHERE record_type = %s GROUP BY 1) history ON history.record_id = record.id
 WHERE coalesce(history.last, 1) <> record.version ORDER BY 1
"""
)
_GAPS = """
SELECT count(*) FROM (SELECT 1 FROM memory_revision GROUP BY record_type, record_id
                      HAVING count(*) <> max(version) - min(version) + 1) broken
"""


# --- versions -------------------------------------------------------------------------------------


def _types() -> Iterator[type[Remembered]]:
    for model in apps.get_models():
        if issubclass(model, Remembered) and not model.IS_PART:
            yield model


def _ahead_or_behind(model: type[Remembered]) -> list[Any]:
    """Return the records whose version is not the last that their history tells of."""
    asked = _HEADS.format(table=sql.Identifier(model._meta.db_table))
    with connection.cursor() as cursor:
        cursor.execute(asked, [model.record_type()])
        return [key for (key,) in cursor.fetchall()]


def _gaps() -> int:
    with connection.cursor() as cursor:
        cursor.execute(_GAPS)
        return int((cursor.fetchone() or (0,))[0])


def look_at_versions() -> Found:
    """Compare each record's version with its history, and each history with itself."""
    beside = sum(len(_ahead_or_behind(model)) for model in _types())
    if beside:
        said = ngettext(
            "The version of %(n)d record is not the last one of its history.",
            "The versions of %(n)d records are not the last ones of their histories.",
            beside,
        )
        return Found(said % {"n": beside}, BAD)
    if gaps := _gaps():
        said = ngettext(
            "In the history of %(n)d record a version is missing, or stands twice.",
            "In the histories of %(n)d records versions are missing, or stand twice.",
            gaps,
        )
        todo = _(
            "What is lost cannot be told again: the last backup from before tells it. Records "
            "themselves are whole, and go on."
        )
        return Found(said % {"n": gaps}, WARN, todo)
    return Found(_("Each record's history leads to it, version by version."))


def mend_versions() -> str:
    """Bring record and history to the higher of their versions; a line says what is not known."""
    mended = sum(
        _brought_together(model, key) for model in _types() for key in _ahead_or_behind(model)
    )
    return _("Records that go on from their history again: %(n)d.") % {"n": mended}


@transaction.atomic
def _brought_together(model: type[Remembered], key: Any) -> bool:
    record = model.objects.select_for_update(of=("self",)).filter(pk=key).first()
    if record is None:
        return False
    told = Revision.objects.filter(record_type=model.record_type(), record_id=key)
    last = told.order_by("-version").values_list("version", flat=True).first() or 1
    if last > record.version:
        model.objects.filter(pk=key).update(version=last)
    why = _("What was changed here was not kept: the doctor found the record ahead of it.")
    for version in range(last + 1, record.version + 1):
        Revision.record(record, before={}, after={}, by=MAINTENANCE, version=version, why=why)
    return bool(last != record.version)


# --- sizes ----------------------------------------------------------------------------------------


def _bytes() -> Func:
    return Func(F("content"), function="octet_length", output_field=IntegerField())


def _missized() -> QuerySet[MemoryFile]:
    found: QuerySet[MemoryFile] = MemoryFile.objects.exclude(size=_bytes())
    return found


def _too_large() -> int:
    """Return how many months' files, and owners' fact files together, are over their budget."""
    live = MemoryFile.objects.all().live().annotate(bytes=_bytes())
    months = live.episodes().filter(bytes__gt=MOST_EPISODES).count()
    facts = live.facts().order_by().values("owner").annotate(all=Sum("bytes"))
    return int(months + facts.filter(all__gt=MOST_FACTS).count())


def look_at_sizes() -> Found:
    """Compare the sizes that are told with the texts, and the texts with their budgets."""
    if missized := _missized().count():
        said = ngettext(
            "The size of %(n)d memory file is not that of its text.",
            "The sizes of %(n)d memory files are not those of their texts.",
            missized,
        )
        return Found(said % {"n": missized}, WARN)
    if large := _too_large():
        said = _("Memory files over their budget: %(n)d (the two fact files count as one).")
        todo = _(
            "Their owners condense them (Memory files, Condense): until then nothing can be added."
        )
        return Found(said % {"n": large}, WARN, todo)
    return Found(_("Each file has the size that is told of it, and keeps its budget."))


def mend_sizes() -> str:
    """Measure anew the files whose size is wrong."""
    return _("Sizes measured anew: %(n)d.") % {"n": _missized().update(size=_bytes())}


EXAMINATIONS = (
    Examination(
        "versions-of-records", gettext_lazy("Histories"),
        gettext_lazy(
            "Who changed what cannot be told, and an undo or a save may be refused as stale."
        ),
        look_at_versions, mend_versions, is_slow=True,
    ),
    Examination(
        "file-sizes", gettext_lazy("Memory files: sizes"),
        gettext_lazy("What is counted wrongly is refused too early, or let in too late."),
        look_at_sizes, mend_sizes,
    ),
)  # fmt: skip
