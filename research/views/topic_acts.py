"""What is done to one topic by a button: run, pause, archive, duplicate, trash, and back."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from beacon_site.http import BeaconRequest
from memory.errors import InvalidValue, MemoryRefused
from memory.models import Topic
from memory.responses import go_back, go_to, refused
from memory.trash import acts as trash_acts
from research.models import Run, RunInTheWay
from research.responses import not_now
from research.running.allowance import NotNow
from research.running.starting import loaded_at, start_run
from research.schedules import scheduling
from research.topic_settings import editing as topic_editing


def _topic(request: BeaconRequest, slug: str) -> Topic:
    mine = Topic.objects.of(request.user).live().select_related("owner")
    topic: Topic = get_object_or_404(mine, slug=slug)
    return topic


def _page_of(topic: Topic) -> str:
    return reverse("research:topic", args=[topic.slug])


def _undo(name: str, topic: Topic) -> str:
    return "undo:" + reverse(f"research:{name}", args=[topic.slug])


@login_required
@require_POST
def topic_run(request: BeaconRequest, slug: str) -> HttpResponse:
    """Start a run and show it; if one is going on, show that.

    `depth` is that of this one run; without it the topic's.
    """
    topic = _topic(request, slug)
    depth = request.POST.get("depth", "")
    try:
        run: Run | None = start_run(
            topic,
            trigger=Run.Trigger.PERSON,
            by=request.actor,
            depth=depth,
            loaded=loaded_at(request.POST),
        )
    except RunInTheWay as exc:
        messages.info(request, _("%(what)s This is it.") % {"what": exc})
        run = exc.run
    except InvalidValue as exc:
        return refused(request, str(exc))
    except NotNow as exc:
        return not_now(request, exc)
    if run is None:  # it ended while we asked
        return go_to(request, _page_of(topic))
    return go_to(request, reverse("research:run", args=[topic.slug, run.pk]))


@login_required
@require_POST
def topic_pause(request: BeaconRequest, slug: str) -> HttpResponse:
    """Let the topic's schedule rest."""
    topic = _topic(request, slug)
    if scheduling.set_paused(topic, paused=True, by=request.actor):
        words = _("“%(topic)s” is paused: it runs again when you resume it.") % {"topic": topic}
        messages.success(request, words, extra_tags=_undo("topic-resume", topic))
    else:
        messages.info(request, _("It is paused already, or run by hand only."))
    return go_back(request, _page_of(topic))


@login_required
@require_POST
def topic_resume(request: BeaconRequest, slug: str) -> HttpResponse:
    """Let the topic run by its schedule again."""
    topic = _topic(request, slug)
    if scheduling.set_paused(topic, paused=False, by=request.actor):
        words = _("“%(topic)s” runs by its schedule again.") % {"topic": topic}
        messages.success(request, words, extra_tags=_undo("topic-pause", topic))
    else:
        messages.info(request, _("It is not paused, or run by hand only."))
    return go_back(request, _page_of(topic))


@login_required
@require_POST
def topic_archive(request: BeaconRequest, slug: str) -> HttpResponse:
    """Put the topic away; it keeps everything."""
    topic = _topic(request, slug)
    try:
        cancelled = topic_editing.archive_topic(topic, by=request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    words = _("“%(topic)s” is in the archive: kept with all it knows, and not run.")
    words %= {"topic": topic}
    if cancelled:
        words += " " + _("Its run that waited in the queue was cancelled.")
    messages.success(request, words, extra_tags=_undo("topic-unarchive", topic))
    return go_back(request, reverse("research:topics"))


@login_required
@require_POST
def topic_unarchive(request: BeaconRequest, slug: str) -> HttpResponse:
    """Take the topic from the archive."""
    topic = _topic(request, slug)
    try:
        topic_editing.unarchive_topic(topic, by=request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    words = _("“%(topic)s” is back from the archive.") % {"topic": topic}
    messages.success(request, words, extra_tags=_undo("topic-archive", topic))
    return go_back(request, _page_of(topic))


@login_required
@require_POST
def topic_trash(request: BeaconRequest, slug: str) -> HttpResponse:
    """Move the topic to the trash; a run that is going on is cancelled, and the person told."""
    topic = _topic(request, slug)
    try:
        cancelled = topic_editing.trash_topic(topic, by=request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    words = _("“%(topic)s” is in the trash for 30 days.") % {"topic": topic}
    if cancelled:
        words += " " + _("Its run was cancelled; you can retry it once the topic is restored.")
    undo = "undo:" + reverse("research:topic-restore", args=[topic.pk])
    messages.success(request, words, extra_tags=undo)
    return go_to(request, reverse("research:topics"))


@login_required
@require_POST
def topic_restore(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Bring the topic back from the trash (by id: names there may repeat)."""
    mine = Topic.objects.of(request.user).select_related("owner")
    topic = get_object_or_404(mine, pk=pk)
    name = topic.title
    try:
        topic_editing.restore_topic(topic, by=request.actor)
    except MemoryRefused as exc:
        messages.error(
            request,
            _("It stays in the trash: %(why)s") % {"why": exc},
        )
        return go_back(request, reverse("research:topics"))
    words = _("“%(topic)s” is back from the trash.") % {"topic": name}
    if topic.title != name:
        words = trash_acts.renamed(name, topic)
    messages.success(request, words, extra_tags=_undo("topic-trash", topic))
    return go_back(request, _page_of(topic))


@login_required
@require_http_methods(["GET", "POST"])
def topic_duplicate(request: BeaconRequest, slug: str) -> HttpResponse:
    """Open the form of a new topic with this one's settings and schedule; nothing is made yet."""
    topic = _topic(request, slug)
    return go_to(request, f"{reverse('research:topic-new')}?from={topic.slug}")
