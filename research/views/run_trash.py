"""Removing one saved run: what goes with it is shown before, and everything comes back."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from beacon_site.http import BeaconRequest
from memory.errors import MemoryRefused
from memory.responses import go_to, refused
from memory.texts.text import clean, one_line
from research.models import Run
from research.runs import trash
from research.runs import trash as run_trash

LONGEST_WHY = 200


@require_http_methods(["GET", "POST"])
@login_required
def run_to_trash(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Show what would go with a saved run; POST moves it to the trash."""
    mine = Run.objects.of(request.user).kept().filter(topic__slug=slug, topic__trashed_at=None)
    run: Run = get_object_or_404(mine.select_related("topic__owner", "report"), pk=run_id)
    if not hasattr(run, "report"):
        return _without_report(request, run)
    if request.method == "POST":
        why = one_line(clean(request.POST.get("why", ""))[0])[:LONGEST_WHY]
        try:
            run_trash.trash_run(run.report, by=request.actor, why=why)
        except MemoryRefused as exc:
            return refused(request, str(exc))
        undo = reverse("memory:record-restore", args=["report", run.report.pk])
        words = _("%(run)s is in the trash for 30 days, with what only it brought.") % {"run": run}
        messages.success(request, words, extra_tags=f"undo:{undo}")
        return go_to(request, reverse("research:topic-runs", args=[slug]))
    context = {
        "run": run,
        "topic": run.topic,
        "goes": run_trash.what_goes(run.report),
        "not_now": run_trash.why_not_now(run),
    }
    return render(request, "research/run_trash.html", context)


def _without_report(request: BeaconRequest, run: Run) -> HttpResponse:
    """Move a failed or cancelled run to the trash; nothing goes along, so nothing is asked."""
    if run.status not in trash.ENDED:
        raise Http404
    if request.method != "POST":
        return render(request, "research/run_trash_failed.html", {"run": run, "topic": run.topic})
    try:
        removed = trash.remove(run, by=request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    undo = reverse("memory:record-restore", args=["removedrun", removed.pk])
    words = _("The run is in the trash for 30 days.")
    messages.success(request, words, extra_tags=f"undo:{undo}")
    return go_to(request, reverse("research:topic-runs", args=[run.topic.slug]))
