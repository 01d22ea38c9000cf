"""The pages of a topic: the head above all tabs, and the rows of each tab.

Each function runs a fixed number of queries, however long the topic's history is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import (
    Case,
    Count,
    F,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Coalesce, JSONObject
from django.http import QueryDict

from beacon_site.db.keyset import Page, page_of
from beacon_site.text.canonical_urls import domain_of
from beacon_site.text.cleaning import match_key
from beacon_site.text.messages import from_column
from beacon_site.text.messages import gettext as _
from beacon_site.text.numbers import grouped
from memory.models import Revision, SeenUrl, Topic, TopicFact, User
from memory.pages.shared.filter_bar import Choice, Facet
from research.models import Run, TopicSettings
from research.models.reports import Link, link_of
from research.services.facts import staleness
from research.services.reports.delta_rows import in_words
from research.services.runs import presenters
from research.services.runs.execution.starting import limits_in_words
from research.services.runs.presenters import cost, started_by, took
from research.services.schedules.scheduling import Notice, last_notice, lately
from research.services.topics.listing import TopicRow, with_figures
from research.services.topics.settings import editing

MOST_DOMAINS = 100
TIMELINE_SIZE = 25  # rows with whole sentences and sources are longer than a table's


# --- the head ---


@dataclass(slots=True)
class TopicHead:
    """The head above the tabs: the topic, its state, and its memory's expiry."""

    topic: Any
    row: TopicRow
    notice: Notice | None = None  # a problem with its schedule within the week
    limits: Sequence[str] = ()  # limits to know before starting a run

    @property
    def live_run(self) -> Run | None:
        """Return the run that is queued or running."""
        return self.row.unfinished

    @property
    def other_depth(self) -> str:
        """Return the depth that the topic's runs don't have, to offer it for a single run."""
        quick, deep = TopicSettings.Depth.QUICK, TopicSettings.Depth.DEEP
        return str(quick if self.topic.settings.depth == deep else deep)

    @property
    def memory_words(self) -> str:
        """Return the state of the working memory: “expires in 12 days”."""
        return presenters.memory_words(self.topic)


def topics_of(user: User) -> QuerySet[Any]:
    """Return the person's topics with the figures that the tabs show."""
    runs = Run.objects.kept().filter(topic=OuterRef("pk")).order_by().values("topic")
    counted = runs.annotate(number=Count("pk")).values("number")
    topics = with_figures(Topic.objects.of(user).live())
    total = Coalesce(Subquery(counted, output_field=IntegerField()), 0)
    found: QuerySet[Any] = topics.annotate(run_total=total, hitch=lately(OuterRef("pk")))
    return found.select_related("owner", "settings", "schedule")


def head_of(topic: Any) -> TopicHead:
    """Return the head of a topic from `topics_of`.

    Two queries: its unfinished and last run, and the hourly limit.
    """
    ended = Case(
        When(status__in=Run.UNFINISHED, then=Value(0)),
        default=Value(1),
        output_field=IntegerField(),
    )
    runs = Run.objects.kept().filter(topic=topic)
    runs = runs.annotate(ended=ended, is_quiet=F("report__is_quiet")).order_by("ended", "-id")
    row = TopicRow(topic)
    for run in runs.distinct("ended"):
        run.topic = topic
        if run.is_unfinished:
            row.unfinished = run
        else:
            row.last_run = run
    notice, limits = last_notice(topic.hitch), limits_in_words(topic.owner)
    return TopicHead(topic, row, notice, limits)


def host_of(url: str) -> str:
    """Return the domain of a URL in readable form, or ""."""
    try:
        return editing.shown(domain_of(url))[:80]
    except ValueError:
        return ""


# --- facts ---


@dataclass(slots=True)
class FactRow:
    """One fact to show. `runs` maps run numbers to ids, for the links."""

    fact: TopicFact
    runs: dict[int, int]
    change: Revision | None = None
    stale: str = ""  # how long the fact has gone unchecked, if that is too long
    is_only_blocked: bool = False  # all of its sources are blocked now

    @property
    def link(self) -> Link:
        """Return the link to its source."""
        return link_of(self.fact.url)

    @property
    def host(self) -> str:
        """Return the domain of its source."""
        return host_of(self.fact.url)

    @property
    def quote(self) -> str:
        """Return the source's wording, or "" if it is the fact's own."""
        quote = self.fact.quote
        return "" if match_key(quote) == match_key(self.fact.text) else in_words(quote)

    @property
    def first_run_id(self) -> int | None:
        """Return the id of the run that found it."""
        return self.runs.get(self.fact.first_run or 0)

    @property
    def confirmed_run_id(self) -> int | None:
        """Return the id of the run that last confirmed it."""
        return self.runs.get(self.fact.confirmed_run or 0)

    @property
    def retired_run_id(self) -> int | None:
        return self.runs.get(self.fact.retired_run or 0)

    @property
    def gone(self) -> str:
        """Return what happened to it in the run that retired it, or "" if a person did it."""
        if not self.fact.retired_run:
            return ""
        headings: dict[str, str] = {
            TopicFact.RetiredAs.OUTRANKED: _("Not in the top 10 since Run #%(number)d"),
            TopicFact.RetiredAs.GONE: _("No longer found by Run #%(number)d"),
        }
        heading = headings.get(self.fact.retired_as, _("Replaced by Run #%(number)d"))
        return heading % {"number": self.fact.retired_run}

    @property
    def is_contradicted(self) -> bool:
        """Whether a run contradicted it after it was last confirmed."""
        at, confirmed = self.fact.contradicted_at, self.fact.confirmed_at
        return at is not None and (confirmed is None or at >= confirmed)


@dataclass(slots=True)
class Facts:
    """A topic's current facts in order, and those marked as wrong."""

    current: list[FactRow]
    struck: list[FactRow]

    @property
    def stale(self) -> int:
        """Return how many current facts went unchecked for too long."""
        return sum(bool(row.stale) for row in self.current)

    @property
    def kept(self) -> int:
        """Return how many current facts runs can't change."""
        return sum(row.fact.is_kept for row in self.current)


def facts_of(topic: Topic) -> Facts:
    """Return the facts for the topic's page, in three queries, plus up to four for blocked sources."""
    facts = TopicFact.objects.filter(topic=topic).live().exclude(state=TopicFact.State.RETIRED)
    rows = fact_rows(topic, facts.order_by("position", "created"))
    current = [row for row in rows if row.fact.state == TopicFact.State.CURRENT]
    struck = [row for row in rows if row.fact.state == TopicFact.State.STRUCK]
    blocked = staleness.only_blocked(topic, [row.fact for row in current])
    for row in current:
        row.is_only_blocked = row.fact.pk in blocked
    return Facts(current, sorted(struck, key=lambda row: row.fact.updated, reverse=True))


def fact_rows(
    topic: Topic,
    facts: Iterable[TopicFact],
    known: Mapping[int, int] | None = None,
    told: Mapping[Any, Revision] | None = None,
) -> list[FactRow]:
    """Return the facts as rows, with the runs they mention and why they are no longer current."""
    facts = list(facts)
    runs = dict(known) if known is not None else _runs_named(topic, facts)
    gone = [fact.pk for fact in facts if fact.state != TopicFact.State.CURRENT]
    changes = _changes_of_state(gone) if told is None else told
    for fact in facts:
        fact.topic = topic
    days = staleness.days_of(topic.settings, getattr(topic, "schedule", None))
    return [
        FactRow(fact, runs, changes.get(fact.pk), staleness.in_words(fact, days)) for fact in facts
    ]


def _runs_named(topic: Topic, facts: Iterable[TopicFact]) -> dict[int, int]:
    numbers = {
        number
        for fact in facts
        for number in (fact.first_run, fact.confirmed_run, fact.retired_run)
        if number
    }
    found = Run.objects.filter(topic=topic, number__in=numbers) if numbers else Run.objects.none()
    return dict(found.values_list("number", "pk"))


def _changes_of_state(ids: list[Any]) -> dict[Any, Revision]:
    if not ids:
        return {}
    revisions = _of_state().filter(record_id__in=ids)
    last = revisions.order_by("record_id", "-id").distinct("record_id")
    return {revision.record_id: revision for revision in last}


def _of_state() -> QuerySet[Any]:
    """Return the revisions that changed the state of a fact."""
    rows: QuerySet[Any] = Revision.objects.filter(
        record_type=TopicFact.record_type(), after__has_key="state"
    )
    return rows


def timeline_of(topic: Topic, runs: Mapping[int, int] | None = None, *, cursor: str = "") -> Page:
    """Return a page of retired facts and those marked as wrong, latest first, as rows.

    `runs` are the topic's runs by number, if already known.
    """
    gone = TopicFact.objects.filter(topic=topic).live().exclude(state=TopicFact.State.CURRENT)
    revisions = _of_state().filter(record_id=OuterRef("pk")).order_by("-id")
    told = JSONObject(created="created", actor="actor", reason="reason")
    gone = gone.annotate(last_change=Subquery(revisions.values(told=told)[:1]))
    page = page_of(gone, by="updated", falling=True, cursor=cursor, size=TIMELINE_SIZE)
    rows = fact_rows(topic, page.rows, runs, _changes_told(page.rows))
    places: dict[Any, int] = {}
    for row in rows:  # one group per run and reason
        places.setdefault(row.fact.retired_run, len(places))
    rows.sort(key=lambda row: (places[row.fact.retired_run], row.gone and row.fact.retired_as))
    return Page(rows, page.next_cursor)


def _changes_told(facts: Iterable[Any]) -> dict[Any, Revision]:
    """Return the last change of state of each fact, which was loaded with it."""
    found = {}
    for fact in facts:
        if told := fact.last_change:
            at = datetime.fromisoformat(told["created"])
            change = Revision(actor=told["actor"], reason=from_column(told["reason"]), created=at)
            found[fact.pk] = change
    return found


# --- sources and runs ---


def seen_count(topic: Topic) -> int:
    """Return how many URLs the topic has seen."""
    return SeenUrl.objects.filter(topic=topic).count()


@dataclass(slots=True)
class RunRow:
    """One run as a table row, with its counts of listed changes by status."""

    run: Run
    counts: list[tuple[str, int]] = field(default_factory=list)

    @property
    def took(self) -> str:
        """Return how long it has taken so far."""
        return took(self.run)

    @property
    def tokens(self) -> str:
        """Return all tokens spent, with thousands separators."""
        return grouped(self.run.tokens)

    @property
    def cost(self) -> str:
        return cost(self.run)

    @property
    def trigger(self) -> str:
        """Return who or what started it."""
        return started_by(self.run)


def run_facets(topic: Topic) -> tuple[list[Facet], int]:
    """Return what the runs can be filtered by, with counts, and their number: one query."""
    rows = Run.objects.kept().filter(topic=topic).order_by().values_list("status", "trigger")
    status: Counter[str] = Counter()
    trigger: Counter[str] = Counter()
    for one, other, number in rows.annotate(n=Count("pk")):
        status[one] += number
        trigger[other] += number
    facets = [
        Facet("status", _("Status"), [Choice(*one, status[one[0]]) for one in Run.Status.choices]),
        Facet(
            "by", _("Started by"), [Choice(*one, trigger[one[0]]) for one in Run.Trigger.choices]
        ),
    ]
    return facets, status.total()


def runs_of(topic: Topic, wanted: QueryDict, *, cursor: str = "") -> Page:
    """Return a page of the runs that match the filters, newest first."""
    rows = Run.objects.kept().filter(topic=topic)
    if (status := wanted.get("status")) in Run.Status.values:
        rows = rows.filter(status=status)
    if (trigger := wanted.get("by")) in Run.Trigger.values:
        rows = rows.filter(trigger=trigger)
    for word in wanted.get("q", "").replace("\x00", "").split()[:10]:
        number = int(word.lstrip("#")) if word.lstrip("#").isdecimal() and len(word) < 9 else None
        rows = rows.filter(Q(error__icontains=word) | Q(number=number))
    page = page_of(
        rows.select_related("rerun_of").defer("manifest", "rerun_of__manifest"),
        by="created",
        falling=True,
        cursor=cursor,
    )
    for run in page.rows:
        run.topic = topic
    return Page([RunRow(run) for run in page.rows], page.next_cursor)
