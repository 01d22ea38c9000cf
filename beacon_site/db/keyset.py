"""Keyset pagination of long lists: the cursor names the last row shown, so no rows are skipped."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_datetime

# Two screens of rows.  A page of fifty took nearly twice as long to load.
PAGE_SIZE = 30


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of one page, and the cursor of the next page (None on the last)."""

    rows: list[Any]
    next_cursor: str | None


def page_of(
    rows: QuerySet[Any], *, by: str, falling: bool, cursor: str = "", size: int = PAGE_SIZE
) -> Page:
    """Return the page after `cursor` of `rows` ordered by the field `by`, then by id.

    `by` must not be null.  An invalid cursor gives the first page.
    """
    sign = "-" if falling else ""
    behind = keyset(rows, by=by, falling=falling, cursor=cursor)
    found = list(behind.order_by(f"{sign}{by}", f"{sign}pk")[: size + 1])
    if len(found) <= size:
        return Page(found, None)
    last = found[size - 1]
    return Page(found[:size], cursor_of(getattr(last, by), last.pk))


def keyset(rows: QuerySet[Any], *, by: str, falling: bool, cursor: str) -> QuerySet[Any]:
    """Return the rows after `cursor`, unordered; all of them if it's invalid."""
    at = _read(cursor)
    if at is None:
        return rows
    value, key = at
    beyond = "lt" if falling else "gt"
    after = Q(**{f"{by}__{beyond}": value}) | Q(**{by: value, f"pk__{beyond}": key})
    try:
        # The first condition lets an index start there. Without it, all earlier rows would be
        # scanned.
        return rows.filter(Q(**{f"{by}__{beyond}e": value}) & after)
    except (ValidationError, ValueError, TypeError):
        return rows


def cursor_of(value: Any, key: Any) -> str:
    """Return the cursor of the page after the row with this value and id."""
    # DjangoJSONEncoder drops microseconds, which can be the only difference between rows.  Dates and
    # times are marked, since a text can look like one ("2026-01-01").
    plain = (
        [value.isoformat(), str(key), "at"] if isinstance(value, datetime) else [value, str(key)]
    )
    return encoded(plain)


def encoded(values: Sequence[Any]) -> str:
    """Return the values as the text of a cursor."""
    text = json.dumps(values, cls=DjangoJSONEncoder)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decoded(cursor: str) -> list[Any]:
    """Return the values of a cursor; none if it's invalid."""
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error):
        return []
    return values if isinstance(values, list) else []


def place_of(cursor: str) -> tuple[datetime, UUID] | None:
    """Return the time and the id in the cursor of a list by time; None if it's invalid."""
    at = _read(cursor)
    try:
        return (at[0], UUID(at[1])) if at and isinstance(at[0], datetime) else None
    except ValueError:
        return None


def _read(cursor: str) -> tuple[Any, str] | None:
    try:
        value, key, *mark = decoded(cursor)
    except ValueError:
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
