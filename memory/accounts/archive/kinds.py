"""The models in an archive, and how a row becomes a line of JSON and back.

`EXPORTED` lists the models in import order, parents first; research adds its own
(`research.services.extensions.archive`).  `NOT_EXPORTED` lists the other models that have an owner, with the reason.
A test fails for a model that is in neither list.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone
from django.utils.functional import Promise

from beacon_site.db.message_fields import MessagesField
from beacon_site.text import messages
from beacon_site.text.cleaning import clean
from beacon_site.text.dates import in_utc
from beacon_site.text.messages import gettext as _


def _fine(_row: Any) -> str:
    return ""


def _as_it_is(_row: Any, _import_context: Any) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Kind:
    """How one model is exported and imported.

    `owner` is the path to the owner.  `key` has the columns that identify a row without an exported ID;
    rows are fetched by the first of them.  `without` has columns that mean nothing elsewhere, `named`
    the foreign keys exported as names, `many` the many-to-many fields, and `citing` the columns whose
    text names records by ID.  `of_records` marks rows whose `record_id` names a record without a foreign
    key.  `only` filters the exported rows.  `problem` returns why a row can't be
    imported, `prepare` changes it before it is stored (if it `purges`, it also permanently deletes
    default records), and `finish` gets the new rows at the end.
    """

    name: str
    label: str | Promise
    model: type[models.Model]
    owner: str = "owner"
    key: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)
    many: tuple[str, ...] = ()
    citing: tuple[str, ...] = ()
    of_records: bool = False
    only: models.Q | None = None
    own_alone: bool = False
    problem: Callable[[Any], str] = _fine
    prepare: Callable[[Any, Any], None] = _as_it_is
    purges: bool = False
    finish: Callable[[Any, list[Any]], None] | None = None

    @property
    def by_id(self) -> bool:
        """Return True if rows are identified by their ID, which is then exported."""
        return not self.key

    @property
    def has_uuid(self) -> bool:
        """Return True if the ID is globally unique."""
        return isinstance(self.model._meta.pk, models.UUIDField)

    @property
    def path(self) -> str:
        """Return the name of the file inside the archive."""
        return f"data/{self.name}.jsonl"

    def rows(self, owner: Any) -> models.QuerySet[Any]:
        """Return the owner's exported rows in order of creation."""
        found = self.all_rows(owner)
        if self.only is not None:
            found = found.filter(self.only)
        return found.order_by(*self._order())

    def all_rows(self, owner: Any) -> models.QuerySet[Any]:
        """Return all rows of the owner, including those that aren't exported."""
        manager: models.Manager[Any] = self.model._base_manager
        return manager.filter(**{self.owner: owner})

    def _order(self) -> tuple[str, ...]:
        names = {field.name for field in self.model._meta.concrete_fields}
        return ("created", "pk") if "created" in names and self.has_uuid else ("pk",)

    def columns(self) -> list[models.Field[Any, Any]]:
        """Return the exported fields in the order of the model."""
        left_out = {"owner", *self.without, *(() if self.by_id else ("id",))}
        return [field for field in self.model._meta.concrete_fields if field.name not in left_out]


EXPORTED: list[Kind] = []
# By the model's label: why its rows aren't exported.
NOT_EXPORTED: dict[str, str] = {}


def register(kinds: Iterable[Kind], left_out: Mapping[str, str]) -> None:
    """Append models to the list, and add those that aren't exported."""
    known = {kind.name for kind in EXPORTED}
    EXPORTED.extend(kind for kind in kinds if kind.name not in known)
    NOT_EXPORTED.update(left_out)


def in_order() -> list[Kind]:
    """Return the exported kinds, history and log last because they refer to all others."""
    return sorted(EXPORTED, key=lambda kind: kind.name in _LAST)


_LAST = ("revisions", "uses", "activity", "model-calls")


# --- rows and lines of JSON ---

MAX_LINE_LENGTH = (
    18 * 1024 * 1024
)  # bytes: enough for the longest content item with every character escaped


class InvalidLine(ValueError):
    """A line isn't a JSON object; the message says why."""


class InvalidRow(ValueError):
    """A row has invalid values; the message says why."""


# --- export ---------------------------------------------------------------------------------------


def encoded(kind: Kind, row: Any) -> dict[str, Any]:
    line = {}
    for column in kind.columns():
        name = column.attname
        line[name] = _plain(getattr(row, name))
        if name in kind.named and line[name] is not None:
            line[name] = getattr(getattr(row, column.name), kind.named[name])
    for name in kind.many:
        line[name] = sorted(str(other.pk) for other in getattr(row, name).all())
    return line


def as_line(line: dict[str, Any]) -> str:
    """Return an encoded row as one line of JSON."""
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=_plain) + "\n"


def _plain(value: Any) -> Any:
    """Return a column's value as JSON."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, uuid.UUID | Decimal):
        return str(value)
    return value


# --- import ---------------------------------------------------------------------------------------


def parsed(text: str) -> dict[str, Any]:
    """Parse a line, and remove characters that can't be stored.  Raises Broken."""
    try:
        value = _clean(json.loads(text, parse_constant=_no_number))
    except RecursionError as exc:
        raise InvalidLine(_("it’s nested too deeply")) from exc
    except ValueError as exc:
        raise InvalidLine(_("it isn’t valid JSON (%(why)s)") % {"why": exc}) from exc
    if not isinstance(value, dict):
        raise InvalidLine(_("it isn’t a JSON object"))
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} isn’t a number")


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)[0]
    if isinstance(value, list):
        return [_clean(one) for one in value]
    if isinstance(value, dict):
        return {clean(name)[0]: _clean(one) for name, one in value.items()}
    return value


def decoded(kind: Kind, line: dict[str, Any]) -> Any:
    """Return an unsaved row without an owner, built from a line.  Raises InvalidRow.

    Missing columns get the default of a new row, since an older Beacon didn't have them.
    """
    values = {}
    for column in kind.columns():
        name = column.attname
        if name in line and name not in kind.named:
            values[name] = _value(column, line[name])
    for name in kind.many:
        _check_keys(name, line.get(name) or [])
    return kind.model(**values)


def _check_keys(name: str, keys: Any) -> None:
    """Check that a many-to-many value is a list of IDs.  Raises InvalidRow."""
    try:
        for key in keys if isinstance(keys, list) else [None]:
            uuid.UUID(str(key))
    except ValueError as exc:
        raise InvalidRow(_("“%(field)s” isn’t a list of IDs") % {"field": name}) from exc


def _check_json(field: models.JSONField, value: Any) -> None:
    shape = field.get_default()
    if isinstance(shape, list | dict) and not isinstance(value, type(shape)):
        is_list = isinstance(shape, list)
        words = _("“%(field)s” isn’t a list") if is_list else _("“%(field)s” isn’t an object")
        raise InvalidRow(words % {"field": field.name})
    # An archive can't choose which of Beacon's own messages a row shows.
    if isinstance(field, MessagesField):
        texts = value if isinstance(value, list) else []
        if messages.has_stored(value) or not all(isinstance(text, str) for text in texts):
            raise InvalidRow(_("“%(field)s” isn’t text") % {"field": field.name})


def _value(field: models.Field[Any, Any], value: Any) -> Any:
    """Convert a JSON value for the field.  Raises InvalidRow."""
    if value is None:
        if field.null:
            return None
        raise InvalidRow(_("“%(field)s” is empty") % {"field": field.name})
    if isinstance(field, models.JSONField):
        _check_json(field, value)
        return value
    if isinstance(field, ArrayField):
        if not isinstance(value, list):
            raise InvalidRow(_("“%(field)s” isn’t a list") % {"field": field.name})
        return [_value(field.base_field, one) for one in value]
    if isinstance(field, models.CharField | models.TextField) and not isinstance(value, str):
        raise InvalidRow(_("“%(field)s” isn’t text") % {"field": field.name})
    try:
        taken = field.to_python(value)
        if isinstance(taken, datetime):
            taken = in_utc(timezone.make_aware(taken) if timezone.is_naive(taken) else taken)
        field.run_validators(taken)
    except (ValidationError, ValueError, TypeError, OverflowError) as exc:
        why = " ".join(exc.messages) if isinstance(exc, ValidationError) else str(exc)
        raise InvalidRow(f"“{field.name}”: {why}") from exc
    if field.choices and taken not in _choices(field) and not (field.blank and taken == ""):
        raise InvalidRow(
            _("“%(field)s” can’t be “%(value)s”") % {"field": field.name, "value": taken}
        )
    return taken


def _choices(field: models.Field[Any, Any]) -> set[Any]:
    return {value for value, _label in field.flatchoices}
