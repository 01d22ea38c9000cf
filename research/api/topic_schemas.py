"""What programs send and get of topics."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from memory.models import Topic
from memory.models.topics import TITLE_LENGTH
from research import topic_editing
from research.models import Schedule, TopicSettings

Line = Annotated[str, Field(max_length=2_000)]
Word = Annotated[str, Field(max_length=255)]
Whole = Annotated[int, Field(ge=1, le=2_000_000_000)]
LONGEST = 10_000


class ScheduleFields(Schema):
    """When a topic runs again: a preset, or a cron line, in a time zone."""

    model_config = ConfigDict(extra="forbid")

    preset: Schedule.Preset | None = None
    hour: int | None = Field(None, ge=0, le=23, description="Of the presets; 7 if left out.")
    weekday: int | None = Field(None, ge=0, le=6, description="Of weekly; 0 is Sunday.")
    day: str | None = Field(
        None, pattern=r"^([1-9]|1[0-9]|2[0-8]|L)$", description="Of monthly; L is the last."
    )
    cron: str | None = Field(None, max_length=100, description="Five fields, such as 0 9 * * 1.")
    time_zone: str | None = Field(None, max_length=64, description="Such as Europe/Berlin.")
    missed: Schedule.Missed | None = None


class TopicChanges(Schema):
    """What may be changed of a topic; what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    title: str | None = Field(None, min_length=1, max_length=TITLE_LENGTH)
    objective: str | None = Field(None, max_length=LONGEST)
    focus: str | None = Field(None, max_length=LONGEST)
    depth: TopicSettings.Depth | None = None
    time_frame: TopicSettings.TimeFrame | None = None
    languages: list[Word] | None = Field(None, max_length=10, description="Codes or names.")
    services: list[Word] | None = Field(None, max_length=20, description="None: the usual ones.")
    feeds: list[Line] | None = Field(None, max_length=200)
    allow_domains: list[Word] | None = Field(None, max_length=200)
    block_domains: list[Word] | None = Field(None, max_length=200)
    block_pages: list[Line] | None = Field(None, max_length=200)
    always_check: list[Line] | None = Field(None, max_length=5)
    report_style: TopicSettings.Style | None = None
    reading: TopicSettings.Reading | None = None
    plan_review: TopicSettings.PlanReview | None = None
    max_pages: Annotated[int, Field(ge=1, le=500)] | None = None
    max_minutes: Annotated[int, Field(ge=1, le=240)] | None = None
    max_tokens: Whole | None = None
    max_money: Annotated[Decimal, Field(ge=0, max_digits=8, decimal_places=2)] | None = None
    labels: list[Annotated[str, Field(max_length=40)]] | None = Field(None, max_length=20)
    private: bool | None = None
    schedule: ScheduleFields | None = None

    def asked(self) -> dict[str, Any]:
        """Return what was named, as plain values; null means: as a new topic has it."""
        return self.model_dump(exclude_unset=True, mode="python")


class NewTopic(TopicChanges):
    """A topic to be made."""

    title: str = Field(min_length=1, max_length=TITLE_LENGTH, description="What to research.")


class ScheduleTold(Schema):
    """A topic's schedule as it stands."""

    preset: Schedule.Preset
    cron: str
    time_zone: str
    missed: Schedule.Missed
    paused: bool
    next_run_at: datetime | None


class TopicTold(Schema):
    """A topic with its settings; `version` is what If-Match names."""

    id: UUID
    slug: str
    title: str
    version: int
    summary: str
    labels: list[str]
    private: bool
    run_count: int
    last_run_at: datetime | None
    expires_at: datetime | None = Field(description="When what is known of it lapses.")
    archived_at: datetime | None
    created: datetime
    updated: datetime
    objective: str
    focus: str
    depth: TopicSettings.Depth
    time_frame: TopicSettings.TimeFrame
    languages: list[str]
    services: list[str]
    feeds: list[str]
    allow_domains: list[str]
    block_domains: list[str]
    block_pages: list[str]
    always_check: list[str]
    engine: str
    report_style: TopicSettings.Style
    reading: TopicSettings.Reading
    plan_review: TopicSettings.PlanReview
    max_tokens: int | None
    max_money: str | None
    max_pages: int | None
    max_minutes: int | None
    intent: str
    schedule: ScheduleTold


class TopicList(Schema):
    """A page of topics, the newest first."""

    items: list[TopicTold]
    next: str | None


class AgentMemory(Schema):
    """What is known of a topic, in seed 000's shape."""

    topic: str
    seenUrls: list[str]
    keyFacts: list[str]
    lastRunAt: datetime | None
    runCount: int
    reportSummary: str


_OWN = (
    "id", "slug", "version", "summary", "run_count", "last_run_at", "expires_at", "archived_at",
    "created", "updated",
)  # fmt: skip


def told(topic: Topic) -> dict[str, Any]:
    """Return the topic as programs get it: no query where settings and schedule are loaded."""
    settings = getattr(topic, "settings", None) or TopicSettings(topic=topic)
    schedule = getattr(topic, "schedule", None) or Schedule(topic=topic)
    state = {name: getattr(topic, name) for name in topic_editing.TOPIC_FIELDS}
    for name in topic_editing.SETTINGS_FIELDS:
        state[name] = topic_editing.plain(getattr(settings, name))
    own = {name: getattr(topic, name) for name in _OWN}
    when = {name: getattr(schedule, name) for name in ScheduleTold.model_fields}
    return own | state | {"schedule": when}
