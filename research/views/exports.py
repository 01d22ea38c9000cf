"""A saved run as a file to keep."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from beacon_site.http import BeaconRequest
from memory.responses import refused
from research.models import Run
from research.reports import exporting


@never_cache
@require_GET
@login_required
def run_export(request: BeaconRequest, slug: str, run_id: int, kind: str) -> HttpResponse:
    """Give a saved run as `kind`; a run that is not saved, and an unknown kind, say so."""
    mine = Run.objects.of(request.user).kept().filter(topic__slug=slug, topic__trashed_at=None)
    run: Run = get_object_or_404(mine.select_related("topic__owner", "report"), pk=run_id)
    export = exporting.KINDS.get(kind)
    if export is None:
        why = _("There is no export “%(kind)s”. There are: %(kinds)s.")
        said = why % {"kind": kind, "kinds": ", ".join(exporting.KINDS)}
        return render(request, "404.html", {"why": said}, status=404)
    if run.number is None:
        why = _("This run is %(status)s and has no report; only a saved run can be exported.")
        status = run.get_status_display()
        return refused(request, why % {"status": status})
    answer = HttpResponse(export.write(run), content_type=export.media_type)
    stem = f"{run.topic.slug}-run-{run.number}"
    answer["Content-Disposition"] = f'attachment; filename="{stem}-{kind}"'
    return answer
