"""Exact BM25 in stock Postgres (k1 = 1.2, b = 0.75), transactional, one space an owner and type.

What is written is found by the same transaction at once, and a rollback leaves nothing: the
figures are kept by triggers (`memory/models/search.py`), the ranking is one function
(`memory_bm25`, migration 0002).
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Protocol

from django.db import connection, transaction

from memory.models.search import SearchEntry, SearchSpace, SearchTerm
from memory.recall.terms import query_terms, vector_of

BATCH = 100
MOST_TERMS = 32  # of a query, rarest first; what further ones add does not change an order


class Searchable(Protocol):
    """A record that can be found by its words."""

    pk: Any
    owner_id: Any

    def search_type(self) -> str:
        """Return the type among which it is ranked, most often `record_type()`."""
        ...

    def search_text(self) -> str:
        """Return what it says: the content alone, never its category or labels (R76)."""
        ...


def index(records: Iterable[Searchable]) -> None:
    """Make the records findable by what they say now, those that were before included."""
    for space, members in _by_space(records):
        for start in range(0, len(members), BATCH):
            some = members[start : start + BATCH]
            rows = []
            for record in some:
                words, length = vector_of(record.search_text())
                rows += [space.pk, record.pk, length, words]
            marks = ", ".join(["(%s, %s, %s, %s::tsvector)"] * len(some))
            with connection.cursor() as cursor:
                cursor.execute(
                    "INSERT INTO memory_searchentry (space_id, record_id, length, words) "  # noqa: S608
                    f"VALUES {marks} ON CONFLICT (space_id, record_id) "
                    "DO UPDATE SET length = excluded.length, words = excluded.words",
                    rows,
                )


def unindex(records: Iterable[Searchable]) -> None:
    """Make the records unfindable; those that were so already do not matter."""
    for space, members in _by_space(records):
        ids = [record.pk for record in members]
        SearchEntry.objects.filter(space=space, record_id__in=ids).delete()


def rebuild(owner: Any, search_type: str, records: Iterable[Searchable]) -> None:
    """Make the owner's index of one type anew from the rows (R239)."""
    with transaction.atomic():
        space = SearchSpace.objects.filter(owner=owner, record_type=search_type).first()
        if space is not None:
            SearchEntry.objects.filter(space=space).delete()
            SearchTerm.objects.filter(space=space).delete()
            SearchSpace.objects.filter(pk=space.pk).update(documents=0, length=0)
        index(records)


def search(
    owner: Any, search_type: str, query: str, limit: int = 10
) -> list[tuple[uuid.UUID, float]]:
    """Return the ids and raw BM25 scores of the records that fit best, best first.

    Any text is a query: one without a letter or digit finds nothing.  A score is at least 0 and
    has no upper bound; `relevance()` brings it into 0..1.
    """
    terms = query_terms(query)
    if not terms or limit < 1:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT found.record_id, found.score FROM memory_searchspace space, "
            "memory_bm25(space.id, %s, %s, %s) found "
            "WHERE space.owner_id = %s AND space.record_type = %s "
            "ORDER BY found.score DESC, found.record_id",
            [terms, limit, MOST_TERMS, owner.pk, search_type],
        )
        return [(record_id, score) for record_id, score in cursor.fetchall()]


def relevance(score: float) -> float:
    """Return a raw score in 0..1, in the same order: s / (1 + s) (R77, R78)."""
    return score / (1 + score)


def _by_space(records: Iterable[Searchable]) -> list[tuple[SearchSpace, list[Searchable]]]:
    """Group the records by space, spaces in the order in which their writers wait."""
    groups: dict[tuple[Any, str], list[Searchable]] = defaultdict(list)
    for record in records:
        groups[record.owner_id, record.search_type()].append(record)
    SearchSpace.objects.bulk_create(
        [SearchSpace(owner_id=owner, record_type=kind) for owner, kind in groups],
        ignore_conflicts=True,
    )
    spaces = [
        (SearchSpace.objects.get(owner_id=owner, record_type=kind), members)
        for (owner, kind), members in groups.items()
    ]
    return sorted(spaces, key=lambda pair: pair[0].pk)
