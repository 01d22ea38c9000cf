"""One row as a line of an archive, and back.

Data flow: row -> `encoded` -> a JSON object of its columns -> `decoded` -> a row of another owner,
checked column by column, so that a line that somebody wrote by hand breaks nothing.
"""

from __future__ import annotations

import json
import uuid
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.archive.kinds import Kind
from memory.texts.days import in_utc
from memory.texts.text import clean

LONGEST_LINE = 18 * 1024 * 1024  # bytes: the longest content item fits, every character escaped


class Broken(ValueError):
    """A line is no JSON object; the message says what is wrong with it."""


class Unfit(ValueError):
    """A row cannot be what it says; the message says why."""


# --- out ------------------------------------------------------------------------------------------


def encoded(kind: Kind, row: Any) -> dict[str, Any]:
    """Return a row as the archive holds it."""
    line = {}
    for field in kind.columns():
        name = field.attname
        line[name] = _plain(getattr(row, name))
        if name in kind.named and line[name] is not None:
            line[name] = getattr(getattr(row, field.name), kind.named[name])
    for name in kind.many:
        line[name] = sorted(str(other.pk) for other in getattr(row, name).all())
    return line


def as_line(line: dict[str, Any]) -> str:
    """Return an encoded row as one line of JSON."""
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=_plain) + "\n"


def _plain(value: Any) -> Any:
    """Return a column's value as JSON has it."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, uuid.UUID | Decimal):
        return str(value)
    return value


# --- in -------------------------------------------------------------------------------------------


def parsed(text: str) -> dict[str, Any]:
    """Return the object on a line, without what cannot be stored.  Raises Broken."""
    try:
        value = _clean(json.loads(text, parse_constant=_no_number))
    except RecursionError as exc:
        raise Broken(_("it is nested too deeply")) from exc
    except ValueError as exc:
        raise Broken(_("it is no JSON (%(why)s)") % {"why": exc}) from exc
    if not isinstance(value, dict):
        raise Broken(_("it is no JSON object"))
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)[0]
    if isinstance(value, list):
        return [_clean(one) for one in value]
    if isinstance(value, dict):
        return {clean(name)[0]: _clean(one) for name, one in value.items()}
    return value


def decoded(kind: Kind, line: dict[str, Any]) -> Any:
    """Return a row, not saved and of nobody, made from a line.  Raises Unfit.

    A column that the line lacks is as it is in a new row: an older Beacon did not have it.
    """
    values = {}
    for field in kind.columns():
        name = field.attname
        if name in line and name not in kind.named:
            values[name] = _value(field, line[name])
    for name in kind.many:
        _check_keys(name, line.get(name) or [])
    return kind.model(**values)


def _check_keys(name: str, keys: Any) -> None:
    """Check that a list of other records is one of ids.  Raises Unfit."""
    try:
        for key in keys if isinstance(keys, list) else [None]:
            uuid.UUID(str(key))
    except ValueError as exc:
        raise Unfit(_("“%(field)s” is no list of ids") % {"field": name}) from exc


def _value(field: models.Field[Any, Any], value: Any) -> Any:
    """Return a column's value as the field takes it.  Raises Unfit."""
    if value is None:
        if field.null:
            return None
        raise Unfit(_("“%(field)s” is empty") % {"field": field.name})
    if isinstance(field, models.JSONField):
        shape = field.get_default()
        if isinstance(shape, list | dict) and not isinstance(value, type(shape)):
            is_list = isinstance(shape, list)
            words = _("“%(field)s” is no list") if is_list else _("“%(field)s” is no object")
            raise Unfit(words % {"field": field.name})
        return value
    if isinstance(field, ArrayField):
        if not isinstance(value, list):
            raise Unfit(_("“%(field)s” is no list") % {"field": field.name})
        return [_value(field.base_field, one) for one in value]
    if isinstance(field, models.CharField | models.TextField) and not isinstance(value, str):
        raise Unfit(_("“%(field)s” is no text") % {"field": field.name})
    try:
        taken = field.to_python(value)
        if isinstance(taken, datetime):
            taken = in_utc(timezone.make_aware(taken) if timezone.is_naive(taken) else taken)
        field.run_validators(taken)
    except (ValidationError, ValueError, TypeError, OverflowError) as exc:
        why = " ".join(exc.messages) if isinstance(exc, ValidationError) else str(exc)
        raise Unfit(f"“{field.name}”: {why}") from exc
    if field.choices and taken not in _choices(field) and not (field.blank and taken == ""):
        raise Unfit(_("“%(field)s” cannot be “%(value)s”") % {"field": field.name, "value": taken})
    return taken


def _choices(field: models.Field[Any, Any]) -> set[Any]:
    return {value for value, _label in field.flatchoices}
