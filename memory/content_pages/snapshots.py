"""Snapshots of the content store as people handle them: the list, one of them, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db import transaction
from django.db.models.functions import Left
from django.urls import reverse
from django.utils.translation import gettext as _

from memory import origins
from memory.actors import Actor
from memory.content.snapshots import named, restore_snapshot, take_snapshot
from memory.content_pages.list import BEGINNING, title_of
from memory.models import ContentItem, Snapshot, SnapshotItem, User
from memory.paging import Page, page_of
from memory.texts.text import shorten

PAGE, ITEMS = 50, 100


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """One snapshot in the list."""

    snapshot: Any
    name: str
    scope: origins.Origin
    maker: origins.Origin


@dataclass(frozen=True, slots=True)
class ItemRow:
    """One item of a snapshot, and whether the store holds it still."""

    item: Any
    title: str
    first_line: str
    is_here: bool


def page(user: User, *, cursor: str = "") -> Page:
    """Return one page of the snapshots, the newest first."""
    rows = Snapshot.objects.filter(owner=user, trashed_at=None)
    found = page_of(rows, by="created", falling=True, cursor=cursor, size=PAGE)
    return Page(rows_of(user, found.rows), found.next_cursor)


def rows_of(user: User, snapshots: Sequence[Any]) -> list[SnapshotRow]:
    """Return the snapshots with what their scopes and makers mean."""
    places = origins.of(user, [text for one in snapshots for text in (one.scope, one.source)])
    return [
        SnapshotRow(
            one,
            named(one),
            places.get(one.scope) or origins.Origin(one.scope, one.scope),
            places.get(one.source) or origins.Origin(one.source, one.source),
        )
        for one in snapshots
    ]


def items_of(snapshot: Any, *, page_number: int) -> tuple[list[ItemRow], bool]:
    """Return a page of what it holds, the oldest first, and whether there is more."""
    start = (page_number - 1) * ITEMS
    rows = SnapshotItem.objects.filter(snapshot=snapshot).defer("content").order_by("position")
    copies = list(rows.annotate(beginning=Left("content", BEGINNING))[start : start + ITEMS + 1])
    live = ContentItem.objects.of(snapshot.owner).live().filter(scope=snapshot.scope)
    here = set(live.filter(pk__in=[one.item_id for one in copies]).values_list("pk", flat=True))
    shown = [
        ItemRow(
            one,
            title_of(one),
            shorten(one.beginning, 160) if one.title else "",
            one.item_id in here,
        )
        for one in copies[:ITEMS]
    ]
    return shown, len(copies) > ITEMS


@dataclass(frozen=True, slots=True)
class Restored:
    """How many items were brought back into which scope, and the address that takes that back."""

    number: int
    scope: str
    undo_url: str


def restore(snapshot: Any, *, by: Actor, scope: str = "") -> Restored:
    """Bring a snapshot back into a scope (default: its own); what that held before is kept first.

    What it held is a snapshot as well, by which this is taken back.  Raises InvalidValue for what is
    no scope, and Locked; nothing is changed then.
    """
    into = scope or snapshot.scope
    with transaction.atomic():
        title = _("%(scope)s before “%(name)s” was restored") % {
            "scope": into, "name": shorten(named(snapshot), 80)
        }  # fmt: skip
        before = take_snapshot(snapshot.owner, into, by=by, title=title)
        items = restore_snapshot(snapshot, by=by, scope=scope or None)
    undo = reverse("memory:content-snapshot-take-back", args=[before.pk])
    return Restored(len(items), before.scope, undo)


def take_back(before: Any, *, by: Actor) -> int:
    """Let a scope hold again what it held before a restoration, whose snapshot then goes."""
    with transaction.atomic():
        items = restore_snapshot(before, by=by)
        before.trash(by=by, why=_("what it kept was brought back"))
    return len(items)


def list_url(scope: str) -> str:
    """Return the address of the list of what a scope holds."""
    return f"{reverse('memory:content')}?{urlencode({'scope': scope})}"
