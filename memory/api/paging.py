"""Lists in pages: `?limit=` and `?cursor=`, answered with `{"items": […], "next": cursor|null}`.

A cursor names the last row of a page (keyset of created and ID), signed and bound to its list. An
invalid cursor, or one of another list, is an error and never means the first page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from django.core import signing
from django.db.models import QuerySet
from django.utils.translation import gettext as _
from ninja.params.functions import Query as in_query
from pydantic import BaseModel, Field

from beacon_site.db.keyset import page_of
from memory.api import shown
from memory.api.problems import Problem

USUAL, MAX = 50, 200
MAX_CURSOR_LENGTH = 500
T = TypeVar("T", bound=BaseModel)


class PageParams(BaseModel):
    """Which page of a list."""

    limit: int = Field(USUAL, ge=1, le=MAX, description="Maximum number of items.")
    cursor: str = Field(
        "",
        max_length=MAX_CURSOR_LENGTH,
        description="`next` of the previous page. Leave empty for the first page.",
    )


class Listing(BaseModel, Generic[T]):
    """One page: its items, and the cursor of the next page (null on the last page)."""

    items: list[T]
    next: str | None = None


PAGE: Any = in_query(...)  # def list_notes(request, page: PageParams = PAGE)


def listing(
    rows: QuerySet[Any],
    page: PageParams,
    *,
    name: str,
    out: Callable[[Any], T],
    by: str = "created",
    falling: bool = True,
) -> Listing[T]:
    """Return the page of `rows`, ordered by the field `by` (never null) and the ID.

    Cursors are bound to the list's `name`.  Raises Problem for an invalid cursor.
    """
    at = read_cursor(page, name)
    found = page_of(rows, by=by, falling=falling, cursor=at, size=page.limit)
    items = [shown.item(out, row) for row in found.rows]
    shown.shows()
    return Listing(items=items, next=sign_cursor(found.next_cursor, name))


def _signer(name: str) -> signing.Signer:
    return signing.Signer(salt=f"memory.api.cursor.{name}", sep="~")


def sign_cursor(cursor: str | None, name: str) -> str | None:
    """Return the value of a list's `next`; None for the last page."""
    return _signer(name).sign(cursor) if cursor else None


def read_cursor(page: PageParams, name: str) -> str:
    """Return the position in a cursor; empty for the first page.  Raises Problem."""
    if not page.cursor:
        return ""
    try:
        return _signer(name).unsign(page.cursor)
    except signing.BadSignature:
        words = _(
            "This cursor isn’t valid for this list. Send `next` from the previous page unchanged, with the same filters, or leave it out to get the first page."
        )
        raise Problem(422, words, errors={"cursor": [words]}) from None
