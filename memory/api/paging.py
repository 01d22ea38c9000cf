"""Lists in pages: `?limit=` and `?cursor=`, answered with `{"items": […], "next": cursor|null}`.

A cursor names the last row of a page (keyset of created and id), signed and bound to its list, so
one that was made up, cut off or belongs to another list is refused, never taken for the first page.
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

USUAL, MOST = 50, 200
LONGEST_CURSOR = 500
T = TypeVar("T", bound=BaseModel)


class Paged(BaseModel):
    """Which page of a list."""

    limit: int = Field(USUAL, ge=1, le=MOST, description="How many at most.")
    cursor: str = Field(
        "", max_length=LONGEST_CURSOR, description="`next` of the page before; empty: the first."
    )


class Listing(BaseModel, Generic[T]):
    """One page: its items, and the cursor of the next page, null on the last one."""

    items: list[T]
    next: str | None = None


PAGE: Any = in_query(...)  # def list_notes(request, page: Paged = PAGE)


def listing(
    rows: QuerySet[Any],
    page: Paged,
    *,
    name: str,
    out: Callable[[Any], T],
    by: str = "created",
    falling: bool = True,
) -> Listing[T]:
    """Return the page of `rows`, ordered by the field `by` (never null) and the id.

    `name` is the list's own, to which its cursors are bound.  Raises Problem for a bad cursor.
    """
    at = opened(page, name)
    found = page_of(rows, by=by, falling=falling, cursor=at, size=page.limit)
    items = [shown.item(out, row) for row in found.rows]
    shown.shows()
    return Listing(items=items, next=closed(found.next_cursor, name))


def _signer(name: str) -> signing.Signer:
    return signing.Signer(salt=f"memory.api.cursor.{name}", sep="~")


def closed(cursor: str | None, name: str) -> str | None:
    """Return what a list's answer gives as `next`; None for the last page."""
    return _signer(name).sign(cursor) if cursor else None


def opened(page: Paged, name: str) -> str:
    """Return the cursor that a list goes on from; empty for its first page.  Raises Problem."""
    if not page.cursor:
        return ""
    try:
        return _signer(name).unsign(page.cursor)
    except signing.BadSignature:
        words = _(
            "This cursor is none of this list's. Take `next` of the page before as it is, with the "
            "same filters, or leave it out for the first page."
        )
        raise Problem(422, words, errors={"cursor": [words]}) from None
