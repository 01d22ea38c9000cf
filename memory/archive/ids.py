"""IDs of imported rows: each row keeps its ID if that is free, else it gets a reproducible new one.

A UUID is kept unless another owner has a row with it.  Then the new one is derived from the old one and
the owner, so that importing the same archive twice adds nothing.  A run keeps its number if that is
free, else it gets the next one, and texts that name it (`run:12`) are updated.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, models

from beacon_site.text.dates import moment_of
from memory.archive.kinds import Kind

MOST_AHEAD = 1_000_000  # an ID is kept if it is at most this far beyond the last run's, so that IDs stay short
_REFERENCE = re.compile(
    r"\b(run):(\d{1,18})\b|\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b"
)
_ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_RUN = re.compile(r"run:\d{1,18}")
# Columns whose text names a record's origin, its use, or the subject of a log line.
_NAMING = ("source", "scope", "place", "job", "subject_id", "kept_with")


@dataclass(slots=True)
class Ids:
    """The IDs that change on import, old to new; unchanged ones aren't listed."""

    owner: Any
    uuids: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, dict[int, int]] = field(default_factory=dict)

    # --- choosing ---------------------------------------------------------------------------------

    def decide(self, kind: Kind, lines: Sequence[dict[str, Any]]) -> None:
        """Choose the IDs of these lines of one kind."""
        if not kind.by_id:
            return
        if kind.has_uuid:
            self._decide_uuids(kind, [str(line.get("id", "")) for line in lines])
        else:
            self._decide_numbers(kind, lines)

    def _decide_uuids(self, kind: Kind, written: Sequence[str]) -> None:
        keys = [key for key in map(_uuid, written) if key is not None]
        manager: models.Manager[Any] = kind.model._base_manager
        taken = manager.filter(pk__in=keys).exclude(**{kind.owner: self.owner})
        for key in taken.values_list("pk", flat=True):
            # What is one record in the archive is also one record here.
            own = uuid.uuid5(key, f"beacon:{self.owner.pk}")
            self.uuids[str(key)] = str(own)

    def _decide_numbers(self, kind: Kind, lines: Sequence[dict[str, Any]]) -> None:
        """Keep the numbers of runs that are already here, or whose number is free."""
        moved = self.numbers.setdefault(kind.name, {})
        wanted = {line["id"]: line for line in lines if type(line.get("id")) is int}
        here = self._here(kind, list(wanted.values()))
        last = _last_number(kind)
        sane = [key for key in wanted if 0 < key <= last + MOST_AHEAD]
        if sane and max(sane) > last:
            _reserve(kind, max(sane))
        manager: models.Manager[Any] = kind.model._base_manager
        taken = set(manager.filter(pk__in=sane).values_list("pk", flat=True))
        for key, line in wanted.items():
            same = here.get(self._marks(line))
            if same is not None:
                moved[key] = same
            elif key not in sane or key in taken:
                moved[key] = _next_number(kind)

    def _here(self, kind: Kind, lines: list[dict[str, Any]]) -> dict[tuple[str, Any], int]:
        """Return the owner's rows that were created for the same topic at the same time."""
        moments = [marks[1] for marks in map(self._marks, lines) if marks[1] is not None]
        rows = kind.all_rows(self.owner).filter(created__in=moments)
        return {
            (str(topic), created): pk
            for pk, topic, created in rows.values_list("pk", "topic_id", "created")
        }

    def _marks(self, line: dict[str, Any]) -> tuple[str, Any]:
        topic = str(line.get("topic_id", ""))
        return self.uuids.get(topic, topic), moment_of(str(line.get("created", "")))

    # --- replacing --------------------------------------------------------------------------------

    def moved(self, kind: Kind, line: dict[str, Any]) -> dict[str, Any]:
        """Return a line with all its IDs replaced."""
        if not self.uuids and not any(self.numbers.values()):
            return line
        line = dict(line)
        for column in kind.columns():
            name = column.attname
            value = line.get(name)
            if isinstance(value, int) and not isinstance(value, bool):
                line[name] = self.numbers.get(_numbered(kind, column), {}).get(value, value)
            elif isinstance(value, str) and (name in _NAMING or name in _keys(kind)):
                line[name] = self.text(value)
            elif isinstance(value, dict | list | str) and (
                isinstance(column, models.JSONField) or name in kind.citing
            ):
                line[name] = self.within(value)
        for name in kind.many:
            if isinstance(line.get(name), list):
                line[name] = sorted(self.text(str(key)) for key in line[name])
        return line

    def text(self, text: str) -> str:
        """Return a text with the IDs that it names replaced."""
        return _REFERENCE.sub(self._reference, text)

    def within(self, value: Any) -> Any:
        """Return the value of a JSON or prose column with its IDs replaced.

        A record's ID is replaced anywhere, such as in “[note:0190…]”, since it can't be ordinary text.  A
        run is replaced only as a whole value, since “run:12” could be part of someone's text.
        """
        if isinstance(value, dict):
            return {name: self.within(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.within(one) for one in value]
        if not isinstance(value, str):
            return value
        return self.text(value) if _RUN.fullmatch(value) else _ID.sub(self._by_id, value)

    def _by_id(self, found: re.Match[str]) -> str:
        return self.uuids.get(found[0], found[0])

    def _reference(self, found: re.Match[str]) -> str:
        if found[1]:
            number = int(found[2])
            return f"run:{self.numbers.get('runs', {}).get(number, number)}"
        return self.uuids.get(found[0], found[0])


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _keys(kind: Kind) -> set[str]:
    keys = {field.attname for field in kind.columns() if field.is_relation}
    return keys | {"id", "record_id", "target_id", "result_id", "left_id", "right_id"}


def _numbered(kind: Kind, column: models.Field[Any, Any]) -> str:
    """Return the kind whose numbers a column contains, or "" for other numbers."""
    target = column.related_model if column.is_relation else None
    if column.primary_key and not column.is_relation:
        target = kind.model
    is_run = target is not None and getattr(target, "_meta").model_name == "run"  # noqa: B009
    return "runs" if is_run else ""


def _sequence(kind: Kind) -> str:
    with connection.cursor() as cursor:
        table = kind.model._meta.db_table
        cursor.execute("SELECT pg_get_serial_sequence(%s, 'id')", [table])
        name: str = cursor.fetchone()[0]
    return name


def _last_number(kind: Kind) -> int:
    """Return the last ID that the database assigned."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT last_value FROM {_sequence(kind)}")  # noqa: S608  the database's own name  # nosec B608
        last: int = cursor.fetchone()[0]
    return last


def _reserve(kind: Kind, number: int) -> None:
    """Make the database assign only IDs above `number`."""
    with connection.cursor() as cursor:
        sequence = _sequence(kind)
        cursor.execute(
            f"SELECT setval(%s::regclass, greatest(%s, last_value)) FROM {sequence}",  # noqa: S608  the database's own name  # nosec B608
            [sequence, number],
        )


def _next_number(kind: Kind) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval(%s::regclass)", [_sequence(kind)])
        number: int = cursor.fetchone()[0]
    return number
