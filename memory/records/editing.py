"""Editing a note or an observation on the version that was seen, and putting two edits together.

Data flow: typed fields and the version they were made from -> the kind's own edit -> stored, or a
`Conflict` with what both began with, what others made of it, and the two put together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.errors import MemoryRefused, StaleWrite
from memory.models import Note, Revision
from memory.models.history import as_json
from memory.notes.writing import edit_note
from memory.observations.writing import edit_observation
from memory.records import history as record_history
from memory.records import undoing
from memory.texts import merge as text_merge


class Conflict(MemoryRefused):
    """Somebody else changed the same record: `fields` are both edits put together.

    `seen` is the version that mine was made from, `merge` the words of all three, `others` names
    the fields (not the words) that both changed, with what stands there now.
    """

    def __init__(self, record: Any, seen: int, mine: Mapping[str, Any]) -> None:
        super().__init__(
            _(
                "It was changed since you opened it, so nothing is saved yet. What you typed is "
                "kept: below it is put together with the newer version."
            )
        )
        self.theirs = record
        self.seen = seen
        base = as_json(record_history.fields_at(record, seen))
        now = as_json(record.snapshot())
        typed = as_json(dict(mine))
        self.fields = {name: _joined(base.get(name), typed[name], now.get(name)) for name in typed}
        self.others = [
            (undoing.field_words(record, [name])[0], record_history.shown(record, name, now[name]))
            for name in typed
            if name != "content"
            and base.get(name) != typed[name] != now.get(name) != base.get(name)
        ]
        self.merge = merged_words(base.get("content", ""), mine, now.get("content", ""))
        if "content" in typed:
            self.fields["content"] = self.merge.text()
        later = record_history.revisions_of(record).filter(version__gt=seen)
        self.changes: list[Revision] = list(later[:10])

    @property
    def writers(self) -> str:
        """Return who changed it meanwhile."""
        owner = self.theirs.owner
        names = dict.fromkeys(record_history.who(owner, one.actor) for one in self.changes)
        return ", ".join(names)


def merged_words(base: str, mine: Mapping[str, Any], theirs: str) -> text_merge.Merge:
    """Return the words of both edits put together."""
    return text_merge.merge(base.strip(), str(mine.get("content", theirs)).strip(), theirs.strip())


def _joined(base: Any, mine: Any, theirs: Any) -> Any:
    """Return theirs where only they changed it, else mine."""
    return theirs if mine == base else mine


def edit(record: Any, fields: dict[str, Any], *, by: Actor, seen: int, why: str = "") -> None:
    """Store the fields of `record` as they were made from version `seen`.

    Changes of others that leave those fields alone (a pin, a lock) are no conflict.  Raises
    Conflict where they did not, InvalidValue with the reasons by field.
    """
    try:
        _write(record, fields, by=by, expected=seen, why=why)
    except StaleWrite as exc:
        record.refresh_from_db()
        # Who saw a version that never was has seen nothing: the whole history is news.
        seen = seen if seen <= record.version else 0
        base = as_json(record_history.fields_at(record, seen))
        now = as_json(record.snapshot())
        if any(base.get(name) != now.get(name) for name in fields):
            raise Conflict(record, seen, fields) from exc
        _write(record, fields, by=by, expected=record.version, why=why)


def _write(record: Any, fields: dict[str, Any], *, by: Actor, expected: int, why: str) -> None:
    write = edit_note if isinstance(record, Note) else edit_observation
    write(record, by=by, expected_version=expected, why=why or _("edited"), **fields)
