"""The page of all schedules, and what its buttons change of one."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from beacon_site.http import BeaconRequest
from memory.models import Topic
from memory.responses import go_back, refused
from research.models import Schedule
from research.schedules import rescheduling
from research.topics import calendar_page


@require_safe
@login_required
def calendar(request: BeaconRequest) -> HttpResponse:
    """Show a month of coming runs over all topics."""
    key = request.GET.get("month", "")
    return render(request, "research/calendar.html", calendar_page.context(request.user, key))


@require_POST
@login_required
def schedule_hour(request: BeaconRequest, slug: str, hour: int) -> HttpResponse:
    """Move a topic's runs to another hour of the same days."""
    topic = _topic(request, slug)
    was = rescheduling.move_to_hour(topic, hour, by=request.actor)
    if was is None:
        return refused(
            request,
            _("This schedule has no single hour that could be moved: change it in its settings."),
        )
    undo = "undo:" + reverse("research:schedule-hour", args=[slug, was])
    words = _("“%(topic)s” runs at %(hour)02d:00 from now on.") % {"topic": topic, "hour": hour}
    messages.success(request, words, extra_tags=undo)
    return go_back(request, reverse("research:calendar"))


@require_POST
@login_required
def schedule_missed(request: BeaconRequest, slug: str, choice: str) -> HttpResponse:
    """Say what becomes of a topic's runs that were missed."""
    topic = _topic(request, slug)
    if choice not in Schedule.Missed.values:
        raise Http404
    was = rescheduling.set_missed(topic, choice, by=request.actor)
    if was is None:
        messages.info(request, _("It is so already, or the topic is run by hand only."))
    else:
        undo = "undo:" + reverse("research:schedule-missed", args=[slug, was])
        words = _("“%(topic)s”: %(what)s.")
        told = {"topic": topic, "what": Schedule.Missed(choice).label}
        messages.success(request, words % told, extra_tags=undo)
    return go_back(request, reverse("research:calendar"))


def _topic(request: BeaconRequest, slug: str) -> Topic:
    mine = Topic.objects.of(request.user).live().select_related("owner")
    topic: Topic = get_object_or_404(mine, slug=slug)
    return topic
