"""Pages of a long list by keyset: the cursor names the last row shown, so nothing is counted off."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_datetime

PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of one page, and the cursor of the next (None if this is the last)."""

    rows: list[Any]
    next_cursor: str | None


def page_of(
    rows: QuerySet[Any], *, by: str, falling: bool, cursor: str = "", size: int = PAGE_SIZE
) -> Page:
    """Return the page behind `cursor` of `rows` ordered by the field `by`, then by id.

    `by` never holds null.  A cursor that cannot be read gives the first page.
    """
    sign, beyond = ("-", "lt") if falling else ("", "gt")
    ordered = rows.order_by(f"{sign}{by}", f"{sign}pk")
    at = _read(cursor)
    if at is not None:
        value, key = at
        after = Q(**{f"{by}__{beyond}": value}) | Q(**{by: value, f"pk__{beyond}": key})
        try:
            ordered = ordered.filter(after)
        except (ValidationError, ValueError, TypeError):
            at = None
    found = list(ordered[: size + 1])
    if len(found) <= size:
        return Page(found, None)
    last = found[size - 1]
    return Page(found[:size], _write(getattr(last, by), last.pk))


def _write(value: Any, key: Any) -> str:
    # DjangoJSONEncoder cuts microseconds off, on which rows may differ.
    plain = value.isoformat() if isinstance(value, datetime) else value
    text = json.dumps([plain, str(key)], cls=DjangoJSONEncoder)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read(cursor: str) -> tuple[Any, str] | None:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        value, key = json.loads(text)
    except (ValueError, TypeError, binascii.Error):
        return None
    if not isinstance(value, str) or not isinstance(key, str) or "\x00" in value + key:
        return None
    try:
        moment = parse_datetime(value)
    except ValueError:
        moment = None
    return (moment or value), key
