"""The page of one run: live while it goes on, then its report."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST
from django_htmx.http import (
    HttpResponseClientRefresh,
    HttpResponseStopPolling,
    trigger_client_event,
)

from beacon_site.http import BeaconRequest
from memory.models import ModelCall
from research import report_page, run_page, shown, starting
from research.answers import refused
from research.models import Run, RunInTheWay
from research.models.runs import RunQuerySet
from research.starting import NotNow


def _runs(request: BeaconRequest, slug: str) -> RunQuerySet:
    """Return the person's runs of one topic outside the trash."""
    return Run.objects.of(request.user).filter(topic__slug=slug, topic__trashed_at=None)


def _run(request: BeaconRequest, slug: str, run_id: int) -> Run:
    related = ("topic__owner", "topic__settings", "topic__schedule", "report")
    run: Run = get_object_or_404(_runs(request, slug).select_related(*related), pk=run_id)
    return run


@never_cache
@require_GET
@login_required
def run_detail(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Show the run as it goes on, or what it wrote."""
    run = _run(request, slug, run_id)
    if hasattr(run, "report"):
        return render(request, "research/report.html", report_page.context(run))
    return render(request, "research/run.html", run_page.context(run))


@never_cache
@require_GET
@login_required
def run_progress(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Answer the poll: 204 if nothing changed since `seen`, else the live part; 286 at the end.

    Idle it costs one query beside session and user; the heartbeat travels as an event.
    """
    seen = request.GET.get("seen", "")
    wanted = _runs(request, slug).filter(pk=run_id)
    row = wanted.values("progress", "status", "beat_at").first()
    if row is not None and row["status"] in Run.UNFINISHED and seen == str(row["progress"]):
        answer = HttpResponse(status=204)
        at = row["beat_at"].isoformat() if row["beat_at"] else ""
        return trigger_client_event(answer, "beacon:beat", {"at": at})
    run = _run(request, slug, run_id)
    if not run.is_unfinished:
        return _over(request, run)
    return render(request, "research/_run_live.html", run_page.context(run) | {"is_poll": True})


def _over(request: BeaconRequest, run: Run) -> HttpResponse:
    """End the polling (286), and have the page load what the run left."""
    words = _("The run is over: %(how)s.") % {"how": run.get_status_display()}
    page = reverse("research:run", args=[run.topic.slug, run.pk])
    answer = HttpResponseStopPolling(
        format_html('<p id="run-live"><a href="{}">{}</a></p>', page, words)
    )
    answer["HX-Refresh"] = "true"
    return answer


@never_cache
@require_GET
@login_required
def run_trace(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Show what the run asked models and what each step left, as a page or a part of one."""
    run = _run(request, slug, run_id)
    calls = ModelCall.objects.of(request.user).filter(source=run.source)
    steps = list(run.steps.all())
    rows = shown.step_rows(run, steps)
    context = {
        "run": run,
        "topic": run.topic,
        "calls": [(call, shown.price(call.money)) for call in calls.order_by("id")],
        "outputs": [
            (row, _pretty(s.output)) for row, s in zip(rows, steps, strict=False) if s.output
        ],
    }
    template = "research/_trace.html" if request.htmx else "research/trace.html"
    return render(request, template, context)


def _pretty(stored: dict[str, Any]) -> str:
    return json.dumps(stored, ensure_ascii=False, indent=2)


@require_POST
@login_required
def run_cancel(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Cancel the run: nothing is saved."""
    run = _run(request, slug, run_id)
    return _acted(request, run) if run.ask_to_cancel(by=request.actor) else _ended(request, run)


@require_POST
@login_required
def run_stop(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Have the run write its report from what is there."""
    run = _run(request, slug, run_id)
    return _acted(request, run) if run.ask_to_stop(by=request.actor) else _ended(request, run)


@require_POST
@login_required
def run_retry(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Queue a failed or cancelled run again behind its last finished step."""
    run = _run(request, slug, run_id)
    try:
        done = starting.retry_run(run, by=request.actor)
    except RunInTheWay as exc:
        return refused(request, _in_the_way(run, exc))
    except NotNow as exc:
        return refused(request, str(exc))
    if not done:
        why = _("Only a failed or cancelled run can be retried; this one is %(status)s.")
        return refused(request, why % {"status": _status(run)})
    return _acted(request, run)


def _in_the_way(run: Run, exc: RunInTheWay) -> Any:
    if exc.run is None:
        return str(exc)
    page = reverse("research:run", args=[run.topic.slug, exc.run.pk])
    return format_html(
        '{} <a href="{}">{}</a> {}',
        exc,
        page,
        _("Look at that run"),
        _("and wait for its end, or cancel it, before you retry this one."),
    )


def _status(run: Run) -> str:
    run.refresh_from_db(fields=["status"])
    return str(run.get_status_display())


def _ended(request: BeaconRequest, run: Run) -> HttpResponse:
    why = _("This run has ended already (%(status)s), so there is nothing to cancel or stop.")
    return refused(request, why % {"status": _status(run)})


def _acted(request: BeaconRequest, run: Run) -> HttpResponse:
    """Show the run after an act: the live part over htmx while it goes on, else the page."""
    if not request.htmx:
        return redirect("research:run", run.topic.slug, run.pk)
    run = _run(request, run.topic.slug, run.pk)
    if not run.is_unfinished or request.htmx.target != "run-live":
        return HttpResponseClientRefresh()
    return render(request, "research/_run_live.html", run_page.context(run) | {"is_poll": True})
