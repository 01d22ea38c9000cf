"""Having stale facts checked again: one, or all of a topic."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from beacon_site.http import BeaconRequest
from memory.models import Topic, TopicFact
from memory.responses import go_to
from research.models import RunInTheWay
from research.responses import not_now
from research.running.allowance import NotNow
from research.running.rechecking import start_recheck


@require_POST
@login_required
def topic_recheck(request: BeaconRequest, slug: str) -> HttpResponse:
    """Start a recheck of the topic's stale facts and show it."""
    topic = get_object_or_404(Topic.objects.of(request.user).live(), slug=slug)
    return _started(request, topic, None)


@require_POST
@login_required
def fact_recheck(request: BeaconRequest, slug: str, pk: uuid.UUID) -> HttpResponse:
    """Start a recheck of one fact, stale or not, and show it."""
    topic = get_object_or_404(Topic.objects.of(request.user).live(), slug=slug)
    fact = get_object_or_404(TopicFact.objects.filter(topic=topic).live(), pk=pk)
    return _started(request, topic, fact)


def _started(request: BeaconRequest, topic: Topic, fact: TopicFact | None) -> HttpResponse:
    try:
        run = start_recheck(topic, by=request.actor, fact=fact)
    except RunInTheWay as exc:
        messages.info(request, _("%(what)s The facts can be rechecked after it.") % {"what": exc})
        if exc.run is None:
            return go_to(request, reverse("research:topic-facts", args=[topic.slug]))
        return go_to(request, reverse("research:run", args=[topic.slug, exc.run.pk]))
    except NotNow as exc:
        return not_now(request, exc)
    return go_to(request, reverse("research:run", args=[topic.slug, run.pk]))
