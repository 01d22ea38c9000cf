"""`/content`: full results of actions, kept outside the conversation, and snapshots of them.

Which scopes an agent sees and fills, `memory.api.scopes` says.
"""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.db.models import Q
from django.http import HttpResponse
from django.utils.translation import gettext as _
from ninja import Query, Status

from memory.api import scopes
from memory.api.auth import READ, WRITE, ApiRequest, Caller
from memory.api.content_schemas import (
    ClearedOut,
    ContentIn,
    ContentWanted,
    ItemOut,
    RestoredOut,
    RestoreIn,
    ShownOut,
    SnapshotIn,
    SnapshotOut,
    ViewWanted,
)
from memory.api.frame import located, router
from memory.api.paging import Listing, listing
from memory.api.problems import Problem, not_found
from memory.api.reading import moment, used
from memory.api.reviewing import check_unreviewed, source_of
from memory.content import clearing, querying, snapshots, storing, transforms
from memory.content.querying import matching
from memory.models import ContentItem, Snapshot, Trust
from memory.models.base import OWNER_SCOPE

api = router("content", is_held=True)


@api.post("", auth=WRITE, response={201: ItemOut})
def store_content(request: ApiRequest, response: HttpResponse, item: ContentIn) -> Any:
    """Store an item in full; nothing of it enters a prompt unless it is asked for by its id."""
    caller = request.auth
    fields = item.model_dump(exclude={"content", "source", "scope"})
    scope = scopes.claimed(caller, item.scope)
    if scope == OWNER_SCOPE:
        check_unreviewed(caller, "content", _("Content that all agents share"))
    stored = storing.store(
        caller.owner,
        item.content,
        by=caller.by,
        source=source_of(caller, item.source),
        scope=scope,
        trust=caller.write_trust,
        **fields,
    )
    located(response, f"/content/{stored.pk}")
    return Status(201, ItemOut.about(stored))


@api.get("", auth=READ, response=Listing[ItemOut])
def query_content(
    request: ApiRequest,
    wanted: Query[ContentWanted],
) -> Listing[ItemOut]:
    """List items, the newest first, without their content."""
    caller = request.auth
    among: Any = None if caller.by.is_person else caller.context().scopes
    if wanted.scope is not None:
        among = [scopes.named(caller, wanted.scope)]
    rows = matching(
        caller.owner,
        scopes=among,
        type=wanted.type or "",
        source=wanted.source,
        tags=wanted.tag,
    )
    after, before = moment(caller, wanted.after), moment(caller, wanted.before)
    if after is not None:
        rows = rows.filter(created__gte=after)
    if before is not None:
        rows = rows.filter(created__lte=before)
    if not caller.by.is_person:
        rows = rows.for_agents()
    return listing(rows.defer("content"), wanted, name="content", out=ItemOut.about)


@api.get("/{uuid:item_id}", auth=READ, response=ShownOut)
def show_content(
    request: ApiRequest,
    item_id: UUID,
    wanted: Query[ViewWanted],
) -> ShownOut:
    """Show an item whole or in part, with how much of how much that is."""
    caller = request.auth
    item = querying.retrieve(caller.owner, item_id, scopes=None)
    if item is None or not scopes.is_open(caller, item.scope):
        raise not_found()
    if not caller.by.is_person and not ContentItem.objects.filter(pk=item.pk).for_agents().exists():
        raise Problem(403, _("It is shown to people only."))
    view = transforms.transform(
        item.content, wanted.transform, n=wanted.n, q=wanted.q, unit=wanted.unit
    )
    used(caller, item)
    return ShownOut.view_of(item, wanted.transform, view)


@api.delete("", auth=WRITE, response=ClearedOut)
def clear_content(request: ApiRequest, scope: Annotated[str, Query(max_length=200)]) -> ClearedOut:
    """Move all that this very scope holds to the trash, and nothing else."""
    caller, named = request.auth, scopes.named(request.auth, scope)
    check_unreviewed(caller, "content", _("Clearing a scope"))
    _check_persons(caller, named)
    return ClearedOut(cleared=clearing.clear(caller.owner, named, by=caller.by))


@api.post("/snapshots", auth=WRITE, response={201: SnapshotOut})
def take_snapshot(request: ApiRequest, snapshot: SnapshotIn) -> Any:
    """Keep what a scope holds now; it is kept until it is deleted itself."""
    caller = request.auth
    scope = scopes.named(caller, snapshot.scope)
    check_unreviewed(caller, "content", _("A snapshot"))
    taken = snapshots.take_snapshot(
        caller.owner, scope, by=caller.by, title=snapshot.title, trust=caller.write_trust
    )
    return Status(201, SnapshotOut.of(taken))


@api.post("/snapshots/{uuid:snapshot_id}/restore", auth=WRITE, response=RestoredOut)
def restore_snapshot(
    request: ApiRequest, snapshot_id: UUID, restore: RestoreIn | None = None
) -> RestoredOut:
    """Bring a snapshot back: its own scope then holds exactly that, another has it as new items."""
    caller = request.auth
    mine = Snapshot.objects.of(caller.owner).live()
    snapshot: Snapshot | None = mine.filter(pk=snapshot_id).first()
    if snapshot is None or not scopes.is_open(caller, snapshot.scope):
        raise not_found()
    named = restore.scope if restore is not None and restore.scope else snapshot.scope
    into = scopes.claimed(caller, named)
    check_unreviewed(caller, "content", _("Restoring a snapshot"))
    if into == snapshot.scope:
        _check_persons(caller, into)
    items = snapshots.restore_snapshot(snapshot, by=caller.by, scope=into)
    return RestoredOut(ids=[item.pk for item in items], scope=into)


def _check_persons(caller: Caller, scope: str) -> None:
    """Refuse (403) an agent to empty or put back a scope that holds what a person stored or pinned."""
    theirs = ContentItem.objects.of(caller.owner).live().filter(scope=scope)
    if not caller.by.is_person and theirs.filter(Q(trust=Trust.OWNER) | Q(pinned=True)).exists():
        words = _(
            "A person stored or pinned some of it: only a person empties it, or puts it back."
        )
        raise Problem(403, words)
