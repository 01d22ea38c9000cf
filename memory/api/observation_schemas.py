"""Observations as programs send and get them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field, model_validator

from memory.api.frame import Body
from memory.api.note_schemas import Content, Lock, Sensitivity, Tags
from memory.api.shown import Textless, shows
from memory.models import Observation
from memory.observations.extraction import Extracted
from memory.observations.lines import MOST_LINES

Category = Literal["finding", "insight", "lesson"]
StepType = Literal["GOAL", "AGENT", "RUN"]
MOST_OUTPUT = 500_000  # characters of a step's output; of these the first 4,000 are looked at
Source = Annotated[
    str | None,
    Field(max_length=200, description="Such as GOAL:check-database; the caller if left out."),
]
Texts = Annotated[list[str], Field(max_length=MOST_LINES)]


class ObservationsIn(Body):
    """One observation (`content`, `category`), or a batch in three lists; one or the other.

    A batch is stored whole or not at all; empty texts in it are left out. It holds at most 100 texts
    of 200,000 characters together, in all three lists.
    """

    content: Content | None = Field(None, description="What was found out, concluded or learned.")
    category: Category | None = None
    findings: Texts = Field([], description="Facts that were found out.")
    insights: Texts = Field([], description="Conclusions and decisions.")
    lessons: Texts = Field([], description="What to do, or not to do, from now on.")
    tags: Tags = []
    step_name: str = Field("", max_length=200)
    step_type: StepType | None = None
    sensitivity: Sensitivity = "normal"
    topic: str | None = Field(None, description="The slug of the topic it is about.")
    source: Source = None

    @model_validator(mode="after")
    def _one_or_many(self) -> Self:
        many = bool(self.findings or self.insights or self.lessons)
        if many and (self.content or self.category):
            raise ValueError("send content and category, or the three lists, not both")
        if not many and not (self.content and self.category):
            raise ValueError("send content and category, or findings, insights or lessons")
        return self


class ObservationPatch(Body):
    """What a person's program corrects; what is left out stays as it is."""

    content: Content | None = None
    category: Category | None = None
    tags: Tags | None = None
    sensitivity: Sensitivity | None = None
    pinned: bool | None = None
    lock: Lock | None = None
    why: str = Field("", max_length=500, description="Why it changes, for its history.")

    def changed(self) -> dict[str, Any]:
        """Return what was sent."""
        sent = self.model_dump(exclude_unset=True, exclude={"why"})
        return {name: value for name, value in sent.items() if value is not None}


class IdsOut(Textless):
    """The ids, in the order of what was sent; `new` are those that were not known before."""

    ids: list[UUID]
    new: list[UUID]


class ObservationOut(BaseModel):
    """An observation as it is stored."""

    id: UUID
    category: Category
    content: str
    source: str
    scope: str
    step_name: str
    step_type: str
    tags: list[str]
    topic: str | None
    near_duplicate_of: UUID | None
    sensitivity: Sensitivity
    trust: str
    version: int
    pinned: bool
    lock: Lock
    created: datetime
    updated: datetime

    @classmethod
    def of(cls, one: Observation) -> Self:
        """Return the observation as it is told; its topic is loaded with it."""
        shows(one)
        same = cls.model_fields.keys() - {"topic", "near_duplicate_of"}
        return cls(
            topic=one.topic.slug if one.topic is not None else None,
            near_duplicate_of=one.near_duplicate_of_id,
            **{name: getattr(one, name) for name in same},
        )


class ExtractIn(Body):
    """A step's output from which observations are to be taken."""

    output: str = Field(max_length=MOST_OUTPUT, description="Under 50 characters give nothing.")
    step_name: str = Field("", max_length=200)
    step_type: StepType = "AGENT"
    store: bool = Field(False, description="Whether what is found is also stored.")
    topic: str | None = Field(None, description="The slug of the topic it is about.")
    source: Source = None


class ExtractedOut(Textless):
    """What was found; `by` is model, heuristic or empty; `ids` is what was stored of it."""

    findings: list[str]
    insights: list[str]
    lessons: list[str]
    by: str
    warning: str
    ids: list[UUID] = []

    @classmethod
    def of(cls, found: Extracted, ids: list[UUID]) -> Self:
        """Return what was taken from the output, by category."""
        return cls(
            findings=[line.content for line in found.lines if line.category == "finding"],
            insights=[line.content for line in found.lines if line.category == "insight"],
            lessons=[line.content for line in found.lines if line.category == "lesson"],
            by=found.by,
            warning=found.warning,
            ids=ids,
        )
