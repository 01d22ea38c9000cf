"""Notes as programs send and get them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field

from memory.api.frame import Body
from memory.api.shown import Textless, shows
from memory.models import Note
from memory.models.notes import LONGEST_TAG, MOST_CONTENT, MOST_EVIDENCE, MOST_TAGS
from memory.notes.checks import LONGEST_SCOPE, MOST_TTL_DAYS

Kind = Literal["log", "summary", "rule", "soul", "agent", "user"]
WrittenKind = Literal["log", "summary", "rule"]
Stability = Literal["volatile", "stable", "permanent"]
Sensitivity = Literal["normal", "sensitive"]
Lock = Literal["open", "append-only", "read-only"]
Content = Annotated[
    str,
    Field(min_length=1, max_length=MOST_CONTENT, description="What is remembered, at most 64 KiB."),
]
Tags = Annotated[
    list[Annotated[str, Field(max_length=LONGEST_TAG)]],
    Field(max_length=MOST_TAGS, description="Words by which to find it again."),
]
Evidence = Annotated[
    list[str],
    Field(max_length=MOST_EVIDENCE, description="What it is based on. An agent's rule needs some."),
]
Confidence = Annotated[float, Field(ge=0, le=1, description="A rule wants 0.8 or more.")]
Days = Annotated[int, Field(ge=1, le=MOST_TTL_DAYS, description="Days until it expires.")]


class NoteIn(Body):
    """A note to be written."""

    content: Content
    kind: WrittenKind = "log"
    tags: Tags = []
    stability: Stability | None = Field(
        None, description="stable if left out; volatile needs ttl_days, permanent takes none."
    )
    ttl_days: Days | None = None
    confidence: Confidence = 1.0
    evidence: Evidence = []
    sensitivity: Sensitivity = "normal"
    scope: str = Field(
        "owner", max_length=LONGEST_SCOPE, description="owner, run:<id>, session:<id>, agent:<name>"
    )
    topic: str | None = Field(None, description="The slug of the topic it is about.")
    source: str | None = Field(
        None, max_length=200, description="Where it came from; the caller if left out."
    )


class NotePatch(Body):
    """What changes; what is left out stays as it is."""

    content: Content | None = None
    kind: WrittenKind | None = None
    tags: Tags | None = None
    stability: Stability | None = None
    ttl_days: Days | None = None
    confidence: Confidence | None = None
    evidence: Evidence | None = None
    sensitivity: Sensitivity | None = None
    scope: str | None = Field(None, max_length=LONGEST_SCOPE)
    pinned: bool | None = Field(None, description="Pinned notes do not expire; a person's to say.")
    lock: Lock | None = Field(None, description="What agents may do with it; a person's to say.")
    why: str = Field("", max_length=500, description="Why it changes, for its history.")

    def changed(self) -> dict[str, Any]:
        """Return what was sent: of the days to live also that there are none."""
        sent = self.model_dump(exclude_unset=True, exclude={"why"})
        return {k: v for k, v in sent.items() if v is not None or k == "ttl_days"}


class SupersedeIn(Body):
    """A note that is to stand in for another; what is left out is as in that one."""

    content: Content
    kind: WrittenKind | None = None
    tags: Tags | None = None
    stability: Stability | None = None
    ttl_days: Days | None = None
    confidence: Confidence | None = None
    evidence: Evidence | None = None
    sensitivity: Sensitivity | None = None
    why: str = Field("", max_length=500, description="Why it changes, for its history.")

    def fields(self) -> dict[str, Any]:
        """Return what was sent besides the words and the reason."""
        sent = self.model_dump(exclude_unset=True, exclude={"why", "content"})
        return {k: v for k, v in sent.items() if v is not None or k == "ttl_days"}


class MergeIn(Body):
    """Notes of which one summary is to be made."""

    ids: list[str] = Field(min_length=2, max_length=20, description="The notes' ids.")


class NoteOut(BaseModel):
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
    lock: Lock
    superseded_by: UUID | None
    edited_by_person: bool
    created: datetime
    updated: datetime

    @classmethod
    def of(cls, note: Note, **more: Any) -> Self:
        """Return the note as it is told; its topic is loaded with it."""
        shows(note)
        same = cls.model_fields.keys() - {"topic", "superseded_by", *more}
        return cls(
            topic=note.topic.slug if note.topic is not None else None,
            superseded_by=note.superseded_by_id,
            **{name: getattr(note, name) for name in same},
            **more,
        )


class MergedOut(NoteOut):
    """The summary note, who put its words together, and what kept a model from it."""

    by_model: bool
    warning: str


class PrunedOut(Textless):
    """How many expired notes went to the trash."""

    pruned: int
