"""A topic's facts as rows: current ones, those marked as wrong, and the timeline of retired ones.

Each function runs a fixed number of queries, however long the topic's history is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import (
    Count,
    OuterRef,
    QuerySet,
    Subquery,
)
from django.db.models.functions import JSONObject

from beacon_site.db.keyset import Page, page_of
from beacon_site.text.canonical_urls import domain_of
from beacon_site.text.cleaning import match_key
from beacon_site.text.messages import from_column
from beacon_site.text.messages import gettext as _
from memory.models import Revision, Topic, TopicFact, Use
from research.claims.blocks import plain_quote
from research.models import Run
from research.models.reports import Link, link_of
from research.services.facts import staleness
from research.services.topics.settings import editing

TIMELINE_SIZE = 25  # rows with whole sentences and sources are longer than a table's


def host_of(url: str) -> str:
    """Return the domain of a URL in readable form, or ""."""
    try:
        return editing.readable_domain(domain_of(url))[:80]
    except ValueError:
        return ""


@dataclass(slots=True)
class FactRow:
    """One fact to show. `runs` maps run numbers to ids, for the links."""

    fact: TopicFact
    runs: dict[int, int]
    change: Revision | None = None
    stale: str = ""  # how long the fact has gone unchecked, if that is too long
    is_only_blocked: bool = False  # all of its sources are blocked now
    used: int = 0  # the prompts and answers that used it, if they were counted

    @property
    def link(self) -> Link:
        return link_of(self.fact.url)

    @property
    def host(self) -> str:
        return host_of(self.fact.url)

    @property
    def quote(self) -> str:
        """Return the source's wording, or "" if it is the fact's own."""
        quote = self.fact.quote
        return "" if match_key(quote) == match_key(self.fact.text) else plain_quote(quote)

    @property
    def first_run_id(self) -> int | None:
        return self.runs.get(self.fact.first_run or 0)

    @property
    def confirmed_run_id(self) -> int | None:
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
            TopicFact.RetiredAs.GONE: _("Not found since Run #%(number)d"),
        }
        heading = headings.get(self.fact.retired_as, _("Replaced in Run #%(number)d"))
        return heading % {"number": self.fact.retired_run}


def facts_of(topic: Topic) -> tuple[list[FactRow], list[FactRow]]:
    """Return the topic's current facts in order, and those marked as wrong.

    Four queries, plus up to four for blocked sources.
    """
    facts = TopicFact.objects.filter(topic=topic).live().exclude(state=TopicFact.State.RETIRED)
    rows = fact_rows(topic, facts.order_by("position", "created"))
    current = [row for row in rows if row.fact.state == TopicFact.State.CURRENT]
    struck = [row for row in rows if row.fact.state == TopicFact.State.STRUCK]
    blocked = staleness.only_blocked(topic, [row.fact for row in current])
    uses = Use.objects.filter(record_id__in=[row.fact.pk for row in current]).order_by()
    used = dict(uses.values_list("record_id").annotate(n=Count("pk")))
    for row in current:
        row.is_only_blocked = row.fact.pk in blocked
        row.used = used.get(row.fact.pk, 0)
    return current, sorted(struck, key=lambda row: row.fact.updated, reverse=True)


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
        FactRow(fact, runs, changes.get(fact.pk), staleness.age_label(fact, days)) for fact in facts
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
    return Revision.objects.filter(record_type=TopicFact.record_type(), after__has_key="state")


def retired(topic: Topic, words: str = "") -> QuerySet[TopicFact]:
    """Return the facts that are no longer current and whose text contains all of the words."""
    gone = TopicFact.objects.filter(topic=topic, state=TopicFact.State.RETIRED).live()
    for word in words.split():
        gone = gone.filter(text__icontains=word)
    return gone


def timeline_of(topic: Topic, *, cursor: str = "", words: str = "") -> Page:
    """Return a page of retired facts, latest first, as rows. `facts_of` has those marked as wrong."""
    gone = retired(topic, words)
    revisions = _of_state().filter(record_id=OuterRef("pk")).order_by("-id")
    fields = JSONObject(created="created", actor="actor", reason="reason")
    gone = gone.annotate(last_change=Subquery(revisions.values(told=fields)[:1]))
    page = page_of(gone, by="updated", falling=True, cursor=cursor, size=TIMELINE_SIZE)
    rows = fact_rows(topic, page.rows, told=_changes_told(page.rows))
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
