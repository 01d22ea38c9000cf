"""What the addresses of topics and of runs share: starting one, and giving out its report."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _

from memory.api.auth import ApiRequest, Caller
from memory.api.frame import PREFIX
from memory.api.problems import Problem, not_found
from memory.api.reading import used
from memory.api.shown import shows
from memory.models import Topic
from research.api.run_schemas import ReportOut
from research.models import Report, Run, RunInTheWay
from research.models.reports import ReportQuerySet
from research.running import starting
from research.running.allowance import NotNow
from research.running.rechecking import start_recheck

MARKDOWN_TYPE = "text/markdown"
_TEXT: dict[str, Any] = {"schema": {"type": "string"}}
# What the OpenAPI document says of a report beside its JSON.
MARKDOWN: dict[str, Any] = {"responses": {200: {"content": {MARKDOWN_TYPE: _TEXT}}}}


def start(caller: Caller, topic: Topic, *, depth: str) -> Run:
    """Queue a run for the caller.  Raises Problem: 409 where one is unfinished, 429, 409."""
    trigger = Run.Trigger.PERSON if caller.by.is_person else Run.Trigger.AGENT
    try:
        return starting.start_run(topic, trigger=trigger, by=caller.by, depth=depth)
    except (RunInTheWay, NotNow) as exc:
        raise refusal(exc) from exc


def recheck(caller: Caller, topic: Topic) -> Run:
    """Queue a recheck of the topic's stale facts.  Raises Problem as `start` does."""
    try:
        return start_recheck(topic, by=caller.by)
    except (RunInTheWay, NotNow) as exc:
        raise refusal(exc) from exc


def refusal(exc: RunInTheWay | NotNow) -> Problem:
    """Return the problem for a run that may not start: what to wait for, and how long."""
    if isinstance(exc, NotNow):
        if not exc.retry_after:
            return Problem(409, str(exc))
        return Problem(429, str(exc), headers={"Retry-After": str(exc.retry_after)})
    if exc.run is None:
        return Problem(409, str(exc))
    words = _("%(what)s Look at it at the address in Location; wait for its end, or cancel it.")
    where = {"Location": f"{PREFIX}/runs/{exc.run.pk}"}
    return Problem(409, words % {"what": exc}, headers=where, run=exc.run.pk)


def reports_of(caller: Caller) -> ReportQuerySet:
    """Return the owner's reports outside the trash, with what telling them needs."""
    rows = Report.objects.of(caller.owner).live().filter(run__topic__trashed_at=None)
    return rows.select_related("run__topic").prefetch_related("run__delta_items")


def report_answer(request: ApiRequest, report: Report) -> Any:
    """Return the report as the caller would have it.  Raises Problem (404) if not for them."""
    caller = request.auth
    if not caller.may_read(report):
        raise not_found(_("This report is shown to people only."))
    used(caller, report)
    shows(report)
    if request.get_preferred_type(["application/json", MARKDOWN_TYPE]) != MARKDOWN_TYPE:
        return ReportOut.of(report)
    text = f"{MARKDOWN_TYPE}; charset=utf-8"
    return HttpResponse(report.as_markdown(), content_type=text, headers={"Vary": "Accept"})
