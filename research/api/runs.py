"""`/runs`: progress, reports and actions. Topics also start runs and return reports here."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _
from ninja import Status

from memory.api.auth import READ, WRITE, ApiRequest, Caller
from memory.api.frame import PREFIX, located, router
from memory.api.problems import Problem, not_found
from memory.api.shown import shows, used
from memory.models import Topic, Trust
from research.api.schemas import ReportOut, RetryIn, RunWithSteps
from research.models import Report, Run
from research.models.reports import ReportQuerySet
from research.models.runs import StepNotFinished
from research.services.runs.execution import starting
from research.services.runs.execution.starting import RunNotAllowed, start_recheck

MARKDOWN_TYPE = "text/markdown"
_TEXT: dict[str, Any] = {"schema": {"type": "string"}}
# The OpenAPI description of a report, in addition to its JSON.
MARKDOWN: dict[str, Any] = {"responses": {200: {"content": {MARKDOWN_TYPE: _TEXT}}}}


def start(caller: Caller, topic: Topic, *, depth: str) -> Run:
    """Queue a run for the caller. Raises RunAlreadyActive and RunNotAllowed."""
    trigger = Run.Trigger.PERSON if caller.by.is_person else Run.Trigger.AGENT
    return starting.start_run(
        topic,
        trigger=trigger,
        by=caller.by,
        depth=depth,
        may_search_library=not caller.token.topic_ids,
    )


def recheck(caller: Caller, topic: Topic) -> Run:
    """Queue a recheck of the topic's stale facts. Raises as `start` does."""
    return start_recheck(topic, by=caller.by, may_search_library=not caller.token.topic_ids)


def refusal(exc: Any) -> Problem:
    """Return the problem for RunAlreadyActive and RunNotAllowed, with the reason and how long to wait."""
    if isinstance(exc, RunNotAllowed):
        if not exc.retry_after:
            return Problem(409, str(exc))
        return Problem(429, str(exc), headers={"Retry-After": str(exc.retry_after)})
    if exc.run is None:
        return Problem(409, str(exc))
    words = _(
        "%(what)s The run’s URL is in the Location header. Wait for the run to end, or cancel it."
    )
    where = {"Location": f"{PREFIX}/runs/{exc.run.pk}"}
    return Problem(409, words % {"what": exc}, headers=where, run=exc.run.pk)


def reports_of(caller: Caller) -> ReportQuerySet:
    """Return the owner's reports that aren't in Trash, with the related rows their text needs."""
    rows = Report.objects.for_user(caller.owner).live().filter(run__topic__trashed_at=None)
    return rows.select_related("run__topic").prefetch_related("run__delta_items")


def report_answer(request: ApiRequest, report: Report) -> Any:
    """Return the report in the requested format. Raises Problem (404) if the caller can't see it."""
    caller = request.auth
    if not caller.may_read(report):
        raise not_found(_("Only people can see this report."))
    used(caller, report)
    shows(report)
    if request.get_preferred_type(["application/json", MARKDOWN_TYPE]) != MARKDOWN_TYPE:
        return ReportOut.of(report)
    text = f"{MARKDOWN_TYPE}; charset=utf-8"
    return HttpResponse(report.as_markdown(), content_type=text, headers={"Vary": "Accept"})


# --- `/runs` ---

api = router("runs")
_ONE = "/{int:run_id}"


@api.get(_ONE, auth=READ, response=RunWithSteps)
def read_run(request: ApiRequest, run_id: int) -> RunWithSteps:
    """Read a run's progress: its state, steps and counts. `number` is set once the run is saved."""
    return RunWithSteps.whole(_run(request.auth, run_id))


@api.get(_ONE + "/report", auth=READ, response=ReportOut, openapi_extra=MARKDOWN)
def read_run_report(request: ApiRequest, run_id: int) -> Any:
    """Read a run's report as JSON or Markdown, depending on the Accept header.

    The 404 response contains the run's state.
    """
    run = _run(request.auth, run_id)
    report = reports_of(request.auth).filter(run=run).first()
    if report is None:
        raise not_found(f"run is {run.status}")
    return report_answer(request, report)


@api.post(_ONE + "/cancel", auth=WRITE, response=RunWithSteps)
def cancel_run(request: ApiRequest, run_id: int) -> RunWithSteps:
    """Cancel a run without saving anything. Returns 409 if it has ended."""
    run = _own_run(request.auth, run_id)
    if not run.request_cancel(by=request.auth.by):
        raise _over(run)
    return _anew(request.auth, run)


@api.post(_ONE + "/stop", auth=WRITE, response=RunWithSteps)
def stop_run(request: ApiRequest, run_id: int) -> RunWithSteps:
    """Stop a run and write its report from what it has found so far.

    Returns 409 if it has ended or hasn't started.
    """
    run = _own_run(request.auth, run_id)
    if run.request_stop(by=request.auth.by):
        return _anew(request.auth, run)
    if Run.objects.waiting_for_a_person().filter(pk=run.pk).exists():
        words = _(
            "Nothing has been searched yet, so there’s nothing to report. Cancel the run instead."
        )
        raise Problem(409, words)
    raise _over(run)


@api.post(_ONE + "/retry", auth=WRITE, response={202: RunWithSteps})
def retry_run(
    request: ApiRequest, response: HttpResponse, run_id: int, retry: RetryIn | None = None
) -> Status[RunWithSteps]:
    """Queue a failed or cancelled run again, with the same ID.

    Returns 409 if the run hasn't failed or been cancelled.
    """
    caller, run = request.auth, _own_run(request.auth, run_id)
    try:
        done = starting.retry_run(
            run,
            by=caller.by,
            step=(retry.step if retry else "") or "",
            may_search_library=not caller.token.topic_ids,
        )
    except StepNotFinished as exc:
        raise Problem(422, str(exc), errors={"step": [str(exc)]}) from exc
    if not done:
        words = _("Only a failed or cancelled run can be retried. This one is %(status)s.")
        raise Problem(409, words % {"status": run.status_now()})
    located(response, f"/runs/{run.pk}")
    return Status(202, _anew(caller, run))


def _run(caller: Caller, run_id: int) -> Run:
    rows = Run.objects.for_user(caller.owner).kept().filter(topic__trashed_at=None)
    if not caller.by.is_person:
        hidden = {"topic__sensitivity": "sensitive"}, {"topic__trust": Trust.QUARANTINED}
        rows = rows.exclude(**hidden[0]).exclude(**hidden[1])
    run: Run | None = rows.select_related("topic__owner").filter(pk=run_id).first()
    if run is None:
        raise not_found(_("This run doesn’t exist, or it isn’t yours."))
    return run


def _own_run(caller: Caller, run_id: int) -> Run:
    """Return a run that the caller can change.

    Raises Locked (403) for an agent that didn't start it.
    """
    run = _run(caller, run_id)
    starting.check_own_run(run, caller.by)
    return run


def _anew(caller: Caller, run: Run) -> RunWithSteps:
    """Return the run after an action."""
    return RunWithSteps.whole(_run(caller, run.pk))


def _over(run: Run) -> Problem:
    words = _("This run has already ended (%(status)s), so it can’t be cancelled or stopped.")
    return Problem(409, words % {"status": run.status_now()})
