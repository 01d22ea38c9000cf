"""What programs send and get of runs and reports."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from research.models import DeltaItem, Report, Run, Step, TopicSettings


class RunAsked(Schema):
    """How a run is to be carried out."""

    model_config = ConfigDict(extra="forbid")

    depth: TopicSettings.Depth | None = Field(None, description="Left out: as the topic says.")


class RetryAsked(Schema):
    """From which finished step on a run is carried out anew."""

    model_config = ConfigDict(extra="forbid")

    step: str | None = Field(None, max_length=40, description="Left out: where it stopped.")


class StepTold(Schema):
    """One stage of a run, or what follows its save."""

    name: str
    part: int
    state: Step.State
    is_follow_up: bool
    detail: str
    counts: dict[str, Any]
    warning: str
    prompt_tokens: int
    completion_tokens: int
    money: str
    started_at: datetime | None
    finished_at: datetime | None


class RunCounts(Schema):
    """What a run's searches returned, and how much of it was read."""

    new: int
    known: int
    returning: int
    read: int


class RunTold(Schema):
    """A run; `number` is given when it is saved."""

    id: int
    topic: str = Field(description="The topic's slug.")
    number: int | None
    status: Run.Status
    depth: str
    trigger: Run.Trigger
    actor: str
    is_baseline: bool
    waits_for_a_person: bool = Field(description="Its plan is to be looked at first.")
    error: str
    stop_reason: str
    warnings: list[str]
    counts: RunCounts
    model_calls: int
    prompt_tokens: int
    completion_tokens: int
    money: str
    created: datetime
    started_at: datetime | None
    finished_at: datetime | None


class RunWithSteps(RunTold):
    """A run with its steps, the follow-ups last."""

    steps: list[StepTold]


class RunList(Schema):
    """A page of a topic's runs, the latest first."""

    items: list[RunTold]
    next: str | None


class DeltaItemTold(Schema):
    """One changed fact; one with `withheld` is in no section, and says why."""

    position: int
    status: DeltaItem.Status
    sentence: str
    previous: str
    previous_fact: UUID | None
    citations: list[int]
    quote: str
    withheld: str


class QuoteTold(Schema):
    """A sentence of the report, and the words of the source that bear it out."""

    sentence: str
    quote: str
    found: bool


class SourceTold(Schema):
    """One entry of the numbered list of sources."""

    n: int
    title: str
    url: str = Field(description="The canonical address.")
    link: str = Field(description="The address as the search gave it.")
    domain: str
    published_at: str | None
    state: str
    quotes: list[QuoteTold]


class ReportTold(Schema):
    """What a run wrote; `body` never holds the delta."""

    id: UUID
    run: int
    topic: str
    number: int | None
    title: str
    created: datetime
    written_by: str
    is_extractive: bool
    is_quiet: bool
    summary: str
    body: str
    delta: str
    delta_heading: str
    delta_since: str
    delta_items: list[DeltaItemTold]
    sources: list[SourceTold]


_OF_RUN = (
    "id", "number", "status", "depth", "trigger", "actor", "is_baseline", "error", "stop_reason",
    "warnings", "model_calls", "prompt_tokens", "completion_tokens", "created", "started_at",
    "finished_at",
)  # fmt: skip
_OF_STEP = tuple(name for name in StepTold.model_fields if name != "money")
_OF_REPORT = (
    "id", "title", "created", "written_by", "is_extractive", "is_quiet", "summary", "body",
    "delta", "delta_heading", "delta_since",
)  # fmt: skip
_OF_ITEM = ("position", "status", "sentence", "citations", "quote", "withheld")


def run_told(run: Run, slug: str) -> dict[str, Any]:
    """Return the run of the topic with this slug, without its steps."""
    counted = {name: getattr(run, f"{name}_count") for name in RunCounts.model_fields}
    return {name: getattr(run, name) for name in _OF_RUN} | {
        "topic": slug,
        "counts": counted,
        "money": str(run.money),
        "waits_for_a_person": run.waiting_since is not None,
    }


def run_with_steps(run: Run) -> dict[str, Any]:
    """Return the run with its steps."""
    steps = [
        {name: getattr(step, name) for name in _OF_STEP} | {"money": str(step.money)}
        for step in run.steps.defer("output")
    ]
    return run_told(run, run.topic.slug) | {"steps": steps}


def report_told(report: Report) -> dict[str, Any]:
    """Return the report with its delta items and its sources as they are cited."""
    run = report.run
    items = [
        {name: getattr(item, name) for name in _OF_ITEM}
        | {"previous": item.previous_text, "previous_fact": item.previous_fact_id}
        for item in run.delta_items.all()
    ]
    return {name: getattr(report, name) for name in _OF_REPORT} | {
        "run": run.pk,
        "topic": run.topic.slug,
        "number": run.number,
        "delta_items": items,
        "sources": [_source(source) for source in report.sources],
    }


def _source(stored: dict[str, Any]) -> dict[str, Any]:
    """Return one entry of a report's list; one of an import may lack what came later."""
    told: dict[str, Any] = {
        name: stored.get(name) or "" for name in ("title", "url", "link", "domain", "state")
    }
    quotes = [
        {"sentence": one.get("sentence", ""), "quote": one.get("quote", ""),
         "found": bool(one.get("found"))}
        for one in stored.get("quotes") or []
    ]  # fmt: skip
    at = stored.get("published_at")
    return told | {"n": stored["n"], "published_at": str(at) if at else None, "quotes": quotes}
