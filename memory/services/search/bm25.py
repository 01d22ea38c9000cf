"""Searches the index of one record type with BM25, and rebuilds it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from beacon_site.text.terms import query_terms, stemmed_as
from memory.models import search_index
from memory.models.library import FOLDER, OWN, LibraryDocument
from memory.models.search_index import (
    Recalled,
    Searchable,
    SearchEntry,
    SearchSpace,
    SearchTerm,
    index,
)
from memory.models.topics import Topic
from memory.services.search import bm25_sql
from memory.services.search.kinds import KINDS

BATCH = 100  # records that a rebuild loads at a time
AT_ONCE = 20  # queries per statement


def rebuild(owner: Any, search_type: str, records: Iterable[Searchable]) -> int:
    """Rebuild the owner's index of one type from the records, in the owner's language (R239).

    Returns the number of records. The owner's writers wait until it is done.
    """
    count = 0
    with transaction.atomic():
        spaces = SearchSpace.objects.filter(owner=owner).select_for_update(no_key=True)
        # locked in the same order as writers lock them
        held = {space.record_type: space for space in spaces.order_by("pk")}
        space = held.get(search_type)
        if space is not None:
            SearchEntry.objects.filter(space=space).delete()
            SearchTerm.objects.filter(space=space).delete()
            SearchSpace.objects.filter(pk=space.pk).update(
                documents=0, length=0, language=bm25_sql.language_of(owner)
            )
        for some in _batches(records):
            count += len(some)
            index(some)
    return count


def search(
    owner: Any, search_type: str, query: str, limit: int = 10, *, most_terms: int | None = None
) -> list[tuple[uuid.UUID, float]]:
    """Return the ids and raw BM25 scores of the best matching records, best first.

    Any text is a valid query; one without letters or digits finds nothing. Scores are 0 or more,
    without an upper bound; `relevance()` scales them to 0..1. `most_terms` limits the search to the
    rarest terms, so a long query costs no more than a short one.
    """
    (found,) = search_each(owner, search_type, [query], limit, most_terms=most_terms)
    return found


def search_each(
    owner: Any,
    search_type: str,
    queries: Sequence[str],
    limit: int,
    *,
    most_terms: int | None,
) -> list[list[tuple[uuid.UUID, float]]]:
    """Return the result of `search` for each query, with only a few statements for all of them."""
    if limit < 1:
        return [[] for _query in queries]
    language = bm25_sql.language_of(owner)
    asked = [query_terms(query, language) for query in queries]

    def space_of(*, with_levels: bool = True) -> bm25_sql.Space | None:
        words = chain.from_iterable(asked)
        found = bm25_sql.spaces_of(owner, [search_type], words, with_levels=with_levels)
        return found[0] if found else None  # an owner has one per type

    space = space_of(with_levels=most_terms is None)
    if space is not None and space.language != language:
        # Until a rebuild converts it to the owner's language.
        asked = [query_terms(query, space.language) for query in queries]
        space = space_of(with_levels=most_terms is None)
    if space is not None and most_terms is not None:
        asked = [_rarest(space, words, most_terms) for words in asked]
        space = space_of()
    if space is None:
        return [[] for _query in queries]
    jobs = [bm25_sql.Job(space, words, bm25_sql.EXACT, limit) for words in asked]
    found = chain.from_iterable(
        bm25_sql.ranked(jobs[start : start + AT_ONCE]) for start in range(0, len(jobs), AT_ONCE)
    )
    return [[(one.record_id, one.score) for one in some] for some in found]


def _rarest(space: bm25_sql.Space, words: Iterable[str], most: int) -> list[str]:
    known = {word for word in words if word in space.terms}
    return sorted(known, key=lambda word: (space.terms[word].documents, word))[:most]


def _batches(records: Iterable[Searchable]) -> Iterator[list[Searchable]]:
    some: list[Searchable] = []
    for record in records:
        some.append(record)
        if len(some) == BATCH:
            yield some
            some = []
    if some:
        yield some


# --- rebuilding and topics ---


def topic_renamed(topic: Topic) -> None:
    """Update the index entries of a topic's records after it was renamed."""
    for kind in KINDS.values():
        if kind.topic_path:
            rows = kind.model.objects.filter(**{kind.topic_path: topic}).live()
            search_index.index(rows.select_related(kind.topic_path).iterator(chunk_size=500))


def topic_purged(topic: Topic) -> None:
    """Delete the index entries that belong to a topic, before the topic is deleted."""
    for kind in KINDS.values():
        if kind.of_topic:
            Recalled.unfollow(kind.model.objects.filter(**{kind.topic_path: topic}))


def rebuild_owner(owner: Any) -> dict[str, int]:
    """Rebuild the owner's whole index from the records, in the owner's language (R239).

    Returns the number of records per type.
    """
    read = {}
    for search_type, rows in indexed_rows().items():
        chunk = 100 if search_type in (OWN, FOLDER) else 500  # documents are long
        mine = rows.filter(owner=owner).order_by("created", "pk").iterator(chunk_size=chunk)
        read[search_type] = rebuild(owner, search_type, mine)
    return read


def indexed_rows() -> dict[str, QuerySet[Any]]:
    """Return all accounts' records that belong in the index, by record type."""
    rows: dict[str, QuerySet[Any]] = {}
    for kind in KINDS.values():
        live = kind.model.objects.live()
        rows[kind.type] = live.select_related(kind.topic_path) if kind.topic_path else live
    documents = LibraryDocument.objects.filter(problem="").live()
    return rows | {OWN: documents.filter(path=""), FOLDER: documents.exclude(path="")}


def owners_in_another_language() -> list[int]:
    """Return the ids of owners whose index uses a different language than their setting."""
    spaces = SearchSpace.objects.filter(record_type__in=[*KINDS, OWN, FOLDER])
    pairs = spaces.values_list("owner_id", "owner__language", "language").distinct()
    return sorted({owner for owner, chosen, now in pairs if stemmed_as(chosen) != now})
