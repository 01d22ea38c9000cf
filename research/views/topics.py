"""The list of topics, what is done to many of them at once, and the sample topic."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from beacon_site.providers import sample
from memory.errors import MemoryRefused
from memory.models import Topic
from memory.responses import go_back, go_to, refused
from research.models import Report, Run, RunInTheWay
from research.responses import not_now, said_read
from research.running.allowance import NotNow, limits_in_words
from research.running.starting import create_sample_topic, loaded_at, start_run
from research.topics import bulk_acts
from research.topics import list as topic_list
from research.unread import reading_marks

_UNDO = "undo_topics"  # in the session: what the last bulk act did, and to which topics


@login_required
@require_GET
@vary_on_headers("HX-Request")
def topics(request: BeaconRequest) -> HttpResponse:
    """Show the person's topics; over htmx the table alone."""
    wanted = topic_list.Wanted.of(request.GET)
    page = topic_list.page_wanted(request.user, wanted, cursor=request.GET.get("cursor", ""))
    context: dict[str, Any] = {
        "wanted": wanted,
        "rows": page.rows,
        "next_cursor": page.next_cursor,
        "total": topic_list.topics_wanted(request.user, wanted).count(),
        "labels": topic_list.labels_of(request.user),
        "filters": _without_cursor(request),
        "sample_title": sample.SAMPLE_TOPIC.title,
    }
    if request.htmx:
        return render(request, "research/_topics.html", context)
    context["limits"] = limits_in_words(request.user)
    return render(request, "research/topics.html", context)


def _without_cursor(request: BeaconRequest) -> str:
    query = request.GET.copy()
    query.pop("cursor", None)
    return query.urlencode()


@login_required
@require_POST
def topics_bulk(request: BeaconRequest) -> HttpResponse:
    """Do one act on the ticked topics, or on all that match; the list keeps its filters."""
    back = reverse("research:topics") + (f"?{request.GET.urlencode()}" if request.GET else "")
    act = request.POST.get("act", "")
    chosen = _chosen(request)
    if act == "read" and chosen:
        found: Any = Report.objects.of(request.user).live()
        rows = found.filter(run__topic__in=chosen).exclude(run__number=None)
        said_read(request, *reading_marks.mark_read(rows))
        return go_back(request, back)
    if act not in bulk_acts.ACTS or not chosen:
        messages.warning(request, _("Nothing was done: tick the topics it is meant for first."))
        return go_back(request, back)
    outcome = bulk_acts.act_on(chosen, act, by=request.actor)
    undo = bulk_acts.UNDOES.get(act, "")
    tags = ""
    if undo and outcome.done:
        request.session[_UNDO] = {"act": undo, "ids": [str(key) for key in outcome.done]}
        tags = "undo:" + reverse("research:topics-undo")
    level = messages.SUCCESS if outcome.done else messages.WARNING
    words = bulk_acts.in_words(act, outcome, len(chosen))
    messages.add_message(request, level, words, extra_tags=tags)
    return go_back(request, back)


def _chosen(request: BeaconRequest) -> list[Topic]:
    """Return the topics that were ticked, or all that the address's filters match."""
    if request.POST.get("all"):
        wanted = topic_list.Wanted.of(request.GET)
        found = topic_list.topics_wanted(request.user, wanted)
    else:
        slugs = [slug.replace("\x00", "") for slug in request.POST.getlist("topic")]
        found = Topic.objects.of(request.user).live().filter(slug__in=slugs)
    return list(found.select_related("owner").order_by("title"))


@login_required
@require_POST
def topics_undo(request: BeaconRequest) -> HttpResponse:
    """Take the last act on many topics back."""
    last = request.session.pop(_UNDO, None)
    if last is None:
        messages.info(request, _("There is nothing left to take back."))
        return go_back(request, reverse("research:topics"))
    mine = Topic.objects.of(request.user).live().filter(pk__in=last["ids"])
    found = list(mine.select_related("owner"))
    outcome = bulk_acts.act_on(found, last["act"], by=request.actor)
    messages.success(request, bulk_acts.in_words(last["act"], outcome, len(found)))
    return go_back(request, reverse("research:topics"))


@login_required
@require_POST
def topics_sample(request: BeaconRequest) -> HttpResponse:
    """Make the sample topic, or find it, and start its next run."""
    try:
        topic = create_sample_topic(request.user, by=request.actor)
        loaded = loaded_at(request.POST)
        run: Run | None = start_run(
            topic, trigger=Run.Trigger.PERSON, by=request.actor, loaded=loaded
        )
    except RunInTheWay as exc:
        messages.info(request, str(exc))
        run = exc.run
    except NotNow as exc:
        return not_now(request, exc)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    if run is None:
        return go_to(request, reverse("research:topic", args=[topic.slug]))
    return go_to(request, reverse("research:run", args=[topic.slug, run.pk]))
