"""A topic's pages: report, timeline, sources, runs and memory."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.responses import go_back
from memory.topics import memory as topic_memory
from memory.topics.agent_memory import agent_memory
from research.models import Report
from research.reports import page as report_page
from research.reports import timeline_chart
from research.runs.presenters import memory_words
from research.topics import memory_acts
from research.topics import page as topic_page
from research.unread import since_page


def _topic(request: BeaconRequest, slug: str) -> Any:
    return get_object_or_404(topic_page.topics_of(request.user), slug=slug)


def _show(request: BeaconRequest, tab: str, topic: Any, /, **more: Any) -> HttpResponse:
    """Show a tab; over htmx (filters, further pages) its list alone."""
    context = {**more, "topic": topic, "tab": tab, "head": topic_page.head_of(topic)}
    template = f"_topic_{tab}" if request.htmx else f"topic_{tab}"
    return render(request, f"research/{template}.html", context)


@require_safe
@login_required
@vary_on_headers("HX-Request")
def topic(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show the latest report in full, and the run that is going on above it."""
    found = _topic(request, slug)
    report = topic_page.latest_report(found)
    if report is None:
        return _show(request, "report", found)
    since = since_page.of(found) if found.unread_count > 1 else None
    shown = report_page.article(report.run, since_page.items_of(since, report.run))
    if since is not None:
        shown |= since_page.beside(since, shown)
    else:
        shown["last_changes"] = topic_page.last_changes(found)
    return _show(request, "report", found, **shown)


@require_safe
@login_required
@vary_on_headers("HX-Request")
def topic_timeline(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show the facts over the runs, and those that were: retired by runs, or struck (R20)."""
    found = _topic(request, slug)
    runs = timeline_chart.runs_of(found)
    by_number = {run.number: run.pk for run in runs}
    page = topic_page.timeline_of(found, by_number, cursor=request.GET.get("cursor", ""))
    shown: dict[str, Any] = {"rows": page.rows, "next_cursor": page.next_cursor}
    if not request.htmx:
        shown["chart"] = timeline_chart.chart_of(found, runs, request.GET.get("until", ""))
    return _show(request, "timeline", found, **shown)


@require_safe
@login_required
@vary_on_headers("HX-Request")
def topic_runs(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show all runs, also those that failed or were cancelled."""
    found = _topic(request, slug)
    page = topic_page.runs_of(found, cursor=request.GET.get("cursor", ""))
    removed = Report.objects.filter(run__topic=found).in_trash().count()
    more = {"next_cursor": page.next_cursor, "removed": removed}
    return _show(request, "runs", found, rows=page.rows, **more)


# --- memory ------------------------------------------------------------------------------------------


@require_safe
@login_required
def topic_memory_page(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show the memory as seed 000's JSON, and what of it would enter the next prompts."""
    found = _topic(request, slug)
    loaded, memory = topic_memory.load(found), agent_memory(found)
    return _show(
        request,
        "memory",
        found,
        memory_json=_as_text(memory),
        prompt=loaded.memory.as_prompt() if loaded.memory else "",
        problem=loaded.problem,
        seen_count=len(memory["seenUrls"]),
    )


def _as_text(memory: dict[str, Any]) -> str:
    return json.dumps(memory, indent=2, ensure_ascii=False)


@require_safe
@login_required
def topic_memory_json(request: BeaconRequest, slug: str) -> HttpResponse:
    """Hand out the memory as seed 000's JSON (R237)."""
    found = _topic(request, slug)
    dumps = {"indent": 2, "ensure_ascii": False}
    response = JsonResponse(agent_memory(found), json_dumps_params=dumps)
    response["Content-Disposition"] = f'attachment; filename="{found.slug}-memory.json"'
    return response


@require_POST
@login_required
def topic_end_memory(request: BeaconRequest, slug: str) -> HttpResponse:
    """Let the working memory lapse now; the next run is a baseline."""
    found = _topic(request, slug)
    if memory_acts.end_memory(found, by=request.actor):
        undo = "undo:" + reverse("research:topic-revive", args=[slug])
        words = _("The memory is ended: kept, but not loaded. The next run is a baseline.")
        messages.success(request, words, extra_tags=undo)
    else:
        messages.info(request, _("There is no live memory to end."))
    return go_back(request, reverse("research:topic-memory", args=[slug]))


@require_POST
@login_required
def topic_revive(request: BeaconRequest, slug: str) -> HttpResponse:
    """Bring lapsed memory back; the next run continues from it."""
    found = _topic(request, slug)
    if memory_acts.revive_memory(found, by=request.actor):
        undo = "undo:" + reverse("research:topic-end-memory", args=[slug])
        words = _("The memory is alive again; it %(expires)s.")
        words %= {"expires": memory_words(found)}
        messages.success(request, words, extra_tags=undo)
    else:
        messages.info(request, _("This topic's memory has not lapsed."))
    return go_back(request, reverse("research:topic-memory", args=[slug]))
