"""`/conflicts`: a person's own app lists and resolves them. Agents don't see them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from django.db.models import OuterRef, Subquery
from django.utils.translation import gettext as _
from pydantic import BaseModel, Field

from memory.api.auth import ADMIN, ApiRequest, Caller
from memory.api.frame import Body, router
from memory.api.paging import PAGE, Listing, PageParams, listing
from memory.api.problems import Problem, not_found
from memory.models import Conflict, MemoryFile
from memory.models.file_format import statements_found
from memory.models.notes import MOST_CONTENT
from memory.services.review import conflicts as conflict_services

api = router("conflicts")
_ONE = "/{uuid:conflict_id}"
Kind = Literal["contradiction", "near-duplicate"]


class ConflictsQuery(PageParams):
    """Which conflicts."""

    state: Literal["open", "settled", "all"] = "open"
    kind: Literal["", "contradiction", "near-duplicate"] = ""


class ResolveIn(Body):
    """How to resolve a conflict."""

    how: Literal["left", "right", "both", "merged"]
    text: str = Field("", max_length=MOST_CONTENT, description="The merged text.")
    dated: bool = Field(False, description="If you keep both, add each record's date to its text.")
    left_version: int | None = Field(None, ge=1, description="The version you saw.")
    right_version: int | None = Field(None, ge=1, description="The version you saw.")
    lines_digest: str = Field("", max_length=64, description="The `lines_digest` you saw.")


class SideOut(BaseModel):
    """One of the two records. Its text is at its own URL, and only some lines of a memory file are
    meant.
    """

    type: str
    id: UUID
    version: int = Field(
        description="The version when the conflict was found or resolved; for a memory file, the current one."
    )
    path: str = Field("", description="The path of a memory file.")
    lines: list[int] = Field([], description="The lines of a memory file, counted from 1.")

    @classmethod
    def of(cls, one: Conflict, side: str) -> Self:
        named = {name: getattr(one, f"{side}_{name}") for name in ("type", "id", "version")}
        path = getattr(one, f"{side}_path", None)
        if path is None:
            return cls(**named)
        said = statements_found(getattr(one, f"{side}_content"), one.digests_of(side))
        named["version"] = getattr(one, f"{side}_file_version")
        return cls(path=path, lines=[statement.place + 1 for statement in said], **named)


class ConflictOut(BaseModel):
    """Two records that contradict each other or are near-duplicates, and how the conflict was
    resolved.
    """

    id: UUID
    kind: Kind
    left: SideOut
    right: SideOut
    reason: str = Field(description="Why they contradict each other, in words.")
    lines_digest: str = Field(
        description="Identifies the lines of memory files that are in conflict."
    )
    source: str
    state: Literal["open", "settled"]
    settled_how: str
    settled_by: str
    settled_at: datetime | None
    created: datetime

    @classmethod
    def of(cls, one: Conflict) -> Self:
        fields = {
            name: getattr(one, name)
            for name in cls.model_fields.keys() - {"left", "right", "reason"}
        }
        left, right = (SideOut.of(one, side) for side in ("left", "right"))
        return cls(left=left, right=right, reason=one.get_reason_display(), **fields)


@api.get("", auth=ADMIN, response=Listing[ConflictOut])
def list_conflicts(request: ApiRequest, wanted: ConflictsQuery = PAGE) -> Listing[ConflictOut]:
    """List conflicts, oldest first. By default, only open ones."""
    mine = _with_files(Conflict.objects.of(request.auth.owner))
    rows = mine.standing() if wanted.state == "open" else mine
    if wanted.state == "settled":
        rows = rows.filter(state="settled")
    if wanted.kind:
        rows = rows.filter(kind=wanted.kind)
    return listing(rows.order_by(), wanted, name="conflicts", out=ConflictOut.of, falling=False)


@api.post(_ONE + "/settle", auth=ADMIN, response=ConflictOut)
def resolve_conflict(request: ApiRequest, conflict_id: UUID, body: ResolveIn) -> ConflictOut:
    """Resolve a conflict. Returns 409 if it's already resolved, or if a side has changed."""
    one = _conflict(request.auth, conflict_id)
    listed = ConflictOut.of(one)
    seen = (body.left_version or listed.left.version, body.right_version or listed.right.version)
    try:
        conflict_services.settle(
            one, body.how, by=request.auth.by, seen=seen, text=body.text, dated=body.dated,
            seen_lines=body.lines_digest or listed.lines_digest,
        )  # fmt: skip
    except (conflict_services.AlreadyResolved, conflict_services.StaleConflict) as exc:
        raise Problem(409, str(exc)) from exc
    return ConflictOut.of(_conflict(request.auth, conflict_id))


@api.post(_ONE + "/reopen", auth=ADMIN, response=ConflictOut)
def reopen_conflict(request: ApiRequest, conflict_id: UUID) -> ConflictOut:
    """Reopen a resolved conflict. Returns 409 if it's already open, or if a side has changed."""
    one = _conflict(request.auth, conflict_id)
    try:
        conflict_services.undo_change(one, by=request.auth.by)
    except conflict_services.AlreadyResolved as exc:
        raise Problem(409, str(exc)) from exc
    return ConflictOut.of(_conflict(request.auth, conflict_id))


def _conflict(caller: Caller, key: UUID) -> Conflict:
    rows = _with_files(Conflict.objects.of(caller.owner))
    found: Conflict | None = rows.filter(pk=key).first()
    if found is None:
        raise not_found(_("This conflict doesn’t exist, or it isn’t yours."))
    found.owner = caller.owner
    return found


def _with_files(rows: Any) -> Any:
    """Add the path and text of the sides that are memory files, in the same query."""
    added: dict[str, Any] = {}
    for side in ("left", "right"):
        file = MemoryFile.objects.filter(owner=OuterRef("owner"), pk=OuterRef(f"{side}_id"))
        for name, field in (("path", "path"), ("content", "content"), ("file_version", "version")):
            added[f"{side}_{name}"] = Subquery(file.values(field)[:1])
    return rows.annotate(**added)
