"""What research registers with memory: account deletion, content in use, and kinds of search results."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.urls import reverse
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import shorten
from memory.models import ContentItem, Observation, Sensitivity, TopicFact, User, as_of
from memory.models.accounts import ON_ACCOUNT_DELETE
from memory.services.content import items as content_services
from memory.services.search import kinds
from research.models import DeltaItem, Hit, Report, Run, ToolCall
from research.models.runs import end_in
from research.services.notifications.sending import forget_owner
from research.services.runs.reporting import report_text

# --- account deletion ---


def end_runs(person: User) -> None:
    """Cancel unfinished runs. A worker that is executing one loses its claim."""
    runs = Run.objects.for_user(person).unfinished()
    runs.update(cancel_requested_at=Now(), **end_in(Run.Status.CANCELLED))


def register_account_deletion() -> None:
    """Register these to run before anything else is deleted. Called when the app is ready."""
    for act in (forget_owner, end_runs):
        if act not in ON_ACCOUNT_DELETE:
            ON_ACCOUNT_DELETE.insert(0, act)


# --- content items that a report needs ---


def cited() -> QuerySet[Any, Any]:
    """Return the ids of the items that a report cites."""
    hits = Hit.objects.filter(cited_as__isnull=False, content_item__isnull=False)
    return hits.values("content_item")


# --- where an item was used ---

MAX = 20


def used_in(item: ContentItem) -> Iterator[content_services.Usage]:
    """Yield the runs that read the item, each with its citation number in the report.

    For a deep run, tool calls that returned the item are included.
    """
    mine = {"content_item": item, "run__topic__owner": item.owner}
    hits = Hit.objects.filter(**mine).select_related("run", "run__topic")
    for hit in hits.order_by("-run_id")[:MAX]:
        params = {"run": hit.run, "topic": _topic(hit.run), "n": hit.cited_as}
        words = _("read by %(run)s of “%(topic)s”")
        url = _page(hit.run)
        if hit.cited_as:
            words = _("cited as [%(n)s] in the report for %(run)s of “%(topic)s”")
            url = url and f"{url}#source-{hit.cited_as}"
        yield words % params, url, hit.run.started_at or hit.run.created
    calls = ToolCall.objects.filter(**mine).select_related("run", "run__topic")
    for call in calls.order_by("-pk")[:MAX]:
        params = {"tool": call.tool, "run": call.run, "topic": _topic(call.run)}
        words = _("result of %(tool)s in %(run)s of “%(topic)s”")
        yield words % params, _page(call.run), call.created


def _topic(run: Run) -> str:
    return shorten(run.topic.title, 60)


def _page(run: Run) -> str:
    """Return the run's page, or "" if its topic is in the trash."""
    topic = run.topic
    return "" if topic.trashed_at else reverse("research:run", args=[topic.slug, run.pk])


# --- recall kinds ---


def register_recall_kinds() -> None:
    """Register reports with memory search, and the page that shows each fact."""
    kinds.register(
        kinds.RecallKind(
            "report",
            Report,
            _reports,
            title=lambda report: str(report.title),
            of_topic=True,
            topic_path="run__topic",
            prose=lambda report: report_text.without_notes(report.body),
        )
    )
    kinds.register(replace(kinds.KINDS["fact"], url=_fact_url))
    kinds.register(replace(kinds.KINDS["observation"], overtaken=_overtaken))


# Runs confirm and contradict facts without a revision. Their changes say when.
# Its parts are our own names.
def _by_runs(column: str, at_column: str, value: str, status: str, otherwise: str) -> str:
    """Return the SQL of a column of facts that runs set, as it was at the moment `{at}`."""
    runs = "public.research_deltaitem d JOIN public.research_run told ON told.id = d.run_id"
    text = (
        f"SELECT max(told.{value}) FROM {runs} WHERE d.previous_fact_id = n.id "  # noqa: S608  # nosec B608
        f"AND d.status = '{status}' AND told.finished_at < {{at}}"
    )
    stays = f"n.{at_column} IS NULL OR n.{at_column} < {{at}}"
    return f"CASE WHEN {stays} THEN n.{column} ELSE COALESCE(({text}), {otherwise}) END"


# A run replaces the summary with that of its report.
_SUMMARY = """
CASE WHEN n.last_run_at IS NULL OR n.last_run_at < {at} THEN n.summary ELSE COALESCE((
SELECT told.summary FROM public.research_report told JOIN public.research_run run
ON run.id = told.run_id WHERE run.topic_id = n.id AND run.number IS NOT NULL
AND run.finished_at < {at} AND (told.trashed_at IS NULL OR NOT {for_agent}) ORDER BY run.number DESC LIMIT 1), '') END
"""


def _of_runs(column: str, value: str) -> str:
    """Return the SQL of a column of topics that each saved run sets, as it was at `{at}`."""
    runs = "public.research_run run WHERE run.topic_id = n.id AND run.number IS NOT NULL"
    ended = f"SELECT {value} FROM {runs} AND run.finished_at < {{at}}"  # noqa: S608  # nosec B608
    stays = "n.last_run_at IS NULL OR n.last_run_at < {at}"
    return f"CASE WHEN {stays} THEN n.{column} ELSE ({ended}) END"


def register_dates() -> None:
    """Tell reading at a date which rows of research there were (`memory.models.as_of`)."""
    as_of.DERIVED["memory_topicfact"] = {
        "confirmed_at": _by_runs(
            "confirmed_at", "confirmed_at", "finished_at", "confirmed", "n.created"
        ),
        "confirmed_run": _by_runs(
            "confirmed_run", "confirmed_at", "number", "confirmed", "n.first_run"
        ),
        "contradicted_at": _by_runs(
            "contradicted_at", "contradicted_at", "finished_at", "contradicted", "NULL"
        ),
    }
    as_of.DERIVED["memory_topic"] = {
        "summary": _SUMMARY,
        "run_count": _of_runs("run_count", "COALESCE(max(run.number), 0)"),
        "last_run_at": _of_runs("last_run_at", "max(run.finished_at)"),
        # Before the first run, there was no memory that could expire.
        "expires_at": _of_runs(
            "expires_at", "CASE WHEN count(*) > 0 THEN n.expires_at ELSE NULL END"
        ),
    }
    as_of.LISTS["memory_seenurl"] = (
        "EXISTS (SELECT 1 FROM public.memory_source s WHERE s.topic_id = memory_seenurl.topic_id "
        "AND s.url = memory_seenurl.url AND s.first_at < {at})"
    )
    as_of.LIST_COLUMNS["memory_seenurl"] = _until("returned_at", "returned_at")
    as_of.LISTS["memory_source"] = "first_at < {at}"
    as_of.LIST_COLUMNS["memory_source"] = {
        # Only the first and the latest run are stored. The runs' results say what was read between.
        **_until("last_at", "last_at", "first_at"),
        **_until("last_run", "last_at", "first_run"),
        **_until("times_read", "last_at", "0"),
        **_until("times_cited", "last_at", "0"),
    }
    as_of.LISTS["research_run"] = "COALESCE(finished_at, created) < {at}"
    of_ended_runs = "run_id IN (SELECT id FROM public.research_run WHERE finished_at < {at})"
    as_of.LISTS["research_deltaitem"] = as_of.LISTS["research_hit"] = of_ended_runs
    for table, ended in (
        ("research_correction", "undone_at"),
        ("research_checkedsentence", "undone_at"),
        ("research_affectedline", "dismissed_at"),
    ):
        as_of.LISTS[table] = "created < {at}"
        as_of.LIST_COLUMNS[table] = _until(ended, ended)
    as_of.LISTS["research_comment"] = "created < {at}"


def _until(column: str, at_column: str, otherwise: str = "NULL") -> dict[str, str]:
    """Return the SQL of a column that was set at `at_column`, as it was at the moment `{at}`."""
    return {column: f"CASE WHEN {at_column} < {{at}} THEN {column} ELSE {otherwise} END"}


def _reports(owner: Any, now: datetime) -> QuerySet[Any]:
    saved = Report.objects.for_user(owner).live().exclude(run__number=None)
    return saved.filter(run__topic__trashed_at=None).select_related("run__topic")


_Said = tuple[Any, str]  # a topic's id and the text of its fact
_Changes = dict[_Said, list[tuple[int, str]]]  # the number of a run, and what it found instead


def _overtaken(observations: list[Observation]) -> dict[uuid.UUID, str]:
    """Return, for findings whose fact was replaced, what the latest run found instead.

    A finding has exactly the text of its fact, and remains when the fact is replaced. What replaced
    it can be replaced too, so each step takes one query. Text that a person has since marked as
    wrong or sensitive is left out.
    """
    keys_by_id = {
        (observation.topic_id, observation.content): observation.pk
        for observation in observations
        if observation.topic_id
    }
    changes: _Changes = {}
    while pairs := {_last_of(changes, said) for said in keys_by_id} - set(changes):
        changes |= _changes_of(pairs)
    latest = {said: _last_of(changes, said) for said in keys_by_id}
    return {keys_by_id[said]: now[1] for said, now in latest.items() if now != said}


def _last_of(changes: _Changes, pair: _Said) -> _Said:
    """Return the text at the end of the changes, as far as they are known."""
    topic, text = pair
    run = 0
    while later := [one for one in changes.get((topic, text), ()) if one[0] > run]:
        run, text = max(later)
    return topic, text


def _changes_of(pairs: Collection[_Said]) -> _Changes:
    """Return what runs found in place of these facts and findings."""
    facts = TopicFact.objects.live().filter(topic=OuterRef("run__topic"), text=OuterRef("sentence"))
    stands = facts.exclude(state=TopicFact.State.STRUCK).exclude(sensitivity=Sensitivity.SENSITIVE)
    changed = DeltaItem.objects.filter(
        Exists(stands),
        Q(previous_fact=None) | Q(previous_fact__state=TopicFact.State.RETIRED),
        status=DeltaItem.Status.CHANGED,
        hidden_reason="",
        run__topic__in={topic for topic, _text in pairs},
        previous_text__in={text for _topic, text in pairs},
    )
    found: _Changes = {one: [] for one in pairs}
    rows = changed.exclude(run__number=None).values_list(
        "run__topic", "previous_text", "run__number", "sentence"
    )
    for topic, was, run, now in rows:
        if (topic, was) in found:
            found[topic, was].append((run, now))
    return found


def _fact_url(fact: Any) -> str:
    """Return the fact on its topic's page: selected over time, or its line if there is only a list."""
    page = reverse("research:topic-facts", args=[fact.topic.slug])
    return f"{page}?fact={fact.pk}#fact-{fact.pk}"
