"""The trash of topics: back, or gone for good by typed name."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from beacon_site.http import BeaconRequest
from memory.errors import InvalidValue
from memory.models import Topic
from memory.responses import go_to
from memory.trash import traces
from research.topics import memory_acts
from research.topics.list import with_figures


@require_safe
@login_required
def topics_trash(request: BeaconRequest) -> HttpResponse:
    """Lead to the topics in the one trash."""
    return redirect(_trash())


def _trash() -> str:
    return f"{reverse('memory:trash')}?type=topic"


@require_http_methods(["GET", "POST"])
@login_required
def topic_purge(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Delete a trashed topic for good, if its name is typed (R232)."""
    mine = Topic.objects.of(request.user).in_trash().select_related("owner")
    topic = get_object_or_404(with_figures(mine), pk=pk)
    typed, problem = request.POST.get("name", ""), ""
    if request.method == "POST":
        try:
            memory_acts.purge_topic(topic, typed=typed, by=request.actor)
        except InvalidValue as exc:
            problem = str(exc)
        else:
            words = _("Deleted permanently: “%(topic)s” with its runs and reports.")
            messages.success(request, words % {"topic": topic})
            return go_to(request, _trash())
    context = {
        "topic": topic,
        "typed": typed,
        "problem": problem,
        "repeats": traces.what_stays(topic),
    }
    template = "_topic_purge" if request.htmx else "topic_purge"
    return render(request, f"research/{template}.html", context)
