"""`/topics/{slug}/since-read`: what is new since the owner last read, and the marks of reading."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from django.utils.translation import gettext as _
from ninja import Status
from pydantic import BaseModel, Field

from memory.api.auth import ADMIN, READ, ApiRequest, Caller
from memory.api.frame import Body, router
from memory.api.problems import Problem, not_found
from memory.api.shown import Textless, shows
from memory.models import Topic
from research.api.run_schemas import DeltaSourceOut
from research.api.topics import topic_of
from research.deltas.merged import Merged
from research.models import Report
from research.models.reports import ReportQuerySet
from research.unread import reading_marks, since_read
from research.unread.since_read import News, ReadRun

api = router("topics")
_ONE = "/{slug:slug}"
MOST_NUMBER = 2_147_483_647


class ReadRunOut(BaseModel):
    """A run as far as reading goes."""

    id: int
    number: int
    at: datetime
    is_baseline: bool

    @classmethod
    def of(cls, run: ReadRun) -> Self:
        """Return it as it is told."""
        return cls(id=run.pk, number=run.number, at=run.at, is_baseline=run.is_baseline)


class MergedItemOut(BaseModel):
    """One fact over all unread runs: as it was before the first of them, and as it is now."""

    status: str = Field(description="new, changed, contradicted, gone, confirmed or gone quiet.")
    sentence: str
    previous: str
    quote: str
    source: DeltaSourceOut | None = Field(description="Where the sentence stands.")
    run: int = Field(description="The run whose words these are.")
    runs: list[int] = Field(description="All that spoke of it, in their order.")

    @classmethod
    def of(cls, one: Merged, runs: dict[int, ReadRun]) -> Self:
        """Return it as it is told; `runs` come with the sources of their reports."""
        item = one.as_item()
        numbered = {source["n"]: source for source in runs[item.run_id].sources}
        cited = next((numbered[n] for n in item.citations if n in numbered), None)
        return cls(
            status=item.status,
            sentence=item.sentence,
            previous=item.previous_text,
            quote=item.quote,
            source=DeltaSourceOut.of(cited, quote=item.quote),
            run=item.run_id,
            runs=list(dict.fromkeys(each.run_id for each in one.items)),
        )


class SinceReadOut(BaseModel):
    """What is new of a topic since its owner last read a report of it: the deltas as one."""

    topic: str
    last_read: ReadRunOut | None = Field(description="Null: nothing of it was read yet.")
    unread: list[ReadRunOut] = Field(description="The unread reports' runs, in their order.")
    left_out: int = Field(description="Unread reports that are too old to be told here.")
    words: str = Field(description="The counts as a sentence; empty where nothing changed.")
    counts: dict[str, int]
    withheld: int
    items: list[MergedItemOut]

    @classmethod
    def of(cls, topic: Topic, news: News) -> Self:
        """Return the topic's news as they are told."""
        window = news.window
        runs = {run.pk: run for run in window.merged}
        return cls(
            topic=topic.slug,
            last_read=ReadRunOut.of(window.last) if window.last else None,
            unread=[ReadRunOut.of(run) for run in window.runs],
            left_out=len(window.runs) - len(window.merged),
            words=news.words,
            counts=news.counts,
            withheld=news.withheld,
            items=[MergedItemOut.of(one, runs) for one in news.changes],
        )


class MarkIn(Body):
    """Which reports: from Run #first to Run #last."""

    first: int | None = Field(None, ge=1, le=MOST_NUMBER, description="Default: the oldest.")
    last: int | None = Field(None, ge=1, le=MOST_NUMBER, description="Default: the newest.")


class MarkedOut(Textless):
    """How many reports changed their mark."""

    marked: int


@api.get(_ONE + "/since-read", auth=READ, response=SinceReadOut)
def read_since(request: ApiRequest, slug: str) -> SinceReadOut:
    """Read what is new since the owner last read: the unread reports' deltas as one.

    Marks nothing as read.
    """
    caller = request.auth
    topic = topic_of(caller, slug)
    news = since_read.news_of([topic.pk], in_full=True).get(topic.pk, News())
    _check_may_read(caller, news)
    return SinceReadOut.of(topic, news)


def _check_may_read(caller: Caller, news: News) -> None:
    """Refuse (404) agents where one of the reports is shown to people only."""
    told = Report.objects.filter(run__in=[run.pk for run in news.window.merged])
    reports = list(told.only("id", "owner", "trust", "sensitivity", "run"))
    shows(*reports)
    if not caller.by.is_person and not all(caller.may_read(report) for report in reports):
        raise not_found(_("A report among these is shown to people only."))


@api.post(_ONE + "/read", auth=ADMIN, response=MarkedOut)
def mark_read(request: ApiRequest, slug: str, which: MarkIn | None = None) -> Status[MarkedOut]:
    """Mark the topic's reports as read: all, or those of Run #first to Run #last."""
    rows = _reports(request.auth, slug, which)
    count, _key = reading_marks.mark_read(rows)
    return Status(200, MarkedOut(marked=count))


@api.post(_ONE + "/unread", auth=ADMIN, response=MarkedOut)
def mark_unread(request: ApiRequest, slug: str, which: MarkIn | None = None) -> Status[MarkedOut]:
    """Put reports back among the unread: the newest, or those of Run #first to Run #last."""
    rows = _reports(request.auth, slug, which)
    if which is None or (which.first is None and which.last is None):
        rows = rows.filter(pk__in=rows.order_by("-run__number").values("pk")[:1])
    count, _key = reading_marks.mark_unread(rows)
    return Status(200, MarkedOut(marked=count))


def _reports(caller: Caller, slug: str, which: MarkIn | None) -> ReportQuerySet:
    rows = Report.objects.live().filter(run__topic=topic_of(caller, slug))
    rows = rows.exclude(run__number=None)
    if which is not None and None not in (which.first, which.last) and which.first > which.last:  # type: ignore[operator]
        words = _("`first` is a later run than `last`: nothing was marked.")
        raise Problem(422, words, errors={"first": [words]})
    if which is not None and which.first is not None:
        rows = rows.filter(run__number__gte=which.first)
    if which is not None and which.last is not None:
        rows = rows.filter(run__number__lte=which.last)
    return rows
