"""What programs send and get of topics."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import BaseModel, Field

from memory.api.frame import Body
from memory.api.shown import shows
from memory.models import Topic, Trust
from memory.models.topics import TITLE_LENGTH
from research.models import Schedule, TopicSettings
from research.topic_settings import editing as topic_editing

Line = Annotated[str, Field(max_length=2_000)]
Word = Annotated[str, Field(max_length=255)]
# A choice comes as its word: bodies are strict, and a word is no member of an enumeration.
Depth = Annotated[TopicSettings.Depth, Field(strict=False)]
TimeFrame = Annotated[TopicSettings.TimeFrame, Field(strict=False)]
Style = Annotated[TopicSettings.Style, Field(strict=False)]
Reading = Annotated[TopicSettings.Reading, Field(strict=False)]
PlanReview = Annotated[TopicSettings.PlanReview, Field(strict=False)]
OverLimit = Annotated[TopicSettings.OverLimit, Field(strict=False)]
Preset = Annotated[Schedule.Preset, Field(strict=False)]
Missed = Annotated[Schedule.Missed, Field(strict=False)]
Whole = Annotated[int, Field(ge=1, le=2_000_000_000)]
LONGEST = 10_000


class ScheduleIn(Body):
    """When a topic runs again: a preset, or a cron line, in a time zone."""

    preset: Preset | None = None
    hour: int | None = Field(None, ge=0, le=23, description="Of the presets; 7 if left out.")
    weekday: int | None = Field(None, ge=0, le=6, description="Of weekly; 0 is Sunday.")
    day: str | None = Field(
        None, pattern=r"^([1-9]|1[0-9]|2[0-8]|L)$", description="Of monthly; L is the last."
    )
    cron: str | None = Field(None, max_length=100, description="Five fields, such as 0 9 * * 1.")
    time_zone: str | None = Field(None, max_length=64, description="Such as Europe/Berlin.")
    missed: Missed | None = None


class SchedulePatch(ScheduleIn):
    """A schedule that changes, or pauses for a while."""

    paused: bool | None = Field(None, description="Of a topic that recurs: whether it waits.")


class TopicFields(Body):
    """What is told of a topic by whoever makes or changes it."""

    title: str | None = Field(None, min_length=1, max_length=TITLE_LENGTH)
    objective: str | None = Field(None, max_length=LONGEST)
    focus: str | None = Field(None, max_length=LONGEST)
    depth: Depth | None = None
    time_frame: TimeFrame | None = None
    languages: list[Word] | None = Field(None, max_length=10, description="Codes or names.")
    services: list[Word] | None = Field(None, max_length=20, description="None: the usual ones.")
    feeds: list[Line] | None = Field(None, max_length=200)
    allow_domains: list[Word] | None = Field(None, max_length=200)
    block_domains: list[Word] | None = Field(None, max_length=200)
    block_pages: list[Line] | None = Field(None, max_length=200)
    always_check: list[Line] | None = Field(None, max_length=5)
    report_style: Style | None = None
    reading: Reading | None = None
    plan_review: PlanReview | None = None
    intent: str | None = Field(
        None, max_length=LONGEST, description="What to be told of; a person's to say. Empty: all."
    )
    tell_also: list[Line] | None = Field(None, max_length=50, description="A person's to say.")
    max_pages: Annotated[int, Field(ge=1, le=500)] | None = None
    max_minutes: Annotated[int, Field(ge=1, le=240)] | None = None
    max_tokens: Whole | None = None
    max_money: Annotated[float, Field(ge=0, le=999_999)] | None = Field(
        None, description="In dollars, with two places at most."
    )
    month_tokens: Annotated[int, Field(ge=0, le=2_000_000_000)] | None = Field(
        None, description="What all runs of the topic may spend in a month."
    )
    month_money: Annotated[float, Field(ge=0, le=99_999_999)] | None = Field(
        None, description="The same in dollars, with two places at most."
    )
    over_limit: OverLimit | None = Field(
        None, description="What becomes of a scheduled run that would not fit."
    )
    stale_days: Annotated[int, Field(ge=1, le=3_650)] | None = Field(
        None, description="Days without a check after which a fact is stale; null: by the schedule."
    )
    recheck: bool | None = Field(None, description="Whether stale facts are rechecked each month.")
    labels: list[Annotated[str, Field(max_length=40)]] | None = Field(None, max_length=20)
    private: bool | None = None
    schedule: ScheduleIn | None = None

    def asked(self) -> dict[str, Any]:
        """Return what was named, as plain values; null means: as a new topic has it."""
        return self.model_dump(exclude_unset=True, mode="json")


class TopicPatch(TopicFields):
    """What may be changed of a topic; what is left out stays as it is."""

    schedule: SchedulePatch | None = None
    archived: bool | None = Field(None, description="Put away, or taken back: a person's to say.")


class TopicIn(TopicFields):
    """A topic to be made."""

    title: str = Field(min_length=1, max_length=TITLE_LENGTH, description="What to research.")


class ScheduleOut(BaseModel):
    """A topic's schedule as it stands."""

    preset: Schedule.Preset
    cron: str
    time_zone: str
    missed: Schedule.Missed
    paused: bool
    next_run_at: datetime | None


_OWN = (
    "id", "slug", "version", "summary", "run_count", "last_run_at", "expires_at", "archived_at",
    "created", "updated", *topic_editing.TOPIC_FIELDS,
)  # fmt: skip


class TopicOut(BaseModel):
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
    intent: str
    tell_also: list[str]
    boost_places: list[str]
    mute_places: list[str]
    max_tokens: int | None
    max_money: str | None
    max_pages: int | None
    max_minutes: int | None
    month_tokens: int | None
    month_money: str | None
    over_limit: TopicSettings.OverLimit
    stale_days: int | None
    recheck: bool
    schedule: ScheduleOut

    @classmethod
    def of(cls, topic: Topic) -> Self:
        """Return the topic as it is told: no query where settings and schedule are loaded."""
        shows(topic, trust=Trust.EXTERNAL if topic.summary else "")  # it is a report's first words
        settings = getattr(topic, "settings", None) or TopicSettings(topic=topic)
        schedule = getattr(topic, "schedule", None) or Schedule(topic=topic)
        fields = {name: getattr(topic, name) for name in _OWN}
        for name in topic_editing.SETTINGS_FIELDS:
            fields[name] = topic_editing.plain(getattr(settings, name))
        when = {name: getattr(schedule, name) for name in ScheduleOut.model_fields}
        return cls(schedule=ScheduleOut(**when), **fields)


class AgentMemory(BaseModel):
    """What is known of a topic, in seed 000's shape."""

    topic: str
    seenUrls: list[str]
    keyFacts: list[str]
    lastRunAt: datetime | None
    runCount: int
    reportSummary: str
