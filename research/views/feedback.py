"""“Tell me such things”, beside what a topic's intent withheld, and taking it back."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from beacon_site.http import BeaconRequest
from memory.errors import MemoryRefused
from memory.responses import go_to, refused
from research.intent import telling
from research.models import DeltaItem, Run


def _run(request: BeaconRequest, slug: str, run_id: int) -> Run:
    mine = Run.objects.of(request.user).kept().filter(topic__slug=slug, topic__trashed_at=None)
    run: Run = get_object_or_404(mine.exclude(report=None).select_related("report"), pk=run_id)
    return run


@require_POST
@login_required
def tell_such(request: BeaconRequest, slug: str, run_id: int, item: int) -> HttpResponse:
    """Tell a withheld change, and such things from the next run on."""
    run = _run(request, slug, run_id)
    judge = DeltaItem.objects.filter(run=run, pk=item).values_list("judged_by", flat=True).first()
    try:
        telling.tell_such(run, item, by=request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    undo = reverse("research:tell-such-undo", args=[slug, run_id, item])
    undo = f"undo:{undo}?{urlencode({'judge': judge or ''})}"
    messages.success(
        request, _("It is told, and such things are from the next run on."), extra_tags=undo
    )
    return _back(request, slug, run_id)


@require_POST
@login_required
def tell_such_undo(request: BeaconRequest, slug: str, run_id: int, item: int) -> HttpResponse:
    """Withhold it again, as it was."""
    run = _run(request, slug, run_id)
    try:
        telling.withhold_again(run, item, request.GET.get("judge", ""), by=request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    messages.success(request, _("It is withheld again."))
    return _back(request, slug, run_id)


def _back(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    return go_to(request, reverse("research:run", args=[slug, run_id]) + "#what-changed")
