"""A topic's tabs (report, timeline, sources, runs, memory), and its actions."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.core.errors import InvalidValue, MemoryRefused
from memory.models import Topic
from memory.topics import memory as topic_memory
from memory.topics.memory import agent_memory
from memory.web.responses import redirect_back, redirect_to, refused
from memory.web.undo import offer, offer_revision, undoes
from research.execution.starting import NotNow, loaded_at, start_run
from research.models import Report, Run, RunAlreadyActive
from research.pages.responses import not_now
from research.reports import page as report_page
from research.reports import since_read
from research.topic_settings import editing as topic_editing
from research.topics import acts
from research.topics import page as topic_page


def _topic(request: BeaconRequest, slug: str) -> Any:
    return get_object_or_404(topic_page.topics_of(request.user), slug=slug)


def _show(request: BeaconRequest, tab: str, topic: Any, /, **more: Any) -> HttpResponse:
    """Show a tab. Over htmx (filters, further pages) only its list."""
    context = {**more, "topic": topic, "tab": tab, "head": topic_page.head_of(topic)}
    template = f"_topic_{tab}" if request.htmx else f"topic_{tab}"
    return render(request, f"research/{template}.html", context)


@require_safe
@login_required
@vary_on_headers("HX-Request")
def topic(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show the current run, and the latest report in full."""
    found = _topic(request, slug)
    report = topic_page.latest_report(found)
    if report is None:
        return _show(request, "report", found)
    since = since_read.of(found) if found.unread_count > 1 else None
    shown = report_page.article(report.run, since_read.items_of(since, report.run))
    if since is not None:
        shown |= since_read.beside(since, shown)
    else:
        shown["last_changes"] = topic_page.last_changes(found)
    return _show(request, "report", found, **shown)


@require_safe
@login_required
@vary_on_headers("HX-Request")
def topic_runs(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show all runs, including failed and cancelled ones."""
    found = _topic(request, slug)
    page = topic_page.runs_of(found, cursor=request.GET.get("cursor", ""))
    removed = Report.objects.filter(run__topic=found).in_trash().count()
    more = {"next_cursor": page.next_cursor, "removed": removed}
    return _show(request, "runs", found, rows=page.rows, **more)


# --- memory ---


@require_safe
@login_required
def topic_memory_page(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show the memory as seed 000's JSON, and what upcoming prompts would include."""
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
    """Download the memory as seed 000's JSON (R237)."""
    found = _topic(request, slug)
    dumps = {"indent": 2, "ensure_ascii": False}
    response = JsonResponse(agent_memory(found), json_dumps_params=dumps)
    response["Content-Disposition"] = f'attachment; filename="{found.slug}-memory.json"'
    return response


# --- actions on a topic ---


def _topic_to_change(request: BeaconRequest, slug: str) -> Topic:
    mine = Topic.objects.of(request.user).live().select_related("owner")
    topic: Topic = get_object_or_404(mine, slug=slug)
    return topic


def _page_of(topic: Topic) -> str:
    return reverse("research:topic", args=[topic.slug])


@login_required
@require_POST
def topic_run(request: BeaconRequest, slug: str) -> HttpResponse:
    """Start a run and show it, or show the current one.

    `depth` applies only to this run. Without it, the topic's depth applies.
    """
    topic = _topic_to_change(request, slug)
    depth = request.POST.get("depth", "")
    try:
        run: Run | None = start_run(
            topic,
            trigger=Run.Trigger.PERSON,
            by=request.actor,
            depth=depth,
            loaded=loaded_at(request.POST),
        )
    except RunAlreadyActive as exc:
        messages.info(request, _("%(what)s You’re looking at it.") % {"what": exc})
        run = exc.run
    except InvalidValue as exc:
        return refused(request, str(exc))
    except NotNow as exc:
        return not_now(request, exc)
    if run is None:  # it ended during the request
        return redirect_to(request, _page_of(topic))
    return redirect_to(request, reverse("research:run", args=[topic.slug, run.pk]))


@login_required
@require_POST
def topic_act(request: BeaconRequest, slug: str, act: str) -> HttpResponse:
    """Carry out one of `acts.ACTS` on the topic."""
    topic = _topic_to_change(request, slug)
    try:
        more = acts.ACTS[act].do(topic, request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    if more is None:
        messages.info(request, str(acts.ACTS[act].unchanged))
    else:
        _say_done(request, act, topic, more)
    return redirect_back(
        request, reverse("research:topics") if act == "archive" else _page_of(topic)
    )


def _say_done(request: BeaconRequest, act: str, topic: Topic, more: str) -> None:
    words = f"{acts.ACTS[act].said % {'topic': topic}} {more}".rstrip()
    undo = offer(request, "topics", act=act, topics=[topic.pk])
    messages.success(request, words, extra_tags=undo)


@undoes("topics")
def _undo_topics(request: BeaconRequest, act: str, topics: list[str]) -> str:
    """Undo an action on topics by its inverse. Topics that have changed since stay as they are."""
    inverse = acts.ACTS[act].inverse
    found = list(
        Topic.objects.of(request.user).live().filter(pk__in=topics).select_related("owner")
    )
    outcome = acts.act_on(found, inverse, by=request.actor)
    if not outcome.done:
        why = " ".join(outcome.reasons) or acts.ACTS[inverse].unchanged
        raise InvalidValue(_("%(why)s Nothing was changed.") % {"why": why})
    if len(topics) == 1:
        _say_done(request, inverse, found[0], outcome.more[0])
        return _page_of(found[0])
    undo = offer(request, "topics", act=inverse, topics=outcome.done)
    words = acts.in_words(inverse, outcome, len(topics))
    messages.success(request, words, extra_tags=undo)
    return reverse("research:topics")


@login_required
@require_POST
def topic_trash(request: BeaconRequest, slug: str) -> HttpResponse:
    """Move the topic to Trash. A run in progress is cancelled, and the message says so."""
    topic = _topic_to_change(request, slug)
    try:
        cancelled = topic_editing.trash_topic(topic, by=request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    words = _("“%(topic)s” moved to Trash. You can restore it for 30 days.") % {"topic": topic}
    if cancelled:
        words += " " + _("Its run was cancelled. You can retry it after you restore the topic.")
    messages.success(request, words, extra_tags=offer_revision(request, topic))
    return redirect_to(request, reverse("research:topics"))


@login_required
@require_http_methods(["GET", "POST"])
def topic_duplicate(request: BeaconRequest, slug: str) -> HttpResponse:
    """Open the form for a new topic, filled with this one's settings and schedule."""
    topic = _topic_to_change(request, slug)
    return redirect_to(request, f"{reverse('research:topic-new')}?from={topic.slug}")
