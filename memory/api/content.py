"""`/content`: full results of actions, kept outside the conversation, and their snapshots."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from django.db.models import Q
from django.http import HttpResponse
from django.utils.translation import gettext as _
from ninja import Query, Status
from pydantic import BaseModel, Field

from memory.agents.tools.types import named_source
from memory.api import auth
from memory.api.auth import READ, WRITE, ApiRequest, Caller
from memory.api.frame import Body, located, router
from memory.api.notes import Sensitivity, Tags
from memory.api.paging import Listing, PageParams, listing
from memory.api.problems import Problem, not_found
from memory.api.review import check_unreviewed
from memory.api.shown import Moment, NoStoredText, RecordOut, moment, shows, used
from memory.models import ContentItem, Snapshot, Trust
from memory.models.remembered import OWNER_SCOPE
from memory.services.content import items as content_services
from memory.services.content import snapshots, transforms
from memory.services.content.items import (
    MAX_ACTION_LENGTH,
    MAX_BYTES,
    MAX_RELATED,
    MAX_SOURCE_LENGTH,
    MAX_TITLE_LENGTH,
    MAX_URL_LENGTH,
    matching,
)
from memory.services.content.transforms import View
from memory.services.notes.saving import MAX_SCOPE_LENGTH

Type = Literal["action_result", "web_content", "database_result", "custom"]
TransformName = Literal["full", "excerpt", "summary", "first_n", "last_n", "filtered"]
Scope = Annotated[
    str,
    Field(
        max_length=MAX_SCOPE_LENGTH, description="owner, run:<id>, session:<id> or agent:<name>."
    ),
]


class ContentIn(Body):
    """An item to store in full."""

    content: str = Field(max_length=MAX_BYTES, description="At most 8 MiB of UTF-8.")
    type: Type = "custom"
    source: str = Field(
        "", max_length=MAX_SOURCE_LENGTH, description="Where it came from. Default: the caller."
    )
    tags: Tags = []
    related_to: list[str] = Field([], max_length=MAX_RELATED, description="IDs of related items.")
    scope: Scope = "owner"
    title: str = Field("", max_length=MAX_TITLE_LENGTH)
    url: str = Field("", max_length=MAX_URL_LENGTH)
    action: str = Field(
        "", max_length=MAX_ACTION_LENGTH, description="The action that produced the item, if any."
    )
    sensitivity: Sensitivity = "normal"


class ContentQuery(PageParams):
    """Filters, all of which must match."""

    scope: Scope | None = Field(
        None, description="Only this scope. Default: all scopes that you can see."
    )
    type: Type | None = None
    source: str = Field("", max_length=MAX_SOURCE_LENGTH, description="Only this exact source.")
    tag: list[str] = Field([], max_length=50, description="Only items with all of these tags.")
    after: Moment | None = Field(None, description="Stored at or after this time.")
    before: Moment | None = Field(None, description="Stored at or before this time.")


class ViewQuery(BaseModel):
    """How to show an item."""

    transform: TransformName = Field(
        "full",
        description="How much of the item to return. excerpt: the text around the first match of q. summary: the most important sentences. filtered: the lines that contain all words in q.",
    )
    n: int | None = Field(
        None, ge=1, le=MAX_BYTES, description="Number of characters or lines. Not used with full."
    )
    q: str = Field(
        "", max_length=400, description="Words to search for. Used only with excerpt and filtered."
    )
    unit: Literal["characters", "lines"] = "characters"


class ItemOut(RecordOut):
    """An item's metadata, without its content."""

    id: UUID
    type: Type
    source: str
    scope: str
    tags: list[str]
    title: str
    url: str
    action: str
    size: int = Field(description="Length of the whole content in characters.")
    run_step: str
    sensitivity: Sensitivity
    trust: str
    version: int
    created: datetime
    updated: datetime


class ContentViewOut(ItemOut):
    """An item in one view, which shows `shown` of the `of` units of its content."""

    content: str
    transform: TransformName
    shown: int
    of: int
    unit: str
    related_to: list[UUID]

    @classmethod
    def view_of(cls, item: ContentItem, name: TransformName, view: View) -> Self:
        """Return the item with the part of it that the view shows."""
        shows(item)
        related = item.related_to.live().order_by("pk").values_list("pk", flat=True)
        return cls.from_row(
            item,
            content=view.text,
            transform=name,
            shown=view.shown,
            of=view.of,
            unit=view.unit,
            related_to=list(related),
        )


class ClearedOut(NoStoredText):
    """How many items were moved to Trash."""

    cleared: int


class SnapshotIn(Body):
    """The scope to save as a snapshot."""

    scope: Scope
    title: str = Field("", max_length=200)


class SnapshotOut(RecordOut):
    """A snapshot: the items of a scope at a point in time."""

    id: UUID
    scope: str
    title: str
    count: int = Field(description="Number of items.")
    size: int = Field(description="Total length in characters.")
    format: int
    created: datetime


class RestoreIn(Body):
    """Where to restore a snapshot: to its own scope, or as copies in another."""

    scope: Scope | None = None


class RestoredOut(NoStoredText):
    """The restored items, oldest first."""

    ids: list[UUID]
    scope: str


# --- endpoints ---

api = router("content", is_held=True)


@api.post("", auth=WRITE, response={201: ItemOut})
def store_content(request: ApiRequest, response: HttpResponse, item: ContentIn) -> Any:
    """Store an item in full. It's added to a prompt only if it's requested by its ID."""
    caller = request.auth
    fields = item.model_dump(exclude={"content", "source", "scope"})
    scope = auth.claimed(caller, item.scope)
    if scope == OWNER_SCOPE:
        check_unreviewed(caller, "content", _("Storing content for all agents"))
    stored = content_services.store(
        caller.owner,
        item.content,
        by=caller.by,
        source=named_source(caller.context(), item.source),
        scope=scope,
        trust=caller.write_trust,
        **fields,
    )
    located(response, f"/content/{stored.pk}")
    return Status(201, ItemOut.about(stored))


@api.get("", auth=READ, response=Listing[ItemOut])
def query_content(request: ApiRequest, query: Query[ContentQuery]) -> Listing[ItemOut]:
    """List items, newest first, without their content."""
    caller = request.auth
    among: Any = None if caller.by.is_person else caller.context().scopes
    if query.scope is not None:
        among = [auth.stored_scope(caller, query.scope)]
    rows = matching(
        caller.owner, scopes=among, type=query.type or "", source=query.source, tags=query.tag
    )
    after, before = moment(caller, query.after), moment(caller, query.before)
    if after is not None:
        rows = rows.filter(created__gte=after)
    if before is not None:
        rows = rows.filter(created__lte=before)
    if not caller.by.is_person:
        rows = rows.for_agents()
    return listing(rows.defer("content"), query, name="content", out=ItemOut.about)


@api.get("/{uuid:item_id}", auth=READ, response=ContentViewOut)
def show_content(request: ApiRequest, item_id: UUID, query: Query[ViewQuery]) -> ContentViewOut:
    """Return all or part of an item, with the size of the returned part and the full size."""
    caller = request.auth
    item = content_services.retrieve(caller.owner, item_id, scopes=None)
    if item is None or not auth.is_open(caller, item.scope):
        raise not_found()
    if not caller.by.is_person and not ContentItem.objects.filter(pk=item.pk).for_agents().exists():
        raise Problem(403, _("Only people can see this item."))
    view = transforms.transform(
        item.content, query.transform, n=query.n, q=query.q, unit=query.unit
    )
    used(caller, item)
    return ContentViewOut.view_of(item, query.transform, view)


@api.delete("", auth=WRITE, response=ClearedOut)
def clear_content(request: ApiRequest, scope: Annotated[str, Query(max_length=200)]) -> ClearedOut:
    """Move everything in exactly this scope to Trash."""
    caller, named = request.auth, auth.stored_scope(request.auth, scope)
    check_unreviewed(caller, "content", _("Clearing a scope"))
    _check_persons(caller, named)
    return ClearedOut(cleared=content_services.clear(caller.owner, named, by=caller.by))


@api.post("/snapshots", auth=WRITE, response={201: SnapshotOut})
def take_snapshot(request: ApiRequest, snapshot: SnapshotIn) -> Any:
    """Save the current items of a scope as a snapshot. It stays until you delete it."""
    caller = request.auth
    scope = auth.stored_scope(caller, snapshot.scope)
    check_unreviewed(caller, "content", _("Creating a snapshot"))
    taken = snapshots.take_snapshot(
        caller.owner, scope, by=caller.by, title=snapshot.title, trust=caller.write_trust
    )
    return Status(201, SnapshotOut.about(taken))


@api.post("/snapshots/{uuid:snapshot_id}/restore", auth=WRITE, response=RestoredOut)
def restore_snapshot(
    request: ApiRequest, snapshot_id: UUID, restore: RestoreIn | None = None
) -> RestoredOut:
    """Restore a snapshot.

    If you restore it to its own scope, that scope then contains exactly the snapshot's items. Any
    other scope gets copies of them.
    """
    caller = request.auth
    mine = Snapshot.objects.for_user(caller.owner).live()
    snapshot: Snapshot | None = mine.filter(pk=snapshot_id).first()
    if snapshot is None or not auth.is_open(caller, snapshot.scope):
        raise not_found()
    named = restore.scope if restore is not None and restore.scope else snapshot.scope
    into = auth.claimed(caller, named)
    check_unreviewed(caller, "content", _("Restoring a snapshot"))
    if into == snapshot.scope:
        _check_persons(caller, into)
    items = snapshots.restore_snapshot(snapshot, by=caller.by, scope=into)
    return RestoredOut(ids=[item.pk for item in items], scope=into)


def _check_persons(caller: Caller, scope: str) -> None:
    """Raise Problem (403) if an agent clears or restores a scope with a person's stored or pinned
    items.
    """
    theirs = ContentItem.objects.for_user(caller.owner).live().filter(scope=scope)
    if not caller.by.is_person and theirs.filter(Q(trust=Trust.OWNER) | Q(pinned=True)).exists():
        words = _(
            "Some of these items were stored or pinned by a person, so only a person can clear or restore this scope."
        )
        raise Problem(403, words)
