"""The record types that recall returns, with each type's rows, title and link.

Memory's own types are here. Other apps register theirs in `AppConfig.ready()`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from memory.models.files import Section
from memory.models.notes import Note
from memory.models.observations import Observation
from memory.models.search_index import Recalled
from memory.models.topic_facts import TopicFact

States = tuple[str, ...]
Model = type[Recalled]


def _title(record: Any) -> str:
    return str(record)


def _url(record: Any) -> str:
    return str(record.get_absolute_url())


def _content(record: Any) -> str:
    return str(record.search_text())


def _no_category(record: Any) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class RecallKind:
    """One record type; `rows` returns the owner's records that recall can return at a given time.

    `category_field` is the field for `kind:` and `category:`. `states` are the states in the index
    (its `kind`) that are returned unless `is:` asks for another one. `successors` returns the
    replacements of superseded records, and `superseded` returns an owner's superseded records.
    `overtaken` returns later findings about records whose own text never changes. `topic_path`
    leads to the topic. `prose` returns the sentences that an answer may quote one by one, for
    records that combine what others say. With `of_topic`, a record goes to Trash and is deleted permanently with its
    topic.
    """

    type: str
    model: Model
    rows: Callable[[Any, datetime], QuerySet[Any]]
    title: Callable[[Any], str] = _title
    url: Callable[[Any], str] = _url
    content: Callable[[Any], str] = _content
    category: Callable[[Any], str] = _no_category
    category_field: str = ""
    states: States = ()
    of_topic: bool = False
    topic_path: str = "topic"
    successors: Callable[[Iterable[uuid.UUID]], dict[uuid.UUID, uuid.UUID]] | None = None
    superseded: Callable[[Any], QuerySet[Any]] | None = None
    overtaken: Callable[[list[Any]], dict[uuid.UUID, str]] | None = None
    prose: Callable[[Any], str] | None = None


KINDS: dict[str, RecallKind] = {}


def register(kind: RecallKind) -> None:
    """Add this record type to recall, or replace a type that was registered before."""
    KINDS[kind.type] = kind


def _notes(owner: Any, now: datetime) -> QuerySet[Any]:
    return Note.objects.for_user(owner).active(now).select_related("topic")


def _superseded_notes(owner: Any) -> QuerySet[Any]:
    return Note.objects.for_user(owner).live().exclude(superseded_by=None)


def _observations(owner: Any, now: datetime) -> QuerySet[Any]:
    return Observation.objects.for_user(owner).active().select_related("topic")


def _facts(owner: Any, now: datetime) -> QuerySet[Any]:
    facts = TopicFact.objects.for_user(owner).live().filter(topic__trashed_at=None)
    return facts.select_related("topic")


def _sections(owner: Any, now: datetime) -> QuerySet[Any]:
    sections = Section.objects.for_user(owner).live().filter(file__trashed_at=None)
    return sections.select_related("file")


def _fact_title(fact: Any) -> str:
    return str(fact.topic.title)


def _current_notes(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, uuid.UUID]:
    """Return the last note in each superseded note's chain.

    Each step is a separate lookup by key. In one recursive query the planner can't estimate how
    long chains are, and reads the whole table.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH RECURSIVE chain (old, at, next) AS ("
            "SELECT id, id, superseded_by_id FROM memory_note WHERE id = ANY(%s) "
            "UNION SELECT chain.old, note.id, note.superseded_by_id FROM chain CROSS JOIN LATERAL "
            "(SELECT id, superseded_by_id FROM memory_note WHERE id = chain.next OFFSET 0) note) "
            "SELECT old, at FROM chain WHERE next IS NULL AND old <> at",
            [list(ids)],
        )
        return dict(cursor.fetchall())


register(
    RecallKind(
        "note",
        Note,
        _notes,
        category=lambda note: str(note.kind),
        category_field="kind",
        successors=_current_notes,
        superseded=_superseded_notes,
    )
)
register(
    RecallKind(
        "observation",
        Observation,
        _observations,
        category=lambda observation: str(observation.category),
        category_field="category",
    )
)
register(
    RecallKind("fact", TopicFact, _facts, title=_fact_title, states=("current",), of_topic=True)
)
register(RecallKind("section", Section, _sections, topic_path=""))
