"""One change in full: each field with what was there before and what after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from memory.errors import MemoryRefused
from memory.models import Remembered, Revision
from memory.record_kinds import models as record_models
from memory.text_diff import Row, diff, folded
from memory.undoing import field_words, record_of

MOST_ROWS = 400  # lines of a diff on the page
MOST_COMPARED = 300_000  # characters of a text; one that is longer is told by its size
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


def changes_of(revision: Revision) -> list[FieldChange]:
    """Return what a revision changed, field by field; of the first, what was made."""
    names = sorted(revision.after)
    model = record_models().get(revision.record_type)
    named = field_words(model, names) if model else names
    is_first = not revision.before
    found = []
    for name, shown in zip(names, named, strict=True):
        old, new = revision.before.get(name), revision.after[name]
        if is_first and new in ("", None, [], {}, False):
            continue
        found.append(_change(shown, old, new))
    return found


def _change(name: str, old: Any, new: Any) -> FieldChange:
    before, after = _text(old), _text(new)
    if max(len(before), len(after)) <= _SHORT and "\n" not in before + after:
        return FieldChange(name, before, after)
    if max(len(before), len(after)) > MOST_COMPARED:
        said = _("%(old)s characters before, %(new)s after: too long to be compared here.")
        return FieldChange(name, said=said % {"old": f"{len(before):,}", "new": f"{len(after):,}"})
    rows = folded(diff(before, after))
    return FieldChange(name, rows=rows[:MOST_ROWS], rows_left=max(0, len(rows) - MOST_ROWS))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list):
        return "\n".join(map(_text, value)) if value else ""
    return str(value)


def record_now(revision: Revision) -> Remembered | None:
    """Return the record as it is now, None if it was deleted for good."""
    try:
        return record_of(revision)
    except MemoryRefused:
        return None
