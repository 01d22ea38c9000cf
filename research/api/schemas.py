"""Schemas of topics, runs and reports."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import BaseModel, Field, model_validator

from beacon_site.text.cleaning import without_citations
from memory.api.frame import Body
from memory.api.shown import RowOut, shows
from memory.models import Topic, Trust
from memory.models.topics import TITLE_LENGTH
from research.models import DeltaItem, Report, Run, Schedule, Step, TopicSettings
from research.models.runs import RunStatus, RunTrigger
from research.services.reports.delta_rows import WatchedPart, watched_parts
from research.services.topics.settings import editing as topic_editing

Line = Annotated[str, Field(max_length=2_000)]
Word = Annotated[str, Field(max_length=255)]
# Bodies are strict, so a choice sent as a string has to be allowed explicitly.
Depth = Annotated[TopicSettings.Depth, Field(strict=False)]
TimeFrame = Annotated[TopicSettings.TimeFrame, Field(strict=False)]
Style = Annotated[TopicSettings.Style, Field(strict=False)]
Reading = Annotated[TopicSettings.Reading, Field(strict=False)]
PlanReview = Annotated[TopicSettings.PlanReview, Field(strict=False)]
OverLimit = Annotated[TopicSettings.OverLimit, Field(strict=False)]
Preset = Annotated[Schedule.Preset, Field(strict=False)]
Missed = Annotated[Schedule.Missed, Field(strict=False)]
Whole = Annotated[int, Field(ge=1, le=2_000_000_000)]
MAX_LENGTH = 10_000


class ScheduleIn(Body):
    """When a topic runs: a preset or a cron expression, in a time zone."""

    preset: Preset | None = None
    hour: int | None = Field(None, ge=0, le=23, description="For presets. Default: 7.")
    weekday: int | None = Field(None, ge=0, le=6, description="Only for weekly. 0 is Sunday.")
    day: str | None = Field(
        None,
        pattern=r"^([1-9]|1[0-9]|2[0-8]|L)$",
        description="Only for monthly. L is the last day.",
    )
    cron: str | None = Field(None, max_length=100, description="Five fields, such as 0 9 * * 1.")
    time_zone: str | None = Field(None, max_length=64, description="Such as Europe/Berlin.")
    missed: Missed | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.cron and self.preset not in (None, Schedule.Preset.CRON):
            raise ValueError("send either a preset or cron, not both")
        return self


class SchedulePatch(ScheduleIn):
    """A schedule to change or pause."""

    paused: bool | None = Field(None, description="Pauses a recurring topic.")


class TopicFields(Body):
    """The settings of a topic."""

    title: str | None = Field(None, min_length=1, max_length=TITLE_LENGTH)
    objective: str | None = Field(None, max_length=MAX_LENGTH)
    focus: str | None = Field(None, max_length=MAX_LENGTH)
    depth: Depth | None = None
    time_frame: TimeFrame | None = None
    languages: list[Word] | None = Field(
        None, max_length=10, description="Codes or names of languages."
    )
    services: list[Word] | None = Field(
        None, max_length=20, description="Null means the default services."
    )
    feeds: list[Line] | None = Field(None, max_length=200)
    allow_domains: list[Word] | None = Field(None, max_length=200)
    block_domains: list[Word] | None = Field(None, max_length=200)
    block_pages: list[Line] | None = Field(None, max_length=200)
    always_check: list[Line] | None = Field(None, max_length=5)
    report_style: Style | None = None
    report_template: str | None = Field(
        None,
        max_length=MAX_LENGTH,
        description="Markdown with placeholders such as {{ new }}. Leave empty to use the report style.",
    )
    report_max_items: Annotated[int, Field(ge=1, le=200)] | None = Field(
        None, description="The maximum number of items in each list of the template."
    )
    report_tone: str | None = Field(
        None, max_length=200, description="The tone that the model writes in."
    )
    reading: Reading | None = None
    plan_review: PlanReview | None = None
    intent: str | None = Field(
        None,
        max_length=MAX_LENGTH,
        description="Which changes to notify about. Leave empty for all changes. Only a person can set this.",
    )
    notify_examples: list[Line] | None = Field(
        None, max_length=50, description="Only a person can set this."
    )
    max_pages: Annotated[int, Field(ge=1, le=500)] | None = None
    max_minutes: Annotated[int, Field(ge=1, le=240)] | None = None
    max_tokens: Whole | None = None
    max_money: Annotated[float, Field(ge=0, le=999_999)] | None = Field(
        None, description="In USD, with up to two decimals."
    )
    month_tokens: Annotated[int, Field(ge=0, le=2_000_000_000)] | None = Field(
        None, description="Monthly limit for all runs of the topic."
    )
    month_money: Annotated[float, Field(ge=0, le=99_999_999)] | None = Field(
        None, description="Monthly limit in USD, with up to two decimals."
    )
    over_limit: OverLimit | None = Field(
        None, description="What happens to a scheduled run that would exceed the limit."
    )
    stale_days: Annotated[int, Field(ge=1, le=3_650)] | None = Field(
        None,
        description="Number of days without a check before a fact becomes stale. Null means that it depends on the schedule.",
    )
    recheck: bool | None = Field(None, description="Whether stale facts are rechecked each month.")
    model: Annotated[str, Field(max_length=200)] | None = Field(
        None,
        description="One of the server's models. Leave empty to use the default models. Only a person can set this.",
    )
    labels: list[Annotated[str, Field(max_length=40)]] | None = Field(None, max_length=20)
    private: bool | None = None
    schedule: ScheduleIn | None = Field(
        None, description="Null means that the topic only runs manually."
    )

    def asked(self) -> dict[str, Any]:
        """Return the fields that were sent, as plain values. Null resets a field to its default."""
        return self.model_dump(exclude_unset=True, mode="json")


class TopicPatch(TopicFields):
    """The fields of a topic to change. Omitted fields stay the same."""

    schedule: SchedulePatch | None = Field(
        None, description="Null removes the schedule, so that the topic only runs manually."
    )
    archived: bool | None = Field(
        None, description="Whether the topic is archived. Only a person can set this."
    )


class TopicIn(TopicFields):
    """A topic to create."""

    title: str = Field(min_length=1, max_length=TITLE_LENGTH, description="What to research.")


class ScheduleOut(RowOut):
    """A topic's schedule."""

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
    """A topic with its settings. Send `version` in If-Match."""

    id: UUID
    slug: str
    title: str
    version: int
    summary: str
    labels: list[str]
    private: bool
    run_count: int
    last_run_at: datetime | None
    expires_at: datetime | None = Field(description="When the topic's memory expires.")
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
    report_template: str
    report_max_items: int | None
    report_tone: str
    reading: TopicSettings.Reading
    model: str
    plan_review: TopicSettings.PlanReview
    intent: str
    notify_examples: list[str]
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
        """Return the topic, without a query if settings and schedule are loaded."""
        # it is the beginning of a report
        shows(topic, trust=Trust.EXTERNAL if topic.summary else "")
        settings = getattr(topic, "settings", None) or TopicSettings(topic=topic)
        schedule = getattr(topic, "schedule", None) or Schedule(topic=topic)
        fields = {name: getattr(topic, name) for name in _OWN}
        for name in topic_editing.SETTINGS_FIELDS:
            fields[name] = topic_editing.plain(getattr(settings, name))
        return cls(schedule=ScheduleOut.from_row(schedule), **fields)


class AgentMemory(BaseModel):
    """What is known about a topic, in seed 000's format."""

    topic: str
    seenUrls: list[str]
    keyFacts: list[str]
    lastRunAt: datetime | None
    runCount: int
    reportSummary: str


# --- runs and reports ---


class RunIn(Body):
    """How to run a topic."""

    depth: Depth | None = Field(None, description="Default: the topic's depth.")


class RetryIn(Body):
    """The step to retry from. It and all later steps are repeated."""

    step: str | None = Field(
        None, max_length=40, description="Default: the step where the run stopped."
    )


class StepOut(RowOut):
    """One step of a run, or one follow-up step after it is saved."""

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

    @classmethod
    def of(cls, step: Step) -> Self:
        return cls.from_row(step, money=f"{step.money:.6f}")


class RunCounts(BaseModel):
    """What a run's searches returned, and how much of it was read."""

    new: int
    known: int
    returning: int
    read: int
    unsupported: int = Field(description="Sentences in its report without a supporting source.")


class RunOut(RowOut):
    """A run. `number` is set once it is saved."""

    id: int
    topic: str = Field(description="The topic's slug.")
    number: int | None
    status: RunStatus
    depth: str
    trigger: RunTrigger
    actor: str
    is_baseline: bool | None = Field(description="Null until the run is saved, as is its number.")
    awaiting_plan_review: bool = Field(
        description="Whether the run is waiting for its plan to be reviewed."
    )
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

    @classmethod
    def of(cls, run: Run, **more: Any) -> Self:
        """Return the run. Its topic must be loaded."""
        quotes = run.error or run.stop_reason or run.warnings  # these can quote pages
        shows(run.topic, trust=Trust.EXTERNAL if quotes else "")
        counted = {name: getattr(run, f"{name}_count") for name in RunCounts.model_fields}
        return cls.from_row(
            run,
            topic=run.topic.slug,
            counts=RunCounts(**counted),
            money=f"{run.money:.6f}",
            # The baseline is known once memory is loaded, and final once the run is saved.
            is_baseline=run.is_baseline if run.number is not None else None,
            awaiting_plan_review=run.waiting_since is not None,
            **more,
        )


class RunWithSteps(RunOut):
    """A run with its steps, follow-up steps last."""

    steps: list[StepOut]

    @classmethod
    def whole(cls, run: Run) -> Self:
        """Return the run with its steps, which needs one more query."""
        steps = list(run.steps.defer("output").order_by("is_follow_up", "position", "part"))
        if any(step.detail or step.warning for step in steps):
            shows(trust=Trust.EXTERNAL)
        return cls.of(run, steps=[StepOut.of(step) for step in steps])


class DeltaSourceOut(BaseModel):
    """The source of a sentence, with its quote."""

    link: str
    title: str
    domain: str
    published_at: str | None
    quote: str

    @classmethod
    def of(cls, stored: dict[str, Any] | None, quote: str = "") -> Self | None:
        """Return the source, or None."""
        if not stored:
            return None
        at = stored.get("published_at")
        named = {name: stored.get(name) or "" for name in ("link", "title", "domain")}
        return cls(
            published_at=str(at) if at else None, quote=quote or stored.get("quote") or "", **named
        )


def cited_first(item: DeltaItem, sources: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the first source of the sentence, out of its report's."""
    cited = (source for n in item.citations for source in sources if source["n"] == n)
    return next(cited, None)


class DeltaItemOut(RowOut):
    """One changed fact. If `hidden_reason` is set, it's the reason why no section lists the fact.

    If `judged_by` is also set, the fact is supported and remembered, but filtered out by the
    topic's intent or a muted source.
    """

    position: int
    status: DeltaItem.Status = Field(
        description="gone: its page no longer says it. gone quiet: no source of the run mentions it."
    )
    sentence: str
    previous: str
    previous_fact: UUID | None
    previous_source: DeltaSourceOut | None = Field(
        description="The source of the old sentence when the two were compared."
    )
    needs_review: bool = Field(
        description="The old fact is still current, and a person should review both."
    )
    compared_by: str = Field(
        description="words, words and vectors, versions of the page, or the name of the model."
    )
    conflict: UUID | None = Field(
        description="The conflict between the two sentences, pending or resolved."
    )
    citations: list[int]
    quote: str
    source: DeltaSourceOut | None = Field(description="The first source of the sentence.")
    hidden_reason: str
    judged_by: str = Field(description="model, rule, muted or person. Empty if not judged.")
    judged: str = Field(description="Why it is announced or filtered out.")

    @classmethod
    def of(cls, item: DeltaItem, sources: Sequence[dict[str, Any]]) -> Self:
        """Return the item. `sources` are the report's."""
        cited = cited_first(item, sources)
        return cls.from_row(
            item,
            previous=item.previous_text,
            previous_fact=item.previous_fact_id,
            conflict=item.conflict_id,
            previous_source=DeltaSourceOut.of(item.previous_source),
            source=DeltaSourceOut.of(cited, quote=item.quote),
        )


class QuoteOut(BaseModel):
    """A sentence of the report, and the quote that supports it."""

    sentence: str
    quote: str = Field(description="The exact quote in the stored page, if found.")
    found: bool
    in_snippet: bool = Field(False, description="Found only in the search result.")
    start: int | None = Field(None, description="Its position in the stored text, in characters.")
    end: int | None = None
    before: str = ""
    after: str = ""
    checked_at: str | None = None

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Self:
        """Return a quote as stored in a report. Quotes from earlier versions may lack newer fields."""
        return cls(
            sentence=stored.get("sentence", ""),
            quote=stored.get("quote", ""),
            found=bool(stored.get("found")),
            in_snippet=bool(stored.get("in_snippet")),
            start=stored.get("start"),
            end=stored.get("end"),
            before=stored.get("before") or "",
            after=stored.get("after") or "",
            checked_at=stored.get("checked_at"),
        )


class RelatedPageOut(BaseModel):
    """Another page with the same text, or by the same publisher."""

    n: int | None = Field(description="Its number in the list of sources, if it is cited.")
    domain: str
    link: str
    published_at: str | None = None
    why: str = Field(
        "", description="`text` or `publisher`, shared with the source it derives from."
    )


class SentenceOut(BaseModel):
    """A cited sentence: whether its sources support it, and a person's verdict."""

    key: str
    sentence: str
    supported: bool
    why: str = Field(
        description="Why it isn't supported: `quote`, `numbers`, `words` or `uncited`."
    )
    sources: int
    independent: int

    @classmethod
    def of(cls, check: dict[str, Any]) -> Self:
        """Return one entry of a report's checks."""
        return cls(**{name: check[name] for name in cls.model_fields})


class RemarkOut(RowOut):
    """A person's verdict on a sentence: `checked` or `corrected`."""

    kind: str
    key: str
    sentence: str
    right: str
    by: str
    created: datetime


class SourceOut(BaseModel):
    """One entry of the numbered list of sources."""

    n: int
    title: str
    url: str = Field(description="The canonical URL.")
    link: str = Field(description="The URL that the search returned.")
    domain: str
    published_at: str | None
    state: str
    trust: str = ""
    derived_from: RelatedPageOut | None = Field(
        None, description="Null if the source is independent."
    )
    repeated_by: list[RelatedPageOut] = []
    quotes: list[QuoteOut]

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Self:
        """Return one entry of a report's list. Imported entries may lack newer fields."""
        named = ("title", "url", "link", "domain", "state")
        at = stored.get("published_at")
        return cls(
            n=stored["n"],
            published_at=str(at) if at else None,
            quotes=[QuoteOut.of(one) for one in stored.get("quotes") or []],
            trust=stored.get("trust") or "",
            derived_from=stored.get("derived_from") or None,
            repeated_by=stored.get("repeated_by") or [],
            **{name: stored.get(name) or "" for name in named},
        )


class PartLine(BaseModel):
    """A line of a watched part: `same`, `changed`, `removed` or `added`, or a `gap` of unchanged ones."""

    kind: str
    before: str
    now: str


class WatchedPartOut(BaseModel):
    """A part of a page that the topic watches, compared with the last run that read it."""

    url: str
    part: str = Field(description="A CSS selector or a heading, such as `css: main .prices`.")
    state: str = Field(description="`first`, `same`, `changed` or `unread`.")
    reason: str = Field(description="Why it wasn't read.")
    since: int | None = Field(description="The number of the run it is compared with.")
    lines: list[PartLine] = Field(description="The changed lines with their context.")

    @classmethod
    def of(cls, one: WatchedPart) -> Self:
        """Return one part of a run."""
        return cls(
            url=one.address,
            part=one.part,
            state=one.state,
            reason=one.reason,
            since=one.since,
            lines=[
                PartLine(
                    kind=row.kind,
                    before="".join(piece.shown for piece in row.before),
                    now="".join(piece.shown for piece in row.after),
                )
                for row in one.rows
            ],
        )


class ReportOut(RowOut):
    """A run's report. `body` doesn't include the changes."""

    id: UUID
    run: int
    topic: str
    number: int | None
    title: str
    created: datetime
    written_by: str
    is_extractive: bool
    is_quiet: bool
    summary: str = Field(description="Plain text. Citation marks are in `body`.")
    body: str
    delta: str
    delta_heading: str
    delta_since: str
    delta_items: list[DeltaItemOut]
    sources: list[SourceOut]
    sentences: list[SentenceOut] = Field(description="The cited sentences, checked.")
    remarks: list[RemarkOut]
    watched_parts: list[WatchedPartOut] = Field(description="Only parts that the topic watches.")

    @classmethod
    def of(cls, report: Report) -> Self:
        """Return the report with its delta items and its sources, numbered as cited."""
        shows(report)
        run = report.run
        return cls.from_row(
            report,
            run=run.pk,
            topic=run.topic.slug,
            number=run.number,
            summary=without_citations(report.summary),
            delta_items=[DeltaItemOut.of(item, report.sources) for item in run.delta_items.all()],
            sources=[SourceOut.of(source) for source in report.sources],
            sentences=[SentenceOut.of(check) for check in report.checks],
            remarks=[RemarkOut.from_row(one) for one in report.remarks()],
            watched_parts=[WatchedPartOut.of(one) for one in watched_parts(run)],
        )
