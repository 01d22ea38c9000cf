"""`/observations`: findings, insights and lessons."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import gettext as _
from ninja import Query, Status
from pydantic import Field, model_validator

from memory.agents.tools.notes import save_lines
from memory.agents.tools.types import named_source
from memory.api.auth import READ, WRITE, ApiRequest, Caller, only_people
from memory.api.frame import Body, PendingOut, router
from memory.api.notes import Content, Lock, Sensitivity, Tags
from memory.api.paging import Listing, PageParams, listing
from memory.api.review import waiting
from memory.api.shown import (
    AS_OF,
    Moment,
    NoStoredText,
    RowOut,
    moment,
    one_of,
    shows,
    topic_of,
    used,
    visible,
)
from memory.api.versions import IF_MATCH, expected_version, tagged
from memory.models import Observation, Proposal, Topic
from memory.models.as_of import AS_OF_WORDS, as_it_was
from memory.services.llm.asking import MonthMeter
from memory.services.observations.extraction import Extracted, extract
from memory.services.observations.saving import (
    MAX_LINES,
    Line,
    SavedLines,
    batch,
    checked,
    checked_size,
    edit_observation,
    single,
)
from memory.services.records import acts as record_acts

Category = Literal["finding", "insight", "lesson"]
StepType = Literal["GOAL", "AGENT", "RUN"]
MAX_OUTPUT = 500_000  # characters of a step's output, of which the first 4,000 are searched
Source = Annotated[
    str | None,
    Field(
        max_length=200,
        description="Where it came from, such as GOAL:check-database. Default: the caller.",
    ),
]
Texts = Annotated[list[str], Field(max_length=MAX_LINES)]


class ObservationsIn(Body):
    """Either one observation (`content`, `category`), or a batch in three lists.

    A batch is stored completely or not at all. Empty texts are ignored. The lists can have at most
    100 texts and 200,000 characters in total.
    """

    content: Content | None = Field(None, description="The finding, insight or lesson.")
    category: Category | None = None
    findings: Texts = Field([], description="Facts that were found.")
    insights: Texts = Field([], description="Conclusions and decisions.")
    lessons: Texts = Field([], description="What to do or avoid in the future.")
    tags: Tags = []
    step_name: str = Field("", max_length=200)
    step_type: StepType | None = None
    sensitivity: Sensitivity = "normal"
    topic: str | None = Field(None, description="The slug of its topic.")
    source: Source = None

    @model_validator(mode="after")
    def _one_or_many(self) -> Self:
        many = bool(self.findings or self.insights or self.lessons)
        if many and (self.content or self.category):
            raise ValueError("send either content and category, or the three lists")
        if not many and not (self.content and self.category):
            raise ValueError("send content and category, or findings, insights or lessons")
        return self


class ObservationPatch(Body):
    """A correction by a person's app. Omitted fields stay the same."""

    content: Content | None = None
    category: Category | None = None
    tags: Tags | None = None
    sensitivity: Sensitivity | None = None
    pinned: bool | None = None
    paused: bool | None = Field(None, description="Agents can’t see paused observations.")
    lock: Lock | None = None
    reason: str = Field("", max_length=500, description="Reason for the change, for its history.")

    def changed(self) -> dict[str, Any]:
        """Return the fields that were sent."""
        sent = self.model_dump(exclude_unset=True, exclude={"reason"})
        return {name: value for name, value in sent.items() if value is not None}


class IdsOut(NoStoredText):
    """The IDs, in input order. `new` contains those of new records."""

    ids: list[UUID]
    new: list[UUID]

    @classmethod
    def of(cls, saved: SavedLines) -> Self:
        return cls(ids=[one.pk for one in saved.observations], new=[one.pk for one in saved.new])


class ObservationOut(RowOut):
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
    paused: bool
    lock: Lock
    created: datetime
    updated: datetime

    @classmethod
    def of(cls, one: Observation) -> Self:
        """Return the schema of an observation whose topic is loaded."""
        shows(one)
        topic = one.topic.slug if one.topic is not None else None
        return cls.from_row(one, topic=topic, near_duplicate_of=one.near_duplicate_of_id)


class ExtractIn(Body):
    """A step's output to extract observations from."""

    output: str = Field(
        max_length=MAX_OUTPUT,
        description="Nothing is extracted from texts of fewer than 50 characters.",
    )
    step_name: str = Field("", max_length=200)
    step_type: StepType = "AGENT"
    store: bool = Field(False, description="Also store the result.")
    topic: str | None = Field(None, description="The slug of its topic.")
    source: Source = None


class ExtractedOut(NoStoredText):
    """The observations found. `by` is model, heuristic or empty. `ids` contains the stored ones."""

    findings: list[str]
    insights: list[str]
    lessons: list[str]
    by: str
    warning: str
    ids: list[UUID] = []

    @classmethod
    def of(cls, found: Extracted, ids: list[UUID]) -> Self:
        """Return the extracted observations by category."""
        return cls(
            findings=[line.content for line in found.lines if line.category == "finding"],
            insights=[line.content for line in found.lines if line.category == "insight"],
            lessons=[line.content for line in found.lines if line.category == "lesson"],
            by=found.by,
            warning=found.warning,
            ids=ids,
        )


# --- endpoints ---

api = router("observations", is_held=True)
_ONE = "/{uuid:observation_id}"


class ObservationsQuery(PageParams):
    """Which observations."""

    category: Category | None = Field(None, description="Only this category.")
    source: str | None = Field(None, max_length=200, description="Only this exact source.")
    tag: list[str] = Field(
        [], max_length=50, description="Only observations with any of these tags."
    )
    topic: str | None = Field(None, max_length=200, description="Only this topic (slug).")
    after: Moment | None = Field(None, description="Created at or after this time.")
    before: Moment | None = Field(None, description="Created before this time.")
    as_of: str = Field("", max_length=40, description=AS_OF_WORDS)


@api.get("", auth=READ, response=Listing[ObservationOut])
def list_observations(
    request: ApiRequest,
    query: Query[ObservationsQuery],
) -> Listing[ObservationOut]:
    """List observations, newest first."""
    caller = request.auth
    asked = {
        "category": query.category,
        "source": query.source,
        "created__gte": moment(caller, query.after),
        "created__lt": moment(caller, query.before),
        "tags__overlap": query.tag,
    }
    with as_it_was(caller, query.as_of):
        rows = Observation.objects.for_user(caller.owner).live().select_related("topic")
        if topic := topic_of(caller, query.topic):
            rows = rows.filter(topic=topic)
        rows = rows.filter(**{name: value for name, value in asked.items() if value})
        return listing(visible(caller, rows), query, name="observations", out=ObservationOut.of)


@api.post("", auth=WRITE, response={201: IdsOut, 202: PendingOut})
def remember_observations(request: ApiRequest, observations: ObservationsIn) -> Any:
    """Save one observation or a batch. Exact duplicates from the same source are ignored."""
    caller, sent = request.auth, observations
    more: dict[str, Any] = {
        "tags": tuple(sent.tags),
        "step_name": sent.step_name,
        "step_type": sent.step_type or "",
    }
    if sent.content is not None and sent.category is not None:
        lines = [single(sent.category, sent.content, **more)]
    else:
        many = batch(sent.findings, sent.insights, sent.lessons)
        checked_size(many)
        lines = checked([Line(one.category, one.content, **more) for one in many])
    return _remembered(
        caller,
        lines,
        source=named_source(caller.context(), sent.source),
        topic=topic_of(caller, sent.topic),
        sensitivity=sent.sensitivity,
    )


def _remembered(
    caller: Caller, lines: Sequence[Line], *, source: str, topic: Topic | None, sensitivity: str
) -> Status[Any]:
    stored = save_lines(
        caller.context(), lines, source=source, topic=topic, sensitivity=sensitivity
    )
    return waiting(stored) if isinstance(stored, Proposal) else Status(201, IdsOut.of(stored))


@api.get(_ONE, auth=READ, response=ObservationOut)
def read_observation(
    request: ApiRequest, response: HttpResponse, observation_id: UUID, as_of: str = AS_OF
) -> ObservationOut:
    """Read an observation. The ETag is its version."""
    with as_it_was(request.auth, as_of):
        one = _observation(request.auth, observation_id)
        used(request.auth, one)
        tagged(response, one)
        return ObservationOut.of(one)


@api.patch(_ONE, auth=WRITE, response=ObservationOut, openapi_extra=IF_MATCH)
def edit_one_observation(
    request: ApiRequest, response: HttpResponse, observation_id: UUID, patch: ObservationPatch
) -> ObservationOut:
    """Correct an observation.

    Requires a token with the `admin` scope, because agents can only add observations.
    """
    caller = request.auth
    _only_people(caller)
    one = _observation(caller, observation_id)
    expected, changed = expected_version(request, one), patch.changed()
    with transaction.atomic():
        state = {name: changed.pop(name, getattr(one, name)) for name in record_acts.STATE}
        edit_observation(one, by=caller.by, expected_version=expected, why=patch.reason, **changed)
        record_acts.set_state(one, by=caller.by, **state)
    tagged(response, one)
    return ObservationOut.of(one)


@api.delete(_ONE, auth=WRITE, response={204: None}, openapi_extra=IF_MATCH)
def trash_observation(request: ApiRequest, observation_id: UUID) -> Status[None]:
    """Move an observation to Trash.

    Requires a token with the `admin` scope, because agents can only add observations.
    """
    caller = request.auth
    _only_people(caller)
    one = _observation(caller, observation_id)
    one.version = expected_version(request, one)
    one.trash(by=caller.by)
    return Status(204, None)


@api.post("/extract", auth=WRITE, response={200: ExtractedOut, 202: PendingOut})
def extract_observations(request: ApiRequest, extraction: ExtractIn) -> Any:
    """Extract findings, insights and lessons from a step's output.

    A model does this or, if none is set up, rules do.

    If the model fails or its answer can't be used, nothing is extracted and the response contains a
    warning. `store` also saves the result.
    """
    caller, sent = request.auth, extraction
    topic = topic_of(caller, sent.topic)
    named = f"{sent.step_type}:{sent.step_name}" if sent.step_name.strip() else None
    source = named_source(caller.context(), sent.source or named)
    found = extract(
        caller.owner,
        sent.output,
        source=source,
        step_name=sent.step_name,
        step_type=sent.step_type,
        topic=topic,
        meter=MonthMeter(caller.owner),
    )
    ids: list[UUID] = []
    if sent.store and found.lines:
        stored = _remembered(
            caller, found.lines, source=found.source(source), topic=topic, sensitivity="normal"
        )
        if stored.status_code == 202:
            return stored
        ids = stored.value.ids
    return Status(200, ExtractedOut.of(found, ids))


def _observation(caller: Caller, key: UUID) -> Observation:
    one: Observation = one_of(caller, Observation.objects.select_related("topic"), key)
    return one


def _only_people(caller: Caller) -> None:
    words = _(
        "Agents can add observations but can’t correct them. To correct one, use a token with the “admin” scope."
    )
    only_people(caller, words)
