"""`/observations`: findings, insights and lessons; agents add them, people correct them (R83)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.http import HttpResponse
from django.utils.translation import gettext as _
from ninja import Query, Status
from pydantic import Field

from memory.api.auth import READ, WRITE, ApiRequest, Caller, only_people
from memory.api.frame import Held, router
from memory.api.observation_schemas import (
    Category,
    ExtractedOut,
    ExtractIn,
    IdsOut,
    ObservationOut,
    ObservationPatch,
    ObservationsIn,
)
from memory.api.paging import Listing, Paged, listing
from memory.api.reading import Moment, moment, one_of, topic_of, used, visible
from memory.api.reviewing import reviewed_lines, source_of
from memory.api.versions import IF_MATCH, expected_version, tagged
from memory.models import Observation, Topic
from memory.observations import Line, batch, edit_observation, remember_lines
from memory.observations.extraction import extract
from memory.observations.lines import checked, checked_size, single
from memory.records import acts as record_acts
from memory.usage.month_budget import MonthMeter

api = router("observations", is_held=True)
_ONE = "/{uuid:observation_id}"


class ObservationsWanted(Paged):
    """Which observations."""

    category: Category | None = Field(None, description="Only of this category.")
    source: str | None = Field(None, max_length=200, description="Only from this very source.")
    tag: list[str] = Field([], max_length=50, description="Only those that bear any of these tags.")
    topic: str | None = Field(None, max_length=200, description="Only of this topic (slug).")
    after: Moment | None = Field(None, description="Only those created then or later.")
    before: Moment | None = Field(None, description="Only those created before.")


@api.get("", auth=READ, response=Listing[ObservationOut])
def list_observations(
    request: ApiRequest,
    wanted: Query[ObservationsWanted],
) -> Listing[ObservationOut]:
    """List observations, the newest first."""
    caller = request.auth
    asked = {
        "category": wanted.category,
        "source": wanted.source,
        "topic__slug": wanted.topic,
        "created__gte": moment(caller, wanted.after),
        "created__lt": moment(caller, wanted.before),
        "tags__overlap": wanted.tag,
    }
    rows = Observation.objects.of(caller.owner).live().select_related("topic")
    rows = rows.filter(**{name: value for name, value in asked.items() if value})
    return listing(visible(caller, rows), wanted, name="observations", out=ObservationOut.of)


@api.post("", auth=WRITE, response={201: IdsOut, 202: Held})
def remember_observations(request: ApiRequest, observations: ObservationsIn) -> Any:
    """Remember one observation, or a batch; the same words again from the same source add nothing."""
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
        source=source_of(caller, sent.source),
        topic=topic_of(caller, sent.topic),
        sensitivity=sent.sensitivity,
    )


def _remembered(
    caller: Caller, lines: Sequence[Line], *, source: str, topic: Topic | None, sensitivity: str
) -> Status[Any]:
    held = reviewed_lines(caller, lines, source, topic=topic, sensitivity=sensitivity)
    if held is not None:
        return Status(202, held)
    stored = remember_lines(
        caller.owner,
        lines,
        by=caller.by,
        source=source,
        change_source=caller.source,
        topic=topic,
        sensitivity=sensitivity,
        trust=caller.write_trust,
    )
    ids, new = [one.pk for one in stored.observations], [one.pk for one in stored.new]
    return Status(201, IdsOut(ids=ids, new=new))


@api.get(_ONE, auth=READ, response=ObservationOut)
def read_observation(
    request: ApiRequest, response: HttpResponse, observation_id: UUID
) -> ObservationOut:
    """Read an observation; the ETag is its version."""
    one = _observation(request.auth, observation_id)
    used(request.auth, one)
    tagged(response, one)
    return ObservationOut.of(one)


@api.patch(_ONE, auth=WRITE, response=ObservationOut, openapi_extra=IF_MATCH)
def edit_one_observation(
    request: ApiRequest, response: HttpResponse, observation_id: UUID, patch: ObservationPatch
) -> ObservationOut:
    """Correct an observation: by a token of scope admin alone, for agents only add."""
    caller = request.auth
    _only_people(caller)
    one = _observation(caller, observation_id)
    expected, changed = expected_version(request, one), patch.changed()
    with transaction.atomic():
        pinned, lock = changed.pop("pinned", one.pinned), changed.pop("lock", one.lock)
        edit_observation(one, by=caller.by, expected_version=expected, why=patch.why, **changed)
        if pinned != one.pinned:
            record_acts.carry_out("pin" if pinned else "unpin", one, by=caller.by)
        if lock != one.lock:
            record_acts.carry_out("lock", one, by=caller.by, value=lock)
    tagged(response, one)
    return ObservationOut.of(one)


@api.delete(_ONE, auth=WRITE, response={204: None}, openapi_extra=IF_MATCH)
def trash_observation(request: ApiRequest, observation_id: UUID) -> Status[None]:
    """Move an observation to the trash: by a token of scope admin alone, for agents only add."""
    caller = request.auth
    _only_people(caller)
    one = _observation(caller, observation_id)
    one.version = expected_version(request, one)
    one.trash(by=caller.by)
    return Status(204, None)


@api.post("/extract", auth=WRITE, response={200: ExtractedOut, 202: Held})
def extract_observations(request: ApiRequest, extraction: ExtractIn) -> Any:
    """Take findings, insights and lessons from a step's output: by a model, else by heuristics.

    A model that fails or answers nonsense gives nothing, with a warning. `store` also remembers.
    """
    caller, sent = request.auth, extraction
    topic = topic_of(caller, sent.topic)
    named = f"{sent.step_type}:{sent.step_name}" if sent.step_name.strip() else None
    source = source_of(caller, sent.source or named)
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
        "Agents only add observations. A program of yours that is to correct them takes a token of "
        "scope admin."
    )
    only_people(caller, words)
