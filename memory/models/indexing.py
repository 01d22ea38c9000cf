"""Keeping the search index: what each record says as counted terms, one space an owner and type.

What is written is found by the same transaction at once, and a rollback leaves nothing: the
figures are kept by triggers (`memory/models/search.py`), the ranking is in `memory/recall`.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from django.db import connection
from django.utils import timezone

from memory.models.search import SearchEntry, SearchSpace
from memory.models.users import User
from memory.texts.terms import stemmed_as, vector_of

MOST_BYTES = 4_000_000  # of the terms that one statement brings


class Searchable(Protocol):
    """A record that can be found by its words; `search_marks()`, where it has it, gives its Marks."""

    pk: Any
    owner_id: Any

    def search_type(self) -> str:
        """Return the type among which it is ranked, most often `record_type()`."""
        ...

    def search_text(self) -> str:
        """Return what it says: the content alone, never its category or labels (R76)."""
        ...


@dataclass(frozen=True, slots=True)
class Marks:
    """What the index knows of a record besides its words, to filter by.

    `labels` are who said it, its tags and its topic's title: only `lexical` looks at them.
    """

    labels: str = ""
    kind: str = ""
    topic_id: uuid.UUID | None = None
    created: datetime | None = None
    until: datetime | None = None
    stands: bool = True
    trust: str = "owner"
    sensitivity: str = "normal"


# Each column as an array: a thousand records are one statement of few parameters, and its
# triggers count them once.
_COLUMNS = {
    "record_id": "uuid", "length": "int", "words": "text", "kind": "text", "topic_id": "uuid",
    "created": "timestamptz", "until": "timestamptz", "stands": "boolean",
    "trust": "text", "sensitivity": "text",
}  # fmt: skip
_NAMES = ", ".join(_COLUMNS)
_VALUES = _NAMES.replace("words", "words::tsvector")
_ARRAYS = ", ".join(f"%s::{kind}[]" for kind in _COLUMNS.values())
_CHANGES = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name != "record_id")
_INDEX = (
    f"INSERT INTO memory_searchentry (space_id, {_NAMES}) "  # noqa: S608  our own names  # nosec B608
    f"SELECT %s, {_VALUES} FROM unnest({_ARRAYS}) AS new ({_NAMES}) "
    f"ON CONFLICT (space_id, record_id) DO UPDATE SET {_CHANGES}"
)


def index(records: Iterable[Searchable]) -> None:
    """Make the records findable by what they say now, those that were before included."""
    for space, members in _by_space(records):
        rows: list[list[Any]] = []
        room = MOST_BYTES
        for record in {record.pk: record for record in members}.values():
            row = _row(space, record)
            rows.append(row)
            room -= len(row[2])
            if room < 0:
                _store(space, rows)
                rows, room = [], MOST_BYTES
        _store(space, rows)


def _store(space: SearchSpace, rows: list[list[Any]]) -> None:
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        with connection.cursor() as cursor:
            cursor.execute(_INDEX, [space.pk, *columns])


def _row(space: SearchSpace, record: Searchable) -> list[Any]:
    """Return the columns of a record's entry, in the order of _COLUMNS."""
    told = getattr(record, "search_marks", None)  # asked of each: a protocol's check takes longer
    marks: Marks = told() if told else Marks()
    words, length = vector_of(record.search_text(), marks.labels, space.language)
    created = marks.created or timezone.now()
    return [
        record.pk, length, words, marks.kind, marks.topic_id, created, marks.until, marks.stands,
        marks.trust, marks.sensitivity,
    ]  # fmt: skip


def mark(records: Iterable[Any], *, trust: str, sensitivity: str) -> None:
    """Let the index say how far the records are believed, where their words stay as they are.

    A file's sections take the file's: to count all their terms anew would take a hundred times
    as long.
    """
    for space, members in _by_space(records):
        entries = SearchEntry.objects.filter(
            space=space, record_id__in=[record.pk for record in members]
        )
        entries.exclude(trust=trust, sensitivity=sensitivity).update(
            trust=trust, sensitivity=sensitivity
        )


def unindex(records: Iterable[Searchable]) -> None:
    """Make the records unfindable; those that were so already do not matter."""
    for space, members in _by_space(records):
        ids = [record.pk for record in members]
        SearchEntry.objects.filter(space=space, record_id__in=ids).delete()


def _by_space(records: Iterable[Searchable]) -> list[tuple[SearchSpace, list[Searchable]]]:
    """Group the records by space, spaces in the order in which their writers wait."""
    groups: dict[tuple[Any, str], list[Searchable]] = defaultdict(list)
    for record in records:
        groups[record.owner_id, record.search_type()].append(record)
    known = {pair: _space(*pair) for pair in groups}
    if missing := [pair for pair, space in known.items() if space is None]:
        languages = dict(
            User.objects.filter(pk__in={owner for owner, _kind in missing}).values_list(
                "pk", "language"
            )
        )
        SearchSpace.objects.bulk_create(
            [
                SearchSpace(
                    owner_id=owner, record_type=kind, language=stemmed_as(languages.get(owner, ""))
                )
                for owner, kind in missing
            ],
            ignore_conflicts=True,
        )
        known |= {pair: _space(*pair) for pair in missing}
    spaces = [(space, groups[pair]) for pair, space in known.items() if space is not None]
    return sorted(spaces, key=lambda pair: pair[0].pk)


def _space(owner_id: Any, kind: str) -> SearchSpace | None:
    return SearchSpace.objects.filter(owner_id=owner_id, record_type=kind).first()
