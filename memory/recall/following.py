"""How the search index follows a topic, on which facts and reports hang, and an owner's language."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memory.models.library import FOLDER, OWN, LibraryDocument
from memory.models.recalled import Recalled
from memory.models.search import SearchSpace
from memory.models.topics import Topic
from memory.recall import bm25
from memory.recall.kinds import KINDS
from memory.recall.terms import stemmed_as


def topic_renamed(topic: Topic) -> None:
    """Let what belongs to the topic be found by its new title."""
    for kind in KINDS.values():
        if kind.topic_path:
            rows = kind.model.objects.filter(**{kind.topic_path: topic}).live()
            bm25.index(rows.select_related(kind.topic_path).iterator(chunk_size=500))


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
    for kind in KINDS.values():
        rows = kind.model.objects.filter(owner=owner).live().order_by("created", "pk")
        if kind.topic_path:
            rows = rows.select_related(kind.topic_path)
        read[kind.type] = bm25.rebuild(owner, kind.type, rows.iterator(chunk_size=500))
    for search_type in (OWN, FOLDER):
        read[search_type] = bm25.rebuild(owner, search_type, _documents(owner, search_type))
    return read


def _documents(owner: Any, search_type: str) -> Iterator[LibraryDocument]:
    """Return the owner's documents of the library that are ranked under this type."""
    rows = LibraryDocument.objects.filter(owner=owner, problem="").live()
    rows = rows.filter(path="") if search_type == OWN else rows.exclude(path="")
    return rows.order_by("created", "pk").iterator(chunk_size=100)


def owners_in_another_language() -> list[int]:
    """Return the ids of owners whose index is stemmed otherwise than they have chosen."""
    spaces = SearchSpace.objects.filter(record_type__in=[*KINDS, OWN, FOLDER])
    pairs = spaces.values_list("owner_id", "owner__language", "language").distinct()
    return sorted({owner for owner, chosen, now in pairs if stemmed_as(chosen) != now})
