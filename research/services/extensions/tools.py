"""The research tools: start a run of a topic, and read a report.

A run is started on behalf of the caller, within the owner's hourly limit. It continues in the
background, and the answer says how to ask for its report.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Literal

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _
from pydantic import Field

from beacon_site import health
from beacon_site.text.cleaning import as_data, clean, one_line, shorten, slug_of
from beacon_site.text.messages import grouped
from memory.agents.tools import registry as tools
from memory.agents.tools.types import (
    Arguments,
    MemoryTool,
    ToolContext,
    ToolResult,
    record_entry,
    refused,
)
from memory.models import Sensitivity, Topic, Trust
from memory.services.search.filters import named_topic
from research.models import Report, Run, RunAlreadyActive
from research.services.runs.execution import starting
from research.services.runs.execution.starting import RunNotAllowed

MAX_WAIT = 50  # in seconds; programs give up on a call after a minute
POLL_SECONDS = 0.5
MAX_REPORT_LENGTH = 60_000  # characters of a report returned at once
# A waiting call occupies a thread and a connection, so further calls return at once.
_WAITING = threading.BoundedSemaphore(3)


class TopicArguments(Arguments):
    """What to research."""

    topic: str = Field(
        min_length=1,
        max_length=500,
        description="The topic, in plain language. If a topic with this title or slug exists, this "
        "starts its next run, which reports what changed.",
    )
    objective: str = Field(
        "", max_length=2000, description="What a new topic should answer, in one or two sentences."
    )
    depth: Literal["quick", "deep"] = Field(
        "quick",
        description="quick takes a few minutes. deep follows up to three tracks and takes much longer.",
    )
    wait_seconds: int = Field(
        0,
        ge=0,
        le=MAX_WAIT,
        description="Seconds to wait for the report. If it isn't ready by then, call get_report later.",
    )


class ReportArguments(Arguments):
    """Which report. Default: the newest."""

    run: int | None = Field(None, ge=1, le=2**62, description="The run's ID.")
    topic: str | None = Field(None, max_length=500, description="The topic's title or slug.")
    number: int | None = Field(
        None,
        ge=1,
        le=2**31 - 1,
        description="The number of one of the topic's runs, such as 3 for Run #3. Requires topic.",
    )


# --- research_topic ---


def _research(context: ToolContext, args: TopicArguments) -> ToolResult:
    title = one_line(clean(args.topic)[0])
    topic = _topic(context, title)
    if topic is not None and not context.may_read(topic):
        return refused("refused", _("Agents can’t research this. Ask the user to do it."))
    if topic is None and context.only_topics:
        text = _("Topic “%(topic)s” doesn’t exist, or this token can’t access it.")
        return refused("not_found", text % {"topic": shorten(title, 80)})
    if topic is None and not _may_make(context, title):
        text = _(
            "Topic “%(topic)s” doesn’t exist. Because you’ve read untrusted text, only the user "
            "can create it. Ask them to."
        )
        return refused("refused", text % {"topic": shorten(title, 80)})
    try:
        with transaction.atomic():  # without a run, there's no new topic either
            run = starting.start_run(
                topic or _new_topic(context, title, args.objective),
                trigger=Run.Trigger.AGENT,
                by=context.by,
                depth=args.depth,
                may_search_library=not context.only_topics,
            )
    except RunAlreadyActive as exc:
        return _in_the_way(exc)
    except RunNotAllowed as exc:
        more = {"retry_after": exc.retry_after} if exc.retry_after else {}
        return refused("limit" if exc.retry_after else "refused", str(exc), **more)
    if args.wait_seconds and _waited_for(run, args.wait_seconds):
        return _report_or_progress(context, run)
    return ToolResult(_started(run), data=_run_data(run))


def _topic(context: ToolContext, name: str) -> Topic | None:
    """Return the owner's topic that has or had this title or slug, if the token is for it."""
    found = (
        Topic.objects.titled(context.owner, name)
        or Topic.objects.for_user(context.owner)
        .live()
        .filter(named_topic(name.rstrip("*")))
        .first()
        or Topic.objects.renamed_from(context.owner, slug_of(name))
        or Topic.objects.renamed_from(context.owner, name)
    )
    is_other = found is not None and context.only_topics and found.pk not in context.only_topics
    return None if is_other else found


def _may_make(context: ToolContext, title: str) -> bool:
    """Return True if this caller can create a topic.

    Not after reading external text, which could have asked for it.
    """
    return context.trust_of(title) in (Trust.OWNER, Trust.AGENT)


def _new_topic(context: ToolContext, title: str, objective: str) -> Topic:
    objective, by = clean(objective)[0].strip(), context.by
    texts = [title, *filter(None, [objective])]
    trust = context.trust_of(*texts)
    starting.check_review(context.owner, texts, by=by, trust=trust)
    source = context.source if by.is_person else str(by)
    with transaction.atomic():
        starting.check_hour(context.owner, by)
        return starting.create_topic(
            owner=context.owner,
            title=title,
            by=by,
            source=source,
            settings={"objective": objective},
            trust=trust,
        )


def _in_the_way(exc: RunAlreadyActive) -> ToolResult:
    if exc.run is None:
        return refused("conflict", str(exc))
    message = _("%(what)s To check its progress, call get_report with run %(run)d.")
    text = message % {"what": exc, "run": exc.run.pk}
    return ToolResult(text, data=_run_data(exc.run))


def _started(run: Run) -> str:
    parts = [
        _("Run %(run)d of “%(topic)s” is %(status)s (depth %(depth)s).")
        % {
            "run": run.pk,
            "topic": shorten(run.topic.title, 80),
            "status": run.get_status_display(),
            "depth": run.depth,
        },
        _(
            "The run continues in the background. Call get_report with run %(run)d later to read its report."
        )
        % {"run": run.pk},
    ]
    if run.waiting_since is not None:
        parts.append(_("The run is waiting for a person to review its plan."))
    if "worker" in health.silent(health.ages()):
        parts.append(_("No workers are running. The run will start when one is available."))
    return " ".join(parts)


def _waited_for(run: Run, seconds: int) -> bool:
    """Wait for the run to end, and return whether it ended in time."""
    if not _WAITING.acquire(blocking=False):
        return False
    try:
        until = time.monotonic() + seconds
        while run.is_unfinished and run.waiting_since is None:
            left = until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(POLL_SECONDS, left))
            run.refresh_from_db()
        return not run.is_unfinished
    finally:
        _WAITING.release()


def _run_data(run: Run) -> dict[str, Any]:
    return {
        "run": run.pk,
        "number": run.number,
        "status": run.status,
        "topic": run.topic.slug,
        "depth": run.depth,
    }


# --- get_report ---


def _report(context: ToolContext, args: ReportArguments) -> ToolResult:
    runs = (
        Run.objects.for_user(context.owner)
        .kept()
        .filter(topic__trashed_at=None)
        .select_related("topic")
    )
    hidden = Q(topic__sensitivity=Sensitivity.SENSITIVE) | Q(topic__trust=Trust.QUARANTINED)
    runs = runs.exclude(hidden)
    if context.only_topics:
        runs = runs.filter(topic__in=context.only_topics)
    if args.run is not None:
        runs = runs.filter(pk=args.run)
    topic = None
    if args.topic:
        topic = _topic(context, one_line(clean(args.topic)[0]))
        if topic is None or not context.may_read(topic):
            text = _("Topic “%(topic)s” doesn’t exist. Call research_topic to create it.")
            return refused("not_found", text % {"topic": shorten(args.topic, 80)})
        runs = runs.filter(topic=topic)
    if args.number is not None:
        if not args.topic and args.run is None:
            return refused("bad_arguments", _("A report number requires a topic. Pass both."))
        runs = runs.filter(number=args.number)
    run = _newest_with_report(runs, any_of_topic=args.run is None)
    return _no_run(topic) if run is None else _report_or_progress(context, run)


def _no_run(topic: Topic | None) -> ToolResult:
    """Return the answer for a run that doesn't exist, with the one that can be read instead."""
    if topic is None:
        return refused("not_found", _("This run doesn’t exist. Call research_topic to start one."))
    params = {"topic": shorten(topic.title, 80)}
    runs = topic.runs.kept()
    newest = runs.exclude(number=None).order_by("-created", "-pk").first()
    if newest is None:
        text = _("“%(topic)s” has no runs yet. Call research_topic to start one.")
        if runs.exists():
            text = _("“%(topic)s” has no report yet. Call get_report without a number.")
        return refused("not_found", text % params)
    text = _("“%(topic)s” has no such run. Its newest report is that of Run #%(number)d.")
    return refused("not_found", text % {**params, "number": newest.number})


def _newest_with_report(runs: QuerySet[Any], *, any_of_topic: bool) -> Run | None:
    """Return the newest run that has a report, or the newest run if none has."""
    found: Run | None = None
    if any_of_topic:
        found = runs.exclude(number=None).order_by("-created", "-pk").first()
    return found or runs.order_by("-created", "-pk").first()


def _report_or_progress(context: ToolContext, run: Run) -> ToolResult:
    """Return the report of a run, or the run's progress."""
    report = Report.objects.for_user(context.owner).live().filter(run=run).first()
    data = _run_data(run)
    if report is None:
        if run.is_unfinished:
            return ToolResult(_started(run), data=data)
        if run.error:
            context.shown(trust=Trust.EXTERNAL)  # reports can quote pages
        text = _("There is no report yet. The status of run %(run)d is “%(status)s”. %(why)s")
        params = {"run": run.pk, "status": run.get_status_display(), "why": run.error}
        return refused("not_found", (text % params).strip(), **data)
    if not context.may_read(report):
        return refused("sensitive", _("Only people can see that report."))
    report.run = run
    context.read([report])
    whole = report.as_markdown()
    text = whole[:MAX_REPORT_LENGTH]
    if len(whole) > MAX_REPORT_LENGTH:
        params = {"most": grouped(MAX_REPORT_LENGTH), "have": grouped(len(whole))}
        text += "\n" + _("… (the first %(most)s of %(have)s characters)") % params
    if report.is_outside:
        text = as_data(text)
    known = {"title": report.title, "warnings": run.warnings, "sources": len(report.sources)}
    return ToolResult(text, data={**data, **known, "records": [record_entry(report)]})


TOOLS = (
    MemoryTool(
        "research_topic",
        "Research a topic on the web. Starts the topic's next run in the background, and creates the topic if it doesn't exist. Reports have citations and, starting with the second run, say what changed. The number of runs per hour is limited.",
        TopicArguments,
        _research,
        writes=True,
        for_topics=True,
    ),
    MemoryTool(
        "get_report",
        "Read a report by its run or topic (default: the newest), or check its run's progress.",
        ReportArguments,
        _report,
        for_topics=True,
    ),
)


def register() -> None:
    """Register these tools next to memory's."""
    tools.register(*TOOLS)
