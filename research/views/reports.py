"""Reports over all topics, and their marks of having been read."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from beacon_site.http import BeaconRequest
from memory.responses import go_back
from research.models import Report, Run
from research.models.reports import ReportQuerySet
from research.reports import list as report_list
from research.reports.list import Wanted
from research.responses import said_read, said_unread
from research.unread import reading_marks


def _report(request: BeaconRequest, slug: str, run_id: int) -> ReportQuerySet:
    """Return the one report of a run, as rows to mark; 404 where there is none."""
    mine = Run.objects.of(request.user).kept().filter(topic__slug=slug, topic__trashed_at=None)
    run = get_object_or_404(mine.exclude(report=None), pk=run_id)
    found: ReportQuerySet = Report.objects.filter(run=run)
    return found


@require_POST
@login_required
def report_read(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Mark the report as read: sent by its page, or by a button without JavaScript."""
    count, key = reading_marks.mark_read(_report(request, slug, run_id))
    if request.headers.get("X-Requested-With") == "fetch":
        return HttpResponse(status=204)
    said_read(request, count, key)
    return go_back(request, reverse("research:run", args=[slug, run_id]))


@require_POST
@login_required
def report_unread(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Put the report back among the unread, and go to the list (its page would mark it again)."""
    found = _report(request, slug, run_id)
    count, key = reading_marks.mark_unread(found)
    title = found.values_list("title", flat=True).get()
    said_unread(request, count, key, _("“%(title)s” is unread again.") % {"title": title})
    return go_back(request, reverse("research:reports"))


@never_cache
@require_GET
@login_required
def reports(request: BeaconRequest) -> HttpResponse:
    """List reports, unread first; over htmx the list alone."""
    wanted = Wanted.of(request.GET)
    rows, page = report_list.page(request.user, wanted, request.GET.get("cursor", ""))
    context: dict[str, Any] = {
        "rows": rows,
        "wanted": wanted,
        "next_cursor": page.next_cursor,
        "is_first": not request.GET.get("cursor"),
    }
    template = "research/_reports.html" if request.htmx else "research/reports.html"
    return render(request, template, context)


@require_POST
@login_required
def reports_mark(request: BeaconRequest) -> HttpResponse:
    """Mark the ticked reports, or all that match the filter, as read or unread."""
    rows = report_list.found(request.user, Wanted.of(request.POST))
    if "all" not in request.POST:
        rows = rows.filter(pk__in=_ticked(request))
    if request.POST.get("as") == "unread":
        said_unread(request, *reading_marks.mark_unread(rows))
    else:
        said_read(request, *reading_marks.mark_read(rows))
    return go_back(request, reverse("research:reports"))


def _ticked(request: BeaconRequest) -> list[uuid.UUID]:
    """Return the keys that were ticked; what is no key is left out."""
    keys = []
    for text in request.POST.getlist("report"):
        try:
            keys.append(uuid.UUID(text))
        except ValueError:
            continue
    return keys


@require_POST
@login_required
def reports_undo(request: BeaconRequest, key: int) -> HttpResponse:
    """Take back a marking as read."""
    count = reading_marks.undo_read(request.user, key)
    words = ngettext("%(n)d report is unread again.", "%(n)d reports are unread again.", count)
    messages.success(request, words % {"n": count})
    return go_back(request, reverse("research:reports"))
