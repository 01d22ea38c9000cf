"""Settings, Backups: the schedule, the backups with their results, and "Back up now"."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST
from django.views.decorators.vary import vary_on_headers

from beacon_site.embedded.places import BY_HAND
from beacon_site.web.http import BeaconRequest
from memory.models import Activity, BackupFile, BackupPlan
from memory.pages.shared.responses import staff_only
from memory.services import backups

_SHOWN = 60


class PlanForm(forms.ModelForm):  # type: ignore[type-arg]
    """When to back up, and how many backups to keep."""

    class Meta:
        model = BackupPlan
        fields = ("every", "hour", "keep", "tests_restore")


@require_http_methods(["GET", "HEAD", "POST"])
@staff_only
@vary_on_headers("HX-Request")
def backup_list(request: BeaconRequest) -> HttpResponse:
    """Show the backups and the schedule, and save the schedule."""
    if request.method != "POST":
        return _page(request, PlanForm(instance=BackupPlan.current()))
    form = PlanForm(request.POST, instance=BackupPlan.current())
    if not form.is_valid():
        return _page(request, form)
    plan: BackupPlan = form.save(commit=False)
    plan.changed_at = timezone.now()
    plan.save()
    Activity.log(request.user, request.actor, "backup-plan-changed", subject=request.user)
    messages.success(request, _("Schedule saved."))
    return _after(request)


@require_POST
@staff_only
def backup_now(request: BeaconRequest) -> HttpResponse:
    """Start a backup; a worker writes it."""
    _row, is_new = backups.ask(request.user)
    if is_new:
        messages.success(request, _("Backup started."))
    else:
        messages.info(request, _("A backup is already in progress."))
    return _after(request)


@require_POST
@staff_only
def backup_delete(request: BeaconRequest, pk: int) -> HttpResponse:
    """Delete a backup and its file permanently."""
    row = get_object_or_404(BackupFile, pk=pk)
    if row.state == BackupFile.State.RUNNING:
        messages.error(
            request, _("This backup is still in progress. You can delete it when it’s done.")
        )
        return _after(request)
    try:
        row.discard()
    except OSError as exc:
        messages.error(
            request,
            _("%(name)s couldn’t be deleted: %(why)s. Nothing was changed.")
            % {"name": row.name, "why": exc},
        )
    else:
        Activity.log(request.user, request.actor, "backup-deleted", label=row.name)
        messages.success(request, _("%(name)s deleted permanently.") % {"name": row.name})
    return _after(request)


def _after(request: BeaconRequest) -> HttpResponse:
    if not request.htmx:
        return redirect("memory:backups")
    return _page(request, PlanForm(instance=BackupPlan.current()))


def _page(request: BeaconRequest, form: PlanForm) -> HttpResponse:
    rows = list(BackupFile.objects.select_related("asked_by")[:_SHOWN])
    done = [row for row in rows if row.state == BackupFile.State.DONE]
    context: dict[str, Any] = {
        "tab": "backups",
        "form": form,
        "rows": rows,
        "last": done[0] if done else None,
        "failed": rows[0] if rows and rows[0].state == BackupFile.State.FAILED else None,
        "is_waiting": any(row.is_unfinished for row in rows),
        "next": BackupPlan.current().next_due(timezone.now().astimezone(UTC)),
        "total": backups.total_size(),
        "bucket": settings.BEACON_BACKUP_S3_BUCKET,
        "folder": backups.folder(),
        "manage": BY_HAND["manage"],
    }
    name = "_backups" if request.htmx else "backups"
    return render(request, f"memory/{name}.html", context)
