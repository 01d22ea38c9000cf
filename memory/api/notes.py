"""`/notes`: write, read, correct, merge, replace and prune notes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import gettext as _
from ninja import Query, Status
from pydantic import Field

from memory.agents.tools.notes import replace_note, save_note
from memory.agents.tools.types import named_source, reviewed
from memory.api import auth
from memory.api.auth import READ, WRITE, ApiRequest, Caller, only_people
from memory.api.frame import Body, PendingOut, located, router
from memory.api.paging import Listing, PageParams, listing
from memory.api.problems import Problem
from memory.api.review import check_unreviewed, waiting
from memory.api.shown import (
    AS_OF,
    NoStoredText,
    RowOut,
    is_persons,
    one_of,
    shows,
    topic_of,
    used,
    visible,
)
from memory.api.versions import IF_MATCH, expected_version, tagged
from memory.models import Note, Proposal
from memory.models.as_of import AS_OF_WORDS, as_it_was, now
from memory.models.notes import MAX_CONTENT, MAX_EVIDENCE, MAX_TAG_LENGTH, MAX_TAGS, NoteQuerySet
from memory.models.remembered import names_excluded
from memory.services.notes import merging
from memory.services.notes import saving as notes
from memory.services.notes.maintenance import prune_expired
from memory.services.notes.saving import MAX_SCOPE_LENGTH, MAX_TTL_DAYS
from memory.services.records import acts as record_acts
from memory.services.review import proposals as review_services
from memory.services.review.apply import MERGE, TRASH

Kind = Literal["log", "summary", "rule", "soul", "agent", "user"]
WrittenKind = Literal["log", "summary", "rule"]
Stability = Literal["volatile", "stable", "permanent"]
Sensitivity = Literal["normal", "sensitive"]
Lock = Literal["open", "append-only", "read-only"]
Content = Annotated[
    str,
    Field(
        min_length=1, max_length=MAX_CONTENT, description="The text to remember, at most 64 KiB."
    ),
]
Tags = Annotated[
    list[Annotated[str, Field(max_length=MAX_TAG_LENGTH)]],
    Field(max_length=MAX_TAGS, description="Tags that help you find it later."),
]
Evidence = Annotated[
    list[str],
    Field(
        max_length=MAX_EVIDENCE,
        description="What the note is based on. Required for rules written by agents.",
    ),
]
Confidence = Annotated[float, Field(ge=0, le=1, description="A rule needs 0.8 or more.")]
Days = Annotated[int, Field(ge=1, le=MAX_TTL_DAYS, description="Days until it expires.")]


class NoteIn(Body):
    """A note to write."""

    content: Content
    kind: WrittenKind = "log"
    tags: Tags = []
    stability: Stability | None = Field(
        None, description="Default: stable. volatile requires ttl_days. permanent has none."
    )
    ttl_days: Days | None = None
    confidence: Confidence = 1.0
    evidence: Evidence = []
    sensitivity: Sensitivity = "normal"
    scope: str = Field(
        "owner",
        max_length=MAX_SCOPE_LENGTH,
        description="owner, run:<id>, session:<id>, agent:<name>",
    )
    topic: str | None = Field(None, description="The slug of its topic.")
    source: str | None = Field(
        None, max_length=200, description="Where it came from. Default: the caller."
    )


class NoteFields(Body):
    """Fields of a note, each of which can be omitted."""

    content: Content | None = None
    kind: WrittenKind | None = None
    tags: Tags | None = None
    stability: Stability | None = None
    ttl_days: Days | None = None
    confidence: Confidence | None = None
    evidence: Evidence | None = None
    sensitivity: Sensitivity | None = None

    def sent(self, *, but: set[str]) -> dict[str, Any]:
        """Return the fields that were sent, including an empty ttl_days."""
        sent = self.model_dump(exclude_unset=True, exclude=but)
        return {k: v for k, v in sent.items() if v is not None or k == "ttl_days"}


class NotePatch(NoteFields):
    """The fields to change. Omitted ones stay the same."""

    scope: str | None = Field(None, max_length=MAX_SCOPE_LENGTH)
    pinned: bool | None = Field(
        None, description="Pinned notes don't expire. Only people can set this."
    )
    paused: bool | None = Field(
        None, description="Agents can’t see paused notes. Only people can set this."
    )
    lock: Lock | None = Field(
        None, description="What agents can do with the note. Only people can set this."
    )
    reason: str = Field("", max_length=500, description="Reason for the change, for its history.")

    def changed(self) -> dict[str, Any]:
        return self.sent(but={"reason"})


class SupersedeIn(NoteFields):
    """A note that replaces another. Omitted fields are copied from that one."""

    content: Content
    reason: str = Field("", max_length=500, description="Reason for the change, for its history.")

    def fields(self) -> dict[str, Any]:
        """Return the fields that were sent, except the text and the reason."""
        return self.sent(but={"reason", "content"})


class MergeIn(Body):
    """Notes to merge into one summary."""

    ids: list[str] = Field(min_length=2, max_length=20, description="IDs of the notes.")


class NoteOut(RowOut):
    """A note as it is stored."""

    id: UUID
    kind: Kind
    content: str
    scope: str
    tags: list[str]
    confidence: float
    stability: Stability
    ttl_days: int | None
    expires_at: datetime | None
    sensitivity: Sensitivity
    evidence: list[str]
    job: str
    topic: str | None
    source: str
    trust: str
    version: int
    pinned: bool
    paused: bool
    lock: Lock
    superseded_by: UUID | None
    edited_by_person: bool
    created: datetime
    updated: datetime

    @classmethod
    def of(cls, note: Note, **more: Any) -> Self:
        """Return the schema of a note whose topic is loaded."""
        shows(note)
        topic = note.topic.slug if note.topic is not None else None
        return cls.from_row(note, topic=topic, superseded_by=note.superseded_by_id, **more)


class MergedOut(NoteOut):
    """The summary note, whether a model wrote it and, if not, the reason."""

    by_model: bool
    warning: str


class PrunedOut(NoStoredText):
    """How many expired notes were moved to Trash."""

    pruned: int


# --- endpoints ---

api = router("notes", is_held=True)
_ONE = "/{uuid:note_id}"


class NotesQuery(PageParams):
    """Which notes."""

    kind: Kind | None = Field(None, description="Only this kind.")
    tag: list[str] = Field([], max_length=50, description="Only notes with any of these tags.")
    scope: str | None = Field(None, max_length=200, description="Only this scope.")
    topic: str | None = Field(None, max_length=200, description="Only this topic (slug).")
    state: Literal["active", "expired", "superseded", "all"] = Field(
        "active", description="active: neither expired nor replaced."
    )
    as_of: str = Field("", max_length=40, description=AS_OF_WORDS)


@api.get("", auth=READ, response=Listing[NoteOut])
def list_notes(request: ApiRequest, query: Query[NotesQuery]) -> Listing[NoteOut]:
    """List notes, newest first, except those in Trash. Agents can't see sensitive notes."""
    caller = request.auth
    with as_it_was(caller, query.as_of):
        rows = _in_state(Note.objects.for_user(caller.owner).live(), query.state).select_related(
            "topic"
        )
        if query.kind:
            rows = rows.filter(kind=query.kind)
        if query.tag:
            rows = rows.tagged(*query.tag)
        if topic := topic_of(caller, query.topic):
            rows = rows.filter(topic=topic)
        return listing(visible(caller, rows, query.scope), query, name="notes", out=NoteOut.of)


def _in_state(rows: NoteQuerySet, state: str) -> NoteQuerySet:
    if state == "active":
        return rows.active(now())
    if state == "expired":
        return rows.expired(now()).filter(superseded_by=None)
    return rows.exclude(superseded_by=None) if state == "superseded" else rows


@api.post("", auth=WRITE, response={200: NoteOut, 201: NoteOut, 202: PendingOut})
def write_note(request: ApiRequest, response: HttpResponse, note: NoteIn) -> Any:
    """Create a note. Returns 202 if an agent's write waits for a person's approval.

    If the agent already saved exactly this note, returns 200 with the existing one.
    """
    caller = request.auth
    fields = note.model_dump()
    fields["topic"] = topic_of(caller, note.topic)
    fields["scope"] = auth.claimed(caller, note.scope)
    fields["source"] = named_source(caller.context(), note.source)
    return _written(response, save_note(caller.context(), **fields))


@api.get(_ONE, auth=READ, response=NoteOut)
def read_note(
    request: ApiRequest, response: HttpResponse, note_id: UUID, as_of: str = AS_OF
) -> NoteOut:
    """Read a note, even if expired or replaced. The ETag is its version."""
    with as_it_was(request.auth, as_of):
        note = _note(request.auth, note_id)
        used(request.auth, note)
        tagged(response, note)
        return NoteOut.of(note)


@api.patch(_ONE, auth=WRITE, response={200: NoteOut, 202: PendingOut}, openapi_extra=IF_MATCH)
def edit_note(request: ApiRequest, response: HttpResponse, note_id: UUID, patch: NotePatch) -> Any:
    """Correct a note. Omitted fields don't change. Only people can correct what a person wrote."""
    caller, note = request.auth, _note(request.auth, note_id)
    expected, changed = expected_version(request, note), patch.changed()
    _check_agents_edit(caller, note, changed)
    if changed.get("stability") == Note.Stability.PERMANENT:
        changed.setdefault("ttl_days", None)
    before = {name: getattr(note, name) for name in changed}
    if changed != before:
        now = {"kind": note.kind, "content": note.content, **before}
        after = {**now, **changed}
        held = reviewed(
            caller.context(),
            review_services.kind_of_note(note.kind, after["kind"]),
            before=now,
            after=after,
            texts=[after["content"], *after.get("evidence", ()), *after.get("tags", ())],
            target=note,
            why=patch.reason,
        )
        if held is not None:
            return waiting(held)
    with transaction.atomic():
        state = {name: changed.pop(name, getattr(note, name)) for name in record_acts.STATE}
        notes.edit_note(
            note,
            by=caller.by,
            expected_version=expected,
            why=patch.reason,
            trust=caller.write_trust,
            **changed,
        )
        record_acts.set_state(note, by=caller.by, **state)
    tagged(response, note)
    return NoteOut.of(note)


def _check_agents_edit(caller: Caller, note: Note, changed: dict[str, Any]) -> None:
    """Raise Problem (403) for what only people change: their notes, pins, locks and sensitive
    notes.
    """
    note.check_may_change(caller.by)
    _check_identity(caller, note)
    if is_persons(note):
        words = _(
            "A person wrote, edited or pinned this note, so agents can’t edit it. POST the new text to the note’s /supersede endpoint instead. Risky changes wait for the user’s approval."
        )
        only_people(caller, words)
    if "scope" in changed:
        if names_excluded(note.scope):
            words = _(
                "A person chose which agents can’t see this note, so only a person can change that."
            )
            only_people(caller, words)
        auth.claimed(caller, changed["scope"])
    named = sorted({"pinned", "paused", "lock", "sensitivity"} & changed.keys())
    if named:
        words = _("Only a person can change these fields of an existing note: %(fields)s.")
        only_people(caller, words % {"fields": ", ".join(named)})


def _check_identity(caller: Caller, note: Note) -> None:
    if note.kind in Note.IDENTITY:
        only_people(
            caller,
            _(
                "Only a person can change the soul, persona or profile. They do this under Agents or Settings."
            ),
        )


@api.delete(_ONE, auth=WRITE, response={204: None, 202: PendingOut}, openapi_extra=IF_MATCH)
def trash_note(request: ApiRequest, note_id: UUID) -> Any:
    """Move a note to Trash. A person can restore it for 30 days."""
    caller, note = request.auth, _note(request.auth, note_id)
    note.version = expected_version(request, note)
    note.check_may_change(caller.by)
    _check_identity(caller, note)
    if is_persons(note):
        words = _(
            "A person wrote, edited or pinned this note, so only a person can move it to Trash."
        )
        only_people(caller, words)
    held = reviewed(
        caller.context(),
        review_services.kind_of_note(note.kind),
        before={"content": note.content},
        after={"act": TRASH, "kind": note.kind, "content": note.content},
        texts=[],
        target=note,
    )
    if held is not None:
        return waiting(held)
    note.trash(by=caller.by)
    return Status(204, None)


@api.post("/merge", auth=WRITE, response={201: MergedOut, 202: PendingOut})
def merge_notes(request: ApiRequest, response: HttpResponse, merge: MergeIn) -> Any:
    """Merge 2 to 20 notes into one summary that replaces them, with a model if one is set up.

    Returns 202 if an agent's merge waits for a person's approval. The proposed text is then the
    notes' texts joined together.
    """
    caller = request.auth
    if not caller.by.is_person:
        _check_agents_merge(caller, merge.ids)
        if held := _held_merge(caller, merge.ids):
            return waiting(held)
    merged, text = merging.merge(caller.owner, merge.ids, by=caller.by, trust=caller.write_trust)
    note = _note(caller, merged.pk)
    located(response, f"/notes/{note.pk}")
    tagged(response, note)
    return Status(201, MergedOut.of(note, by_model=text.is_by_model, warning=text.warning))


def _held_merge(caller: Caller, ids: list[str]) -> Proposal | None:
    """Hold an agent's merge that needs approval, with the notes' own texts and without a model."""
    joined = merging.mergeable(caller.owner, ids, by=caller.by)
    content = merging.concatenation(joined)
    versions = {str(note.pk): note.version for note in joined}
    return reviewed(
        caller.context(),
        review_services.kind_of_note(*(note.kind for note in joined)),
        after={"act": MERGE, "kind": "summary", "content": content, "versions": versions},
        texts=[content],
    )


def _check_agents_merge(caller: Caller, ids: list[str]) -> None:
    """Check an agent's merge: 403 for what a person wrote, 422 for what the agent can't see."""
    try:
        keys = {UUID(key) for key in ids}
    except ValueError:
        keys = set()
    there = list(visible(caller, Note.objects.for_user(caller.owner).live()).filter(pk__in=keys))
    if not keys or len(there) < len(keys):
        words = _("This note doesn’t exist.")
        raise Problem(422, words, errors={"ids": [words]})
    if any(is_persons(note) for note in there):
        raise Problem(
            403,
            _(
                "A person wrote, edited or pinned one of these notes, so only a person can merge them."
            ),
        )


@api.post(_ONE + "/supersede", auth=WRITE, response={201: NoteOut, 202: PendingOut})
def supersede_note(
    request: ApiRequest, response: HttpResponse, note_id: UUID, successor: SupersedeIn
) -> Any:
    """Create a note that replaces this one. The old note stays in its history."""
    caller, note = request.auth, _note(request.auth, note_id)
    if note.kind in Note.IDENTITY:
        words = _(
            "Only a person can change the soul, persona or profile. They do this under Agents or Settings."
        )
        raise Problem(403, words)
    fields = successor.fields()
    if "sensitivity" in fields and fields["sensitivity"] != "sensitive":
        only_people(caller, _("Only a person can mark a note as not sensitive."))
    context = caller.context()
    made = replace_note(context, note, successor.content, why=successor.reason, **fields)
    return _written(response, made)


@api.post("/prune", auth=WRITE, response=PrunedOut)
def prune_notes(request: ApiRequest) -> PrunedOut:
    """Move expired notes to Trash now. Maintenance also does this every 6 hours."""
    check_unreviewed(request.auth, "note", _("Pruning notes"))
    return PrunedOut(pruned=prune_expired(request.auth.owner))


def _note(caller: Caller, key: UUID) -> Note:
    note: Note = one_of(caller, Note.objects.select_related("topic"), key)
    return note


def _written(response: HttpResponse, note: Note | Proposal) -> Any:
    if isinstance(note, Proposal):
        return waiting(note)
    located(response, f"/notes/{note.pk}")
    tagged(response, note)
    return Status(200 if note.is_repeat else 201, NoteOut.of(note))
