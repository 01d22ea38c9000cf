"""Pages of one run: its estimate, progress, plan and trace, and deleting it."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import (
    HttpResponseClientRefresh,
    HttpResponseStopPolling,
    trigger_client_event,
)

from beacon_site.text.cleaning import clean, one_line
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import redirect_to, refused, signed_in
from memory.models import ModelCall
from memory.pages.shared.undo import toast_with_undo
from memory.services.llm.spending import format_money
from research.models import Run, RunAlreadyActive
from research.models.runs import RunQuerySet, StepNotFinished
from research.pages import topic_list
from research.services.reports import page as report_page
from research.services.runs import page as run_page
from research.services.runs import presenters, trash
from research.services.runs.execution import starting
from research.services.runs.page import PlanForm
from research.services.runs.steps import planning
from research.services.runs.steps.planning import PlanNotWaiting
from research.services.topics import sharing


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
def topic_forecast(request: BeaconRequest, slug: str) -> HttpResponse:
    """Send the estimate for a run, and what the topic can still spend this month.

    Without htmx, the page with the next run's context shows it.
    """
    topic = topic_list.topic_or_404(request, slug)
    if not request.htmx:
        return redirect(f"{reverse('research:topic-memory', args=[slug])}?estimate=1#forecast")
    shown = {"topic": topic, **topic_list.estimate_of(topic)}
    return render(request, "research/_topic_cost.html", shown)


# --- delete a run ---

MAX_WHY_LENGTH = 200


@signed_in("GET", "POST")
def run_to_trash(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Show what would be deleted with a saved run. POST moves it to Trash."""
    mine = Run.objects.in_topic(request.user, slug)
    run: Run = get_object_or_404(mine.select_related("topic__owner", "report"), pk=run_id)
    if not hasattr(run, "report"):
        return _without_report(request, run)
    if request.method == "POST":
        why = one_line(clean(request.POST.get("why", ""))[0])[:MAX_WHY_LENGTH]
        trash.trash_run(run.report, by=request.actor, why=why)
        words = _("%(run)s moved to Trash. You can restore it for 30 days.") % {"run": run}
        toast_with_undo(request, run.report, words)
        return redirect_to(request, reverse("research:topic-runs", args=[slug]))
    context = {
        "run": run,
        "topic": run.topic,
        "goes": trash.deletion_summary(run.report),
        "not_now": trash.why_not_now(run),
    }
    return render(request, "research/run_trash.html", context)


def _without_report(request: BeaconRequest, run: Run) -> HttpResponse:
    """Move a failed or cancelled run to Trash.

    Nothing else is affected, so no confirmation is needed.
    """
    if run.status not in trash.ENDED:
        raise Http404
    if request.method != "POST":
        return render(request, "research/run_trash_failed.html", {"run": run, "topic": run.topic})
    removed = trash.remove(run, by=request.actor)
    words = _("Run moved to Trash. You can restore it for 30 days.")
    toast_with_undo(request, removed, words)
    return redirect_to(request, reverse("research:topic-runs", args=[run.topic.slug]))


# --- progress and report ---


def _runs(request: BeaconRequest, slug: str, *, removed_too: bool = False) -> RunQuerySet:
    """Return the person's runs of one topic outside Trash."""
    if removed_too:
        return Run.objects.for_user(request.user).filter(topic__slug=slug, topic__trashed_at=None)
    return Run.objects.in_topic(request.user, slug)


def _run(request: BeaconRequest, slug: str, run_id: int, *, in_full: bool = False) -> Run:
    """Return the person's run. `in_full` includes a removed one, and adds its neighbors."""
    related = (
        "topic__owner",
        "topic__settings",
        "topic__schedule",
        "report",
        "removed",
        "rerun_of",
    )
    runs = _runs(request, slug, removed_too=in_full).select_related(*related)
    run: Run = get_object_or_404(report_page.with_neighbours(runs) if in_full else runs, pk=run_id)
    return run


@never_cache
@signed_in("GET")
def run_detail(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Show the run's progress, or its report once it is finished."""
    run = _run(request, slug, run_id, in_full=True)
    if trash.is_removed(run):
        return render(request, "research/run_trashed.html", trash.page_of_removed(run))
    topic_list.add_figures(run.topic)
    if hasattr(run, "report"):
        limits = {"limits": starting.describe_limits(run.topic.owner)}
        in_full = request.GET.get("hits") == "all"
        found = report_page.context(run, in_full=in_full)
        found |= sharing.discussion_of(run.report, run.topic, request.user)
        return render(request, "research/report.html", found | limits)
    return render(request, "research/run.html", run_page.context(run))


@never_cache
@signed_in("GET")
def run_progress(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Answer a poll: 204 if nothing changed since `seen`, the live part, or 286 at the end.

    An idle poll costs one query besides session and user. The heartbeat is sent as an event.
    """
    seen = request.GET.get("seen", "")
    wanted = _runs(request, slug).filter(pk=run_id)
    row = wanted.values("progress", "status", "heartbeat_at").first()
    has_plan = request.GET.get("plan", "")
    if row is not None and row["status"] in Run.UNFINISHED and seen == str(row["progress"]):
        answer = HttpResponse(status=204)
        at = row["heartbeat_at"].isoformat() if row["heartbeat_at"] else ""
        return trigger_client_event(answer, "beacon:beat", {"at": at})
    run = _run(request, slug, run_id)
    if not run.is_unfinished:
        return _over(request, run)
    context = run_page.context(run) | {"is_poll": True}
    if has_plan and has_plan != run_page.plan_token_of(run):
        # The form of a plan that was already reviewed stays, with any text typed in it.
        context |= {"plan_token": has_plan, "plan_gone": planning.plan_outcome(run)}
    elif run.waiting_since and not has_plan:
        context["shows_plan"] = True
    return render(request, "research/_run_live.html", context)


def _over(request: BeaconRequest, run: Run) -> HttpResponse:
    """End the polling (286) and load the result.

    A page with a plan's form isn't reloaded automatically, because it may contain typed text.
    """
    words = _("The run has ended: %(how)s.") % {"how": run.get_status_display()}
    page = reverse("research:run", args=[run.topic.slug, run.pk])
    over = format_html('<p id="run-live"><a href="{}">{}</a></p>', page, words)
    if request.GET.get("plan"):
        gone = {"plan_gone": planning.plan_outcome(run), "run": run, "is_poll": True}
        parts = ("research/_run_heading.html", "research/_plan_gone.html")
        rest = format_html_join("", "{}", ((render_to_string(part, gone),) for part in parts))
        return HttpResponseStopPolling(over + rest)
    answer = HttpResponseStopPolling(over)
    answer["HX-Refresh"] = "true"
    return answer


@never_cache
@signed_in("GET")
def run_trace(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Show the run's model calls and each step's output, as a page or a part of one."""
    run = _run(request, slug, run_id)
    calls = ModelCall.objects.for_user(request.user).filter(source=run.source)
    steps = list(run.steps.all())
    rows = presenters.step_rows(run, steps)
    topic = run.topic if request.htmx else topic_list.topic_or_404(request, slug)
    context: dict[str, Any] = {
        "run": run,
        "topic": topic,
        "calls": [(call, format_money(call.money)) for call in calls.order_by("id")],
        "outputs": [
            (row, _pretty(s.output)) for row, s in zip(rows, steps, strict=False) if s.output
        ],
    }
    if request.htmx:
        return render(request, "research/_trace.html", context)
    context |= {"tab": "runs", "head": topic_list.head_of(topic), "is_page": True}
    return render(request, "research/trace.html", context)


def _pretty(stored: dict[str, Any]) -> str:
    return json.dumps(stored, ensure_ascii=False, indent=2)


@signed_in("POST")
def run_cancel(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Cancel the run without saving anything."""
    run = _run(request, slug, run_id)
    return _acted(request, run) if run.request_cancel(by=request.actor) else _ended(request, run)


@signed_in("POST")
def run_stop(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Have the run write its report from what it has found."""
    run = _run(request, slug, run_id)
    if run.request_stop(by=request.actor):
        return _acted(request, run)
    if Run.objects.waiting_for_a_person().filter(pk=run.pk).exists():
        why = _(
            "Nothing has been searched yet, so there’s nothing to report. Cancel the run instead."
        )
        return refused(request, why)
    return _ended(request, run)


@signed_in("POST")
def run_try(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Let a postponed run continue now."""
    run = _run(request, slug, run_id)
    if not starting.try_now(run, by=request.actor):
        why = _("This run isn’t waiting to be retried. It’s %(status)s.")
        return refused(request, why % {"status": run.status_now()})
    return _acted(request, run)


@signed_in("POST")
def run_retry(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Queue a failed or cancelled run again: from a `step`, or after its last finished one."""
    run = _run(request, slug, run_id)
    try:
        done = starting.retry_run(
            run, by=request.actor, step=clean(request.POST.get("step", ""))[0]
        )
    except RunAlreadyActive as exc:
        return refused(request, _in_the_way(run, exc))
    except StepNotFinished as exc:
        return refused(request, str(exc))
    if not done:
        why = _("Only a failed or cancelled run can be retried. This one is %(status)s.")
        return refused(request, why % {"status": run.status_now()})
    return _acted(request, run)


@signed_in("POST")
def run_rerun(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Start a run with this one's settings and queries, and show it."""
    run = _run(request, slug, run_id)
    try:
        again = starting.rerun(run, by=request.actor, loaded=starting.loaded_at(request.POST))
    except RunAlreadyActive as exc:
        if exc.is_over and exc.run is not None:
            messages.info(request, str(exc))
            return redirect_to(request, reverse("research:run", args=[run.topic.slug, exc.run.pk]))
        return refused(request, _in_the_way(run, exc))
    return redirect_to(request, reverse("research:run", args=[run.topic.slug, again.pk]))


# --- plan review ---


@never_cache
@signed_in("POST")
def run_plan(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Continue a run with the queries as the person edited them."""
    run, form = _run(request, slug, run_id), PlanForm(request.POST)
    seen = form.seen_at()
    if not form.is_valid() and run.waiting_since is not None and run.waiting_since == seen:
        return _plan(request, run, form)
    try:
        if seen is None or not form.is_valid():
            raise PlanNotWaiting(_of_no_plan(run, seen))
        planning.accept(run, form.cleaned_data["queries"], seen=seen, by=request.actor)
    except PlanNotWaiting as exc:
        return _plan_gone(request, run, str(exc))
    return _went_on(request, run)


@signed_in("POST")
def run_replan(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Have a waiting run create a new plan."""
    run, seen = _run(request, slug, run_id), PlanForm(request.POST).seen_at()
    try:
        if seen is None:
            raise PlanNotWaiting(_of_no_plan(run, seen))
        planning.replan(run, seen=seen, by=request.actor)
    except PlanNotWaiting as exc:
        return _plan_gone(request, run, str(exc))
    return _went_on(request, run)


def _of_no_plan(run: Run, seen: datetime | None) -> str:
    if seen is None and run.waiting_since is not None:
        return _("This form doesn’t specify a plan. Reload the page.")
    return planning.plan_outcome(run)


def _went_on(request: BeaconRequest, run: Run) -> HttpResponse:
    if request.htmx:
        return HttpResponseClientRefresh()
    return redirect("research:run", run.topic.slug, run.pk)


def _plan(request: BeaconRequest, run: Run, form: PlanForm) -> HttpResponse:
    """Show the plan again with its errors."""
    template = "research/_plan_review.html" if request.htmx else "research/run.html"
    return render(request, template, run_page.context(run, plan_form=form))


def _plan_gone(request: BeaconRequest, run: Run, why: str) -> HttpResponse:
    """Explain what happened to the plan, next to the queries that were typed for it (409)."""
    run = _run(request, run.topic.slug, run.pk)
    context = {"run": run, "topic": run.topic, "gone": why}
    context |= {"typed": run_page.words_of(run, request.POST.get("queries", ""))}
    if run.waiting_since is not None:
        context |= run_page.plan_context(run)
    template = "research/_plan_review.html" if request.htmx else "research/plan_gone.html"
    return render(request, template, context, status=409)


def _in_the_way(run: Run, exc: RunAlreadyActive) -> Any:
    if exc.run is None:
        return str(exc)
    page = reverse("research:run", args=[run.topic.slug, exc.run.pk])
    return format_html(
        '{} {} <a href="{}">{}</a>',
        exc,
        _("Wait until it ends, or cancel it before you start this one."),
        page,
        _("Open that run"),
    )


def _ended(request: BeaconRequest, run: Run) -> HttpResponse:
    why = _("This run has already ended (%(status)s), so it can’t be cancelled or stopped.")
    return refused(request, why % {"status": run.status_now()})


def _acted(request: BeaconRequest, run: Run) -> HttpResponse:
    """Show the run after an action: its live part over htmx while it runs, otherwise the page."""
    if not request.htmx:
        return redirect("research:run", run.topic.slug, run.pk)
    run = _run(request, run.topic.slug, run.pk)
    if not run.is_unfinished or request.htmx.target != "run-live":
        return HttpResponseClientRefresh()
    return render(request, "research/_run_live.html", run_page.context(run) | {"is_poll": True})
