"""One change in full: each field with what was there before and what after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import DateTimeField
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from memory.errors import MemoryRefused
from memory.models import Remembered, Revision
from memory.records.kinds import models as record_models
from memory.records.undoing import record_of
from memory.texts.diff import Row, diff, folded
from research.activity.words import QUIET, fields_in_words

MOST_ROWS = 400  # lines of a diff on the page
MOST_COMPARED = 300_000  # characters of a text; one that is longer is told by its size
MOST_FIRST = 8_000  # characters of a value that a record was made with
_SHORT = 80  # characters up to which a value is told in one line


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field: its name, and either two short values or the lines of a text that differ."""

    name: str
    old: str = ""
    new: str = ""
    rows: Sequence[Row] = ()
    rows_left: int = 0
    said: str = ""

    @property
    def is_text(self) -> bool:
        """Whether the field is told line by line."""
        return bool(self.rows)


@dataclass(frozen=True, slots=True)
class FirstValue:
    """One field of a record as it was made."""

    name: str
    text: str

    @property
    def is_text(self) -> bool:
        """Whether the value takes more than a line."""
        return _is_long(self.text)


def first_values(revision: Revision) -> list[FirstValue]:
    """Return what a record was made with, without what every record of its kind begins with."""
    fields = _fields(revision)
    found = []
    for name in _told(revision):
        value, field = revision.after[name], fields.get(name)
        default = field.get_default() if field is not None else None
        if value in ("", None, [], {}, False) or value == default:
            continue
        shown = _text(field, value)
        cut = f"{shown[:MOST_FIRST]} …" if len(shown) > MOST_FIRST else shown
        found.append(FirstValue(fields_in_words(revision.record_type, [name])[0], cut))
    return found


def changes_of(revision: Revision) -> list[FieldChange]:
    """Return what a revision changed, field by field."""
    fields = _fields(revision)
    return [
        _change(
            fields_in_words(revision.record_type, [name])[0],
            _text(fields.get(name), revision.before.get(name)),
            _text(fields.get(name), revision.after[name]),
        )
        for name in _told(revision)
    ]


def _told(revision: Revision) -> list[str]:
    return sorted(name for name in revision.after if name not in QUIET)


def _fields(revision: Revision) -> dict[str, Any]:
    model = record_models().get(revision.record_type)
    return {field.attname: field for field in model._meta.concrete_fields} if model else {}


def _is_long(text: str) -> bool:
    return len(text) > _SHORT or "\n" in text


def _change(name: str, before: str, after: str) -> FieldChange:
    if not _is_long(before) and not _is_long(after):
        return FieldChange(name, before, after)
    if max(len(before), len(after)) > MOST_COMPARED:
        said = _("%(old)s characters before, %(new)s after: too long to be compared here.")
        return FieldChange(name, said=said % {"old": f"{len(before):,}", "new": f"{len(after):,}"})
    rows = folded(diff(before, after))
    return FieldChange(name, rows=rows[:MOST_ROWS], rows_left=max(0, len(rows) - MOST_ROWS))


def _text(field: Any, value: Any) -> str:
    """Return a stored value as people read it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list):
        return "\n".join(_text(None, one) for one in value)
    if isinstance(field, DateTimeField) and (moment := parse_datetime(str(value))):
        return date_format(localtime(moment), "j M Y, H:i")
    choices = dict(field.flatchoices) if field is not None else {}
    return str(choices.get(value, value))


def record_now(revision: Revision) -> Remembered | None:
    """Return the record as it is now, None if it was deleted for good."""
    try:
        return record_of(revision)
    except MemoryRefused:
        return None
