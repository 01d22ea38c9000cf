"""`/corrections`, and marking reports as read or unread."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from django.utils.translation import gettext as _
from ninja import Status
from pydantic import BaseModel, Field

from beacon_site.text.cleaning import uncited
from memory.api.auth import ADMIN, READ, ApiRequest, Caller
from memory.api.frame import Body, router
from memory.api.paging import PAGE, Listing, PageParams, listing
from memory.api.problems import Problem, not_found
from memory.api.shown import NoStoredText, RowOut, shows
from memory.api.shown import topic_of as topic_filter
from memory.models import Topic
from memory.models.errors import InvalidValue, MemoryRefused
from research.api.schemas import DeltaSourceOut, cited_first
from research.api.topics import topic_of
from research.models import CorrectedFact, Correction, Report
from research.models.reports import ReportQuerySet
from research.services.facts import correcting
from research.services.facts.history import SavedRun
from research.services.reports import since_read
from research.services.reports.since_read import UnreadNews
from research.services.runs.reporting import report_text
from research.services.runs.reporting import sentences as report_sentences
from research.services.runs.reporting.merged_deltas import Merged

corrections_api = router("corrections")


class FactSeenIn(Body):
    """A fact to change, with the version that the caller saw."""

    id: UUID = Field(strict=False)
    version: int = Field(ge=1)


class CorrectionIn(Body):
    """What is wrong with a sentence in a report."""

    run: int = Field(description="The run whose report contains the sentence.")
    sentence: str = Field(
        max_length=4000, description="The sentence as in the report, without citations."
    )
    wrong: str = Field(max_length=correcting.MAX_WORDS)
    right: str = Field("", max_length=correcting.MAX_WORDS)
    facts: list[FactSeenIn] | None = Field(
        None,
        max_length=40,
        description="Omit to change all facts that came from the sentence. An empty list changes none.",
    )


class CorrectedFactOut(RowOut):
    """One event in a fact's history."""

    fact: UUID
    action: CorrectedFact.Action
    before: str
    after: str


class CorrectionOut(RowOut):
    """A correction. `undone_at` is set once it is undone."""

    id: UUID
    topic: str
    run: int
    sentence: str
    wrong: str
    right: str
    by: str
    created: datetime
    undone_at: datetime | None
    lesson: UUID | None = Field(description="The observation that later runs use.")
    facts: list[CorrectedFactOut]

    @classmethod
    def of(cls, one: Correction) -> Self:
        """Return a correction. Its report, run, topic and facts are loaded."""
        return cls.from_row(
            one,
            topic=one.report.run.topic.slug,
            run=one.report.run_id,
            lesson=one.lesson_id,
            facts=[CorrectedFactOut.from_row(fact, fact=fact.fact_id) for fact in one.facts.all()],
        )


def _mine(caller: Caller) -> Any:
    rows = Correction.objects.for_user(caller.owner).readable()
    return rows.select_related("report__run__topic").prefetch_related("facts")


class CorrectionsQuery(PageParams):
    """Which corrections are listed."""

    topic: str = Field("", max_length=80, description="A topic's slug.")
    state: Literal["active", "all"] = "active"


@corrections_api.get("", auth=ADMIN, response=Listing[CorrectionOut])
def list_corrections(request: ApiRequest, query: CorrectionsQuery = PAGE) -> Listing[CorrectionOut]:
    """List corrections, newest first. Leaves out undone corrections unless `state` is `all`."""
    rows = _mine(request.auth)
    if query.state == "active":
        rows = rows.standing()
    if topic := topic_filter(request.auth, query.topic):
        rows = rows.filter(topic=topic)
    return listing(rows.order_by(), query, name="corrections", out=CorrectionOut.of)


@corrections_api.post("", auth=ADMIN, response={201: CorrectionOut, 404: None})
def make_correction(request: ApiRequest, body: CorrectionIn) -> Status[CorrectionOut]:
    """Correct a sentence.

    Its facts change, and later runs use the correction. Returns 409 if it's already corrected, or
    if a fact has changed since `version`.
    """
    caller = request.auth
    reports = Report.objects.for_user(caller.owner).live().filter(run__topic__trashed_at=None)
    report = reports.select_related("run__topic__owner", "owner").filter(run=body.run).first()
    if report is None:
        raise not_found(_("This run has no report, or it isn’t yours."))
    key = report_text.sentence_key(uncited(body.sentence))
    sentence = report_sentences.sentence_of(report, key)
    if sentence is None:
        problem = _("This sentence isn’t in the report.")
        raise Problem(422, problem, errors={"sentence": [problem]})
    facts = correcting.facts_of(report, sentence)
    seen = {one.id: one.version for one in body.facts or []}
    chosen = [
        (fact, seen.get(fact.pk, fact.version))
        for fact in facts
        if body.facts is None or fact.pk in seen
    ]
    if len(seen) > len(chosen):
        problem = _("One of these facts isn’t from this sentence.")
        raise Problem(422, problem, errors={"facts": [problem]})
    made = _correct(report, sentence, body, chosen, caller)
    return Status(201, CorrectionOut.of(_mine(caller).get(pk=made.pk)))


def _correct(report: Report, sentence: Any, body: CorrectionIn, facts: Any, caller: Caller) -> Any:
    try:
        return correcting.correct(
            report, sentence, wrong=body.wrong, right=body.right, facts=facts, by=caller.by
        )
    except InvalidValue as exc:
        if exc.errors:
            raise
        raise Problem(409, str(exc)) from exc


@corrections_api.post("/{uuid:key}/undo", auth=ADMIN, response=CorrectionOut)
def undo_correction(request: ApiRequest, key: UUID) -> CorrectionOut:
    """Undo a correction completely.

    Returns 409 if it's already undone, or if a fact has changed since then.
    """
    mine = _mine(request.auth).select_related("lesson", "report__owner", "topic")
    one = mine.filter(pk=key).first()
    if one is None:
        raise not_found(_("This correction doesn’t exist, or it isn’t yours."))
    try:
        done = correcting.undo_change(one, by=request.auth.by)
    except MemoryRefused as exc:
        raise Problem(409, str(exc)) from exc
    if not done:
        raise Problem(409, _("This correction has already been undone."))
    return CorrectionOut.of(_mine(request.auth).get(pk=key))


# --- reading ---

since_read_api = router("topics")
_ONE = "/{slug:slug}"
MAX_NUMBER = 2_147_483_647


class ReadRunOut(RowOut):
    """A run that a report refers to."""

    id: int
    number: int
    at: datetime
    is_baseline: bool

    @classmethod
    def of(cls, run: SavedRun) -> Self:
        return cls.from_row(run, id=run.pk)


class MergedItemOut(RowOut):
    """One fact across all unread runs: its state before the first of them, and now."""

    status: str = Field(description="new, changed, contradicted, gone, confirmed or gone quiet.")
    sentence: str
    previous: str
    quote: str
    source: DeltaSourceOut | None = Field(description="The source of the sentence.")
    run: int = Field(description="The run that wrote the sentence.")
    runs: list[int] = Field(description="All runs that mentioned it, in order.")

    @classmethod
    def of(cls, one: Merged, runs: dict[int, SavedRun]) -> Self:
        """Return the item. `runs` have the sources of their reports loaded."""
        item = one.as_item()
        cited = cited_first(item, runs[item.run_id].sources)
        return cls.from_row(
            item,
            previous=item.previous_text,
            source=DeltaSourceOut.of(cited, quote=item.quote),
            run=item.run_id,
            runs=list(dict.fromkeys(each.run_id for each in one.items)),
        )


class SinceReadOut(BaseModel):
    """What is new in a topic since its owner last read a report: all unread changes as one list."""

    topic: str
    last_read: ReadRunOut | None = Field(description="Null if no report has been read yet.")
    unread: list[ReadRunOut] = Field(description="The runs of the unread reports, in order.")
    left_out: int = Field(description="Unread reports that are too old to be included.")
    words: str = Field(description="The counts as a sentence. Empty if nothing changed.")
    counts: dict[str, int]
    filtered_out: int
    items: list[MergedItemOut]

    @classmethod
    def of(cls, topic: Topic, news: UnreadNews) -> Self:
        """Return the topic's news."""
        runs = {run.pk: run for run in news.merged}
        return cls(
            topic=topic.slug,
            last_read=ReadRunOut.of(news.last) if news.last else None,
            unread=[ReadRunOut.of(run) for run in news.runs],
            left_out=len(news.runs) - len(news.merged),
            words=news.words,
            counts=news.counts,
            filtered_out=news.filtered_out,
            items=[MergedItemOut.of(change, runs) for change in news.changes],
        )


class MarkIn(Body):
    """Which reports: from Run #first to Run #last."""

    first: int | None = Field(None, ge=1, le=MAX_NUMBER, description="Default: the oldest.")
    last: int | None = Field(None, ge=1, le=MAX_NUMBER, description="Default: the newest.")


class MarkedOut(NoStoredText):
    """How many reports were changed."""

    marked: int


@since_read_api.get(_ONE + "/since-read", auth=READ, response=SinceReadOut)
def read_since(request: ApiRequest, slug: str) -> SinceReadOut:
    """Read what's new since the owner last read the topic.

    Returns the changes in its unread reports as one list, and doesn't mark anything as read.
    """
    caller = request.auth
    topic = topic_of(caller, slug)
    news = since_read.news_of([topic.pk], in_full=True).get(topic.pk, UnreadNews())
    _check_may_read(caller, news)
    return SinceReadOut.of(topic, news)


def _check_may_read(caller: Caller, news: UnreadNews) -> None:
    """Respond with 404 to agents if one of the reports is visible only to people."""
    rows = Report.objects.filter(run__in=[run.pk for run in news.merged])
    reports = list(rows.only("id", "owner", "trust", "sensitivity", "run"))
    shows(*reports)
    if not caller.by.is_person and not all(caller.may_read(report) for report in reports):
        raise not_found(_("One of these reports is visible only to people."))


@since_read_api.post(_ONE + "/read", auth=ADMIN, response=MarkedOut)
def mark_read(request: ApiRequest, slug: str, which: MarkIn | None = None) -> Status[MarkedOut]:
    """Mark the topic's reports as read: all of them, or those from Run #`first` to Run #`last`."""
    rows = _reports(request.auth, slug, which)
    count, _key = since_read.mark_read(rows)
    return Status(200, MarkedOut(marked=count))


@since_read_api.post(_ONE + "/unread", auth=ADMIN, response=MarkedOut)
def mark_unread(request: ApiRequest, slug: str, which: MarkIn | None = None) -> Status[MarkedOut]:
    """Mark reports as unread: the newest one, or those from Run #`first` to Run #`last`."""
    rows = _reports(request.auth, slug, which)
    if which is None or (which.first is None and which.last is None):
        rows = rows.filter(pk__in=rows.order_by("-run__number").values("pk")[:1])
    count, _key = since_read.mark_unread(rows)
    return Status(200, MarkedOut(marked=count))


def _reports(caller: Caller, slug: str, which: MarkIn | None) -> ReportQuerySet:
    rows = Report.objects.live().filter(run__topic=topic_of(caller, slug))
    rows = rows.exclude(run__number=None)
    if which is not None and None not in (which.first, which.last) and which.first > which.last:  # type: ignore[operator]
        words = _("`first` is a later run than `last`, so nothing was changed.")
        raise Problem(422, words, errors={"first": [words]})
    if which is not None and which.first is not None:
        rows = rows.filter(run__number__gte=which.first)
    if which is not None and which.last is not None:
        rows = rows.filter(run__number__lte=which.last)
    return rows
