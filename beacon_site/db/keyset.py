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

# Two screens of rows: a page of fifty cost its reader nearly twice the wait for rows further down.
PAGE_SIZE = 30


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of one page, and the cursor of the next (None if this is the last)."""

    rows: list[Any]
    next_cursor: str | None


def page_of(
    rows: QuerySet[Any], *, by: str, falling: bool, cursor: str = "", size: int = PAGE_SIZE
) -> Page:
    """Return the page after `cursor` of `rows` ordered by the field `by`, then by id.

    `by` never holds null.  A cursor that cannot be read gives the first page.
    """
    sign = "-" if falling else ""
    behind = keyset(rows, by=by, falling=falling, cursor=cursor)
    found = list(behind.order_by(f"{sign}{by}", f"{sign}pk")[: size + 1])
    if len(found) <= size:
        return Page(found, None)
    last = found[size - 1]
    return Page(found[:size], cursor_of(getattr(last, by), last.pk))


def keyset(rows: QuerySet[Any], *, by: str, falling: bool, cursor: str) -> QuerySet[Any]:
    """Keep the rows after `cursor`, in no order; all of them if it cannot be read."""
    at = _read(cursor)
    if at is None:
        return rows
    value, key = at
    beyond = "lt" if falling else "gt"
    after = Q(**{f"{by}__{beyond}": value}) | Q(**{by: value, f"pk__{beyond}": key})
    try:
        # The first condition is where an index begins; by itself the second walks all before it.
        return rows.filter(Q(**{f"{by}__{beyond}e": value}) & after)
    except (ValidationError, ValueError, TypeError):
        return rows


def cursor_of(value: Any, key: Any) -> str:
    """Return the cursor of the page after the row with this value and id."""
    # DjangoJSONEncoder cuts microseconds off, on which rows may differ.  A moment is marked as
    # one: words may look like it ("2026-01-01").
    plain = (
        [value.isoformat(), str(key), "at"] if isinstance(value, datetime) else [value, str(key)]
    )
    text = json.dumps(plain, cls=DjangoJSONEncoder)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read(cursor: str) -> tuple[Any, str] | None:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        value, key, *mark = json.loads(text)
    except (ValueError, TypeError, binascii.Error):
        return None
    if not isinstance(key, str) or "\x00" in f"{value}{key}":
        return None
    if type(value) is int and 0 <= value < 2**31:  # a size
        return value, key
    if not isinstance(value, str):
        return None
    if not mark:
        return value, key
    try:
        moment = parse_datetime(value)
    except ValueError:
        moment = None
    return (moment, key) if moment else None
