"""The search index, asked: which records of one type fit a question best, and making it anew."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from django.db import transaction

from memory.models.indexing import Searchable, index
from memory.models.search import SearchEntry, SearchSpace, SearchTerm
from memory.recall import ranking
from memory.texts.terms import query_terms

BATCH = 100  # records of a rebuild that are held at a time


def rebuild(owner: Any, search_type: str, records: Iterable[Searchable]) -> int:
    """Make the owner's index of one type anew from the rows, in the owner's language (R239).

    Returns how many records that were.  The owner's writers wait meanwhile.
    """
    count = 0
    with transaction.atomic():
        spaces = SearchSpace.objects.filter(owner=owner).select_for_update(no_key=True)
        held = {space.record_type: space for space in spaces.order_by("pk")}  # as writers do
        space = held.get(search_type)
        if space is not None:
            SearchEntry.objects.filter(space=space).delete()
            SearchTerm.objects.filter(space=space).delete()
            SearchSpace.objects.filter(pk=space.pk).update(
                documents=0, length=0, language=ranking.language_of(owner)
            )
        for some in _batches(records):
            count += len(some)
            index(some)
    return count


def search(
    owner: Any, search_type: str, query: str, limit: int = 10, *, most_terms: int | None = None
) -> list[tuple[uuid.UUID, float]]:
    """Return the ids and raw BM25 scores of the records that fit best, best first.

    Any text is a query: one without a letter or digit finds nothing.  A score is at least 0 and
    has no upper bound; `relevance()` brings it into 0..1.  With `most_terms` only so many terms are
    looked for, the rarest: a long query costs no more than a short one.
    """
    if limit < 1:
        return []
    jobs = []
    language = ranking.language_of(owner)
    for space in ranking.spaces_of(owner, [search_type], query_terms(query, language)):
        if space.language != language:  # until a rebuild has brought it to the owner's
            language = space.language
            (space,) = ranking.spaces_of(owner, [search_type], query_terms(query, language))
        words = query_terms(query, language)
        if most_terms is not None:
            words = _rarest(space, words, most_terms)
        jobs.append(ranking.Job(space, words, ranking.EXACT, limit))
    return [(one.record_id, one.score) for found in ranking.ranked(jobs) for one in found]


def _rarest(space: ranking.Space, words: Iterable[str], most: int) -> list[str]:
    known = {word for word in words if word in space.terms}
    return sorted(known, key=lambda word: (space.terms[word].documents, word))[:most]


def relevance(score: float) -> float:
    """Return a raw score in 0..1, in the same order: s / (1 + s) (R77, R78)."""
    return score / (1 + score)


def _batches(records: Iterable[Searchable]) -> Iterator[list[Searchable]]:
    some: list[Searchable] = []
    for record in records:
        some.append(record)
        if len(some) == BATCH:
            yield some
            some = []
    if some:
        yield some
