"""`/proposals`: agents' writes that wait for approval.

A person's own app decides. Agents don't see them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Self, cast
from uuid import UUID

from django.db.models import OuterRef, Subquery
from django.utils.translation import gettext as _
from ninja import Status
from pydantic import BaseModel, Field

from memory.api.auth import ADMIN, ApiRequest, Caller
from memory.api.frame import Body, PendingOut, router
from memory.api.paging import PAGE, Listing, PageParams, listing, read_cursor, sign_cursor
from memory.api.problems import Problem, not_found
from memory.api.shown import RowOut
from memory.models import Conflict, MemoryFile, Proposal
from memory.models.file_format import statements_found
from memory.models.notes import MAX_CONTENT
from memory.models.proposals import Danger
from memory.services.files.texts import MAX_EPISODES
from memory.services.review import conflicts as conflict_services
from memory.services.review import proposals as review_services
from memory.services.review import risks as review_risks
from memory.services.review.apply import MergeConflict
from memory.services.review.risks import reasons_of

api = router("proposals")
_ONE = "/{uuid:proposal_id}"
State = Literal["waiting", "accepted", "rejected", "expired"]
DangerCode = Literal["injection", "your-words", "identity", "external", "other"]


class ProposalsQuery(PageParams):
    """Which proposals."""

    state: State | Literal["all"] = "waiting"
    type: Literal["", "memoryfile", "note", "observation"] = ""
    order: Literal["danger", "created"] = Field(
        "danger",
        description="danger: most dangerous first, then oldest, as in the Inbox. created: oldest first.",
    )


class RejectIn(Body):
    """Why the proposal is rejected."""

    reason: str = Field("", max_length=review_services.MAX_REASON_LENGTH)


class AcceptIn(Body):
    """The person's edits to a proposal, if any."""

    content: str | None = Field(
        None,
        max_length=MAX_EPISODES,
        description="Text to use instead of the proposed one, for a note or a file.",
    )


class ProposalOut(RowOut):
    """A pending write: its change (`target` null: a new record), and why it needs approval."""

    id: UUID
    type: str
    target: UUID | None
    version_seen: int | None
    before: dict[str, Any]
    after: dict[str, Any]
    actor: str
    source: str
    reason: str = Field(description="The writer's reason.")
    hold_reasons: list[str]
    danger: DangerCode = Field(description="How dangerous it is to accept this without reading it.")
    risks: list[dict[str, Any]] = Field(
        description="The codes behind `hold_reasons`, each with its parameters."
    )
    state: State
    edited: dict[str, Any] = Field(description="The person's edit of `after`, if any.")
    result: UUID | None = Field(description="The resulting record.")
    decided_by: str
    decided_at: datetime | None
    decision_reason: str
    created: datetime
    expires_at: datetime

    @classmethod
    def of(cls, proposal: Proposal) -> Self:
        return cls.from_row(
            proposal,
            type=proposal.record_type,
            target=proposal.target_id,
            hold_reasons=reasons_of(proposal),
            danger=cast(DangerCode, Danger(proposal.danger).code),
            result=proposal.result_id,
        )


@api.get("", auth=ADMIN, response=Listing[ProposalOut])
def list_proposals(
    request: ApiRequest,
    query: ProposalsQuery = PAGE,
) -> Listing[ProposalOut]:
    """List proposals, most dangerous first. By default, only pending ones."""
    owner = request.auth.owner
    rows = (
        review_services.waiting(owner)
        if query.state == "waiting"
        else Proposal.objects.for_user(owner)
    )
    if query.state not in ("waiting", "all"):
        rows = rows.filter(state=query.state)
    if query.type:
        rows = rows.filter(record_type=query.type)
    if query.order == "created":
        return listing(rows.order_by(), query, name="proposals", out=ProposalOut.of, falling=False)
    name = "proposals.by-danger"
    found = review_risks.page(rows, cursor=read_cursor(query, name), size=query.limit)
    return Listing(
        items=list(map(ProposalOut.of, found.rows)), next=sign_cursor(found.next_cursor, name)
    )


@api.post(_ONE + "/accept", auth=ADMIN, response=ProposalOut)
def accept_proposal(
    request: ApiRequest, proposal_id: UUID, accept: AcceptIn | None = None
) -> ProposalOut:
    """Accept a pending write and store it as the person's own.

    Returns 409 if it's already decided, expired or outdated.
    """
    proposal = _proposal(request.auth, proposal_id)
    content = accept.content if accept is not None else None
    if content is not None and "content" not in proposal.after:
        words = _("This proposal’s text can’t be replaced. Omit “content”, or reject the proposal.")
        raise Problem(422, words, errors={"content": [words]})
    after = None if content is None else {"content": content}
    try:
        review_services.accept(proposal, by=request.auth.by, after=after)
    except MergeConflict as exc:
        raise Problem(409, str(exc), current=exc.theirs) from exc
    return ProposalOut.of(proposal)


@api.post(_ONE + "/reject", auth=ADMIN, response=ProposalOut)
def reject_proposal(
    request: ApiRequest, proposal_id: UUID, reject: RejectIn | None = None
) -> ProposalOut:
    """Reject a pending write. Returns 409 if it's no longer pending."""
    proposal = _proposal(request.auth, proposal_id)
    review_services.reject(proposal, by=request.auth.by, why=reject.reason if reject else "")
    return ProposalOut.of(proposal)


def _proposal(caller: Caller, key: UUID) -> Proposal:
    row: Proposal | None = Proposal.objects.for_user(caller.owner).filter(pk=key).first()
    if row is None:
        raise not_found(_("This proposal doesn’t exist, or it isn’t yours."))
    row.owner = caller.owner
    return row


# --- review of agents' writes ---


def check_unreviewed(caller: Caller, kind: str, act: str) -> None:
    """Raise Problem (403) if the owner reviews all agents' writes and this action can't wait for
    review.
    """
    review_services.check_unreviewed(caller.owner, kind, by=caller.by, act=act)


def waiting(proposal: Proposal) -> Status[PendingOut]:
    """Return the answer that the write waits for a person's approval."""
    return Status(202, PendingOut(proposal=str(proposal.pk), reason=proposal.hold_reasons))


# --- conflicts ---


conflicts_api = router("conflicts")
_CONFLICT = "/{uuid:conflict_id}"
Kind = Literal["contradiction", "near-duplicate"]


class ConflictsQuery(PageParams):
    """Which conflicts."""

    state: Literal["open", "resolved", "all"] = "open"
    kind: Literal["", "contradiction", "near-duplicate"] = ""


class ResolveIn(Body):
    """How to resolve a conflict."""

    resolution: Literal["left", "right", "both", "merged"]
    text: str = Field("", max_length=MAX_CONTENT, description="The merged text.")
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


class ConflictOut(RowOut):
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
    state: Literal["open", "resolved"]
    resolution: str
    resolved_by: str
    resolved_at: datetime | None
    created: datetime

    @classmethod
    def of(cls, one: Conflict) -> Self:
        left, right = (SideOut.of(one, side) for side in ("left", "right"))
        return cls.from_row(one, left=left, right=right, reason=one.get_reason_display())


@conflicts_api.get("", auth=ADMIN, response=Listing[ConflictOut])
def list_conflicts(request: ApiRequest, query: ConflictsQuery = PAGE) -> Listing[ConflictOut]:
    """List conflicts, oldest first. By default, only open ones."""
    mine = _with_files(Conflict.objects.for_user(request.auth.owner))
    rows = mine.standing() if query.state == "open" else mine
    if query.state == "resolved":
        rows = rows.filter(state="resolved")
    if query.kind:
        rows = rows.filter(kind=query.kind)
    return listing(rows.order_by(), query, name="conflicts", out=ConflictOut.of, falling=False)


@conflicts_api.post(_CONFLICT + "/resolve", auth=ADMIN, response=ConflictOut)
def resolve_conflict(request: ApiRequest, conflict_id: UUID, body: ResolveIn) -> ConflictOut:
    """Resolve a conflict. Returns 409 if it's already resolved, or if a side has changed."""
    one = _conflict(request.auth, conflict_id)
    listed = ConflictOut.of(one)
    seen = (body.left_version or listed.left.version, body.right_version or listed.right.version)
    try:
        conflict_services.resolve(
            one, body.resolution, by=request.auth.by, seen=seen, text=body.text, dated=body.dated,
            seen_lines=body.lines_digest or listed.lines_digest,
        )  # fmt: skip
    except (conflict_services.AlreadyResolved, conflict_services.StaleConflict) as exc:
        raise Problem(409, str(exc)) from exc
    return ConflictOut.of(_conflict(request.auth, conflict_id))


@conflicts_api.post(_CONFLICT + "/reopen", auth=ADMIN, response=ConflictOut)
def reopen_conflict(request: ApiRequest, conflict_id: UUID) -> ConflictOut:
    """Reopen a resolved conflict. Returns 409 if it's already open, or if a side has changed."""
    one = _conflict(request.auth, conflict_id)
    try:
        conflict_services.undo_change(one, by=request.auth.by)
    except conflict_services.AlreadyResolved as exc:
        raise Problem(409, str(exc)) from exc
    return ConflictOut.of(_conflict(request.auth, conflict_id))


def _conflict(caller: Caller, key: UUID) -> Conflict:
    rows = _with_files(Conflict.objects.for_user(caller.owner))
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
