"""Undo one change of a record, or restore an earlier version; both add a new revision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import DataError, IntegrityError, models, transaction
from django.utils.translation import gettext as _

from memory.core.actors import Actor
from memory.core.errors import InvalidValue, MemoryRefused
from memory.models import Remembered, Revision
from memory.models.history import as_json
from memory.records.kinds import kind_of
from memory.records.kinds import models as record_models

TRASHED = "trashed_at"
# Fields that no change sets, though a revision in a hand-edited archive can name any.
_NEVER_SET = frozenset({"id", "owner", "owner_id", "version", "created", "updated"})


class Gone(MemoryRefused):
    """The record of a revision was permanently deleted."""


class ChangedSince(MemoryRefused):
    """The changed fields have been changed again, so this change can't be undone by itself."""


def record_of(revision: Revision, *, for_update: bool = False) -> Remembered:
    """Return the record of a revision.  Raises Gone if it was permanently deleted."""
    model = record_models().get(revision.record_type)
    rows = model.objects.filter(owner=revision.owner_id, pk=revision.record_id) if model else None
    if rows is not None and for_update:
        rows = rows.select_for_update(of=("self",), no_key=True)
    record: Remembered | None = rows.first() if rows is not None else None
    if record is None:
        raise Gone(_("“%(label)s” was permanently deleted.") % {"label": revision.label})
    return record


def undo(revision: Revision, *, by: Actor) -> Remembered:
    """Undo one change and return the record; a record that it created is trashed.

    Other fields keep their present values.  Raises ChangedSince if a field was changed again, Gone for
    a purged record, and what the record's own rules raise.
    """
    with transaction.atomic():
        record = record_of(revision, for_update=True)
        if not revision.before:
            _not_changed_since(record, {TRASHED: None})
            kind_of(revision.record_type).trash(record, by)
            return record
        _not_changed_since(record, revision.after)
        why = _("undid version %(version)d") % {"version": revision.version}
        _put_back(record, revision.before, by, why)
    return record


def restore_to(revision: Revision, *, by: Actor) -> Remembered:
    """Restore the record to its state at `revision`, also from Trash, and return it.

    Raises Gone for a purged record, and what the record's own rules raise.
    """
    with transaction.atomic():
        record = record_of(revision, for_update=True)
        why = _("restored version %(version)d") % {"version": revision.version}
        _put_back(record, state_at(record, revision.version), by, why)
    return record


def state_at(record: Remembered, version: int) -> dict[str, Any]:
    """Return the fields that changed after `version`, with their values at that time as JSON."""
    later = Revision.objects.filter(
        record_type=record.record_type(), record_id=record.pk, version__gt=version
    )
    state: dict[str, Any] = {}
    for before in later.order_by("-version", "-id").values_list("before", flat=True):
        state |= before
    return state


def _not_changed_since(record: Remembered, after: dict[str, Any]) -> None:
    now, derived = _now(record, after), kind_of(record.record_type()).derived
    names = [name for name in now if now[name] != after[name] and name not in derived]
    if names == [TRASHED] and record.trashed_at is not None:
        raise ChangedSince(_("“%(label)s” is already in Trash.") % {"label": record})
    if names:
        raise ChangedSince(
            _(
                "“%(label)s” has changed since then (%(fields)s), so this change can’t be undone on its own. You can restore an earlier version from its history."
            )
            % {"label": record, "fields": ", ".join(field_words(record, names))}
        )


def _now(record: Remembered, names: Iterable[str]) -> dict[str, Any]:
    """Return the present values of the fields as JSON."""
    fields = record._meta.concrete_fields
    keys = {name: field.attname for field in fields for name in (field.name, field.attname)}
    row = {name: getattr(record, key) for name, key in keys.items()}
    state = row | kind_of(record.record_type()).more(record)
    return as_json({name: state[name] for name in names if name in state})


def field_words(record: Remembered | type[Remembered], names: list[str]) -> list[str]:
    """Return the readable names of the fields."""
    named = {field.attname: str(field.verbose_name) for field in record._meta.concrete_fields}
    return [named.get(name, name.replace("_", " ")) for name in names]


def _put_back(record: Remembered, state: dict[str, Any], by: Actor, why: str) -> None:
    """Set the fields to a revision's values, by the rules of the record's kind."""
    kind, label = kind_of(record.record_type()), str(record)
    if _NEVER_SET.intersection(state):
        told = {"label": label}
        raise InvalidValue(_("This change to “%(label)s” can’t be undone.") % told)
    values = {name: _python(record, name, value) for name, value in state.items()}
    try:
        with transaction.atomic():
            if TRASHED in values:
                move = kind.restore if values.pop(TRASHED) is None else kind.trash
                move(record, by)
            now = _now(record, values)
            fields = {name: values[name] for name in values if now.get(name) != state[name]}
            if fields:
                kind.put_back(record, fields, by, why)
    except (IntegrityError, DataError) as exc:
        raise InvalidValue(
            _(
                "“%(label)s” can’t be restored to that version because it conflicts with something that exists now. Nothing was changed. Edit it instead."
            )
            % {"label": label}
        ) from exc


def _python(record: Remembered, name: str, value: Any) -> Any:
    """Convert a field's stored JSON to its value; a link to a deleted record can't be restored."""
    field = next((f for f in record._meta.concrete_fields if name in (f.name, f.attname)), None)
    if field is None or value is None:
        return value
    if isinstance(field, models.ForeignKey):
        rows: Any = field.related_model._default_manager.all()
        # A revision from an archive can name another owner's record.
        mine = rows.of(record.owner) if hasattr(rows, "of") else rows
        if not mine.filter(pk=value).exists():
            raise Gone(
                _("That version of “%(label)s” refers to something that was permanently deleted.")
                % {"label": record}
            )
        return field.target_field.to_python(value)
    return field.to_python(value)
