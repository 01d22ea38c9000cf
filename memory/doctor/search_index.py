"""The search index against the records: entries both ways, figures, and word for word."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from django.db import connection, transaction
from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memory.doctor.checkup import BAD
from memory.doctor.examining import Examination, Found
from memory.models import SearchEntry, SearchSpace, User, indexing
from memory.recall import reindex

BATCH = 200
_MATTERS = gettext_lazy(
    "Recall, Ask, agents and the next runs find by this index: what is missing in it is not found, "
    "what is too much or miscounted changes the order of what is."
)
# Bounds of a term may be too wide (they cost time then), never too narrow (a hit would be lost).
_MISCOUNTED = """
SELECT DISTINCT space.owner_id FROM memory_searchspace space CROSS JOIN LATERAL (
       SELECT count(*) AS documents, coalesce(sum(entry.length), 0) AS length
         FROM memory_searchentry entry WHERE entry.space_id = space.id) counted
 WHERE space.documents <> counted.documents OR space.length <> counted.length
    OR EXISTS (
       SELECT 1 FROM (SELECT lexeme, documents, most, shortest FROM memory_searchterm
                       WHERE space_id = space.id) held
         FULL JOIN (SELECT word.lexeme COLLATE "C" AS lexeme, count(*) AS documents,
                           coalesce(max(cardinality(word.positions)), 1) AS most,
                           min(entry.length) AS shortest
                      FROM memory_searchentry entry, unnest(entry.words) word
                     WHERE entry.space_id = space.id GROUP BY 1) told USING (lexeme)
        WHERE coalesce(held.documents, 0) <> coalesce(told.documents, 0)
           OR held.most < told.most OR held.shortest > told.shortest)
 ORDER BY 1
"""


# --- figures --------------------------------------------------------------------------------------


def _miscounted() -> list[int]:
    """Return the owners whose figures are not those of their entries."""
    with connection.cursor() as cursor:
        cursor.execute(_MISCOUNTED)
        return [owner_id for (owner_id,) in cursor.fetchall()]


def look_at_figures() -> Found:
    """Compare how often each term is said to occur with how often it does."""
    owners = _miscounted()
    if not owners:
        return Found(_("The figures are those of the entries."))
    said = ngettext(
        "The figures of %(n)d account's index are not those of its entries.",
        "The figures of %(n)d accounts' indexes are not those of their entries.",
        len(owners),
    )
    return Found(said % {"n": len(owners)}, BAD)


def mend_figures() -> str:
    """Make the indexes anew whose figures are wrong."""
    return _rebuilt(_miscounted())


def _rebuilt(owners: list[int]) -> str:
    read = 0
    for owner in User.objects.filter(pk__in=owners).order_by("pk"):
        read += sum(reindex.rebuild(owner).values())
    told = {"n": len(owners), "records": f"{read:,}"}
    said = ngettext(
        "The index of %(n)d account was made anew from %(records)s records.",
        "The indexes of %(n)d accounts were made anew from %(records)s records.",
        len(owners),
    )
    return said % told


# --- entries --------------------------------------------------------------------------------------


def _missing() -> Iterator[QuerySet[Any]]:
    """Yield, for each type, the records that have no entry."""
    for search_type, rows in reindex.indexed_rows().items():
        # Its space by a look of its own: joined, the planner would rather read all entries.
        spaces = SearchSpace.objects.filter(
            owner=OuterRef(OuterRef("owner")), record_type=search_type
        )
        entries = SearchEntry.objects.filter(
            space_id=Subquery(spaces.values("pk")), record_id=OuterRef("pk")
        )
        yield rows.filter(~Exists(entries))


def _needless() -> Iterator[QuerySet[SearchEntry]]:
    """Yield, for each type, the entries of no record; those of types that there are not come last."""
    known = reindex.indexed_rows()
    for search_type, rows in known.items():
        about = rows.filter(pk=OuterRef("record_id"), owner=OuterRef("space__owner"))
        yield SearchEntry.objects.filter(~Exists(about), space__record_type=search_type)
    yield SearchEntry.objects.exclude(space__record_type__in=known)


def look_at_entries() -> Found:
    """Compare which records there are with which are indexed."""
    missing = sum(rows.order_by().count() for rows in _missing())
    needless = sum(rows.count() for rows in _needless())
    if not missing and not needless:
        indexed = SearchEntry.objects.count()
        return Found(_("Each of %(n)s records has its entry.") % {"n": f"{indexed:,}"})
    said = _("Records that are not in the index: %(missing)s. Entries of no record: %(needless)s.")
    return Found(said % {"missing": f"{missing:,}", "needless": f"{needless:,}"}, BAD)


def mend_entries() -> str:
    """Index what is missing, and take out what is too much."""
    made = gone = 0
    for rows in _missing():
        for ids in _in_batches(rows.order_by("pk").values_list("pk", flat=True)):
            made += _indexed_anew(rows, ids)
    for entries in _needless():
        gone += entries.delete()[0]
    SearchSpace.objects.exclude(record_type__in=reindex.indexed_rows()).delete()
    told = {"made": f"{made:,}", "gone": f"{gone:,}"}
    return _("Indexed: %(made)s. Taken out of the index: %(gone)s.") % told


# --- word for word --------------------------------------------------------------------------------


def _stale() -> Iterator[Any]:
    """Yield the records of which the index says something else than they do."""
    for rows in reindex.indexed_rows().values():
        some: list[Any] = []
        for record in rows.order_by("owner_id", "pk").iterator(chunk_size=BATCH):
            some.append(record)
            if len(some) == BATCH:
                yield from indexing.differing(some)
                some = []
        yield from indexing.differing(some)


def look_at_words() -> Found:
    """Compare what each entry says with what its record says."""
    kinds = Counter(record.search_type() for record in _stale())
    if not kinds:
        return Found(_("Each entry says what its record says."))
    told = ", ".join(f"{kind}: {n:,}" for kind, n in sorted(kinds.items()))
    said = _("Entries that say something else than their record (%(kinds)s).")
    return Found(said % {"kinds": told}, BAD)


def mend_words() -> str:
    """Index those records anew."""
    stale = defaultdict(list)
    for record in _stale():
        stale[record.search_type()].append(record.pk)
    rows = reindex.indexed_rows()
    made = sum(
        _indexed_anew(rows[search_type], ids)
        for search_type, keys in stale.items()
        for ids in _in_batches(keys)
    )
    return _("Indexed anew: %(n)s.") % {"n": f"{made:,}"}


def _in_batches(keys: Iterable[Any]) -> list[list[Any]]:
    found = list(keys)
    return [found[start : start + BATCH] for start in range(0, len(found), BATCH)]


def _indexed_anew(rows: QuerySet[Any], ids: list[Any]) -> int:
    """Index those of the rows that are there still, as they are now; return how many.

    Their writers wait meanwhile, so that no older words are put over newer ones.
    """
    with transaction.atomic():
        held = rows.filter(pk__in=ids).order_by("pk").select_for_update(of=("self",))
        records = list(held)
        indexing.index(records)
    return len(records)


EXAMINATIONS = (
    Examination(
        "search-entries", gettext_lazy("Search index: entries"), _MATTERS,
        look_at_entries, mend_entries,
    ),
    Examination(
        "search-figures", gettext_lazy("Search index: figures"), _MATTERS,
        look_at_figures, mend_figures,
    ),
    Examination(
        "search-words", gettext_lazy("Search index: words"), _MATTERS,
        look_at_words, mend_words, is_slow=True,
    ),
)  # fmt: skip
