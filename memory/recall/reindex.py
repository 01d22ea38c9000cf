"""How the search index follows a topic, on which facts and reports hang, and an owner's language."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from memory.models import indexing
from memory.models.library import FOLDER, OWN, LibraryDocument
from memory.models.search import SearchSpace
from memory.models.searchable import Recalled
from memory.models.topics import Topic
from memory.recall import bm25
from memory.recall.kinds import KINDS
from memory.texts.terms import stemmed_as


def topic_renamed(topic: Topic) -> None:
    """Let what belongs to the topic be found by its new title."""
    for kind in KINDS.values():
        if kind.topic_path:
            rows = kind.model.objects.filter(**{kind.topic_path: topic}).live()
            indexing.index(rows.select_related(kind.topic_path).iterator(chunk_size=500))


def topic_purged(topic: Topic) -> None:
    """Forget what goes with the topic, before it goes."""
    for kind in KINDS.values():
        if kind.of_topic:
            Recalled.unfollow(kind.model.objects.filter(**{kind.topic_path: topic}))


def rebuild(owner: Any) -> dict[str, int]:
    """Make the owner's whole index anew from the rows, in the language that they have chosen (R239).

    Returns how many records of each type were read.
    """
    read = {}
    for search_type, rows in indexed_rows().items():
        chunk = 100 if search_type in (OWN, FOLDER) else 500  # documents are long
        mine = rows.filter(owner=owner).order_by("created", "pk").iterator(chunk_size=chunk)
        read[search_type] = bm25.rebuild(owner, search_type, mine)
    return read


def indexed_rows() -> dict[str, QuerySet[Any]]:
    """Return everybody's records that are to stand in the index, by the type they are ranked among."""
    rows: dict[str, QuerySet[Any]] = {}
    for kind in KINDS.values():
        live = kind.model.objects.live()
        rows[kind.type] = live.select_related(kind.topic_path) if kind.topic_path else live
    documents = LibraryDocument.objects.filter(problem="").live()
    return rows | {OWN: documents.filter(path=""), FOLDER: documents.exclude(path="")}


def owners_in_another_language() -> list[int]:
    """Return the ids of owners whose index is stemmed otherwise than they have chosen."""
    spaces = SearchSpace.objects.filter(record_type__in=[*KINDS, OWN, FOLDER])
    pairs = spaces.values_list("owner_id", "owner__language", "language").distinct()
    return sorted({owner for owner, chosen, now in pairs if stemmed_as(chosen) != now})
