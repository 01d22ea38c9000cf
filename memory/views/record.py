"""One note or observation: its page, its panel beside a list, its history and two versions of it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.models import Remembered
from memory.records import history as record_history
from memory.records import page as record_page

PANELS = ("panel", "record-panel")


def _record(request: BeaconRequest, type: str, pk: UUID) -> Any:
    """Return the person's own record, from the trash too; 404 for another's."""
    rows = record_page.model_of(type).objects.of(request.user)
    record: Remembered = get_object_or_404(rows.select_related("topic"), pk=pk)
    record.owner = request.user
    return record


@require_safe
@login_required
@vary_on_headers("HX-Request", "HX-Target")
def record(request: BeaconRequest, pk: UUID, type: str) -> HttpResponse:
    """Show one record: as a page, or for a list as the panel beside it."""
    page = record_page.page_of(_record(request, type, pk))
    asked = request.GET.get("panel") == "1" or request.htmx.target in PANELS
    in_panel = bool(request.htmx) and asked
    template = "memory/_record_panel.html" if in_panel else "memory/record.html"
    return render(request, template, {"page": page, "record": page.record, "in_panel": in_panel})


@require_safe
@login_required
@vary_on_headers("HX-Request")
def history(request: BeaconRequest, pk: UUID, type: str) -> HttpResponse:
    """Show who changed the record, when, why and from what to what; and any two versions."""
    found = _record(request, type, pk)
    context: dict[str, Any] = {
        "record": found,
        "type": type,
        "versions": range(found.version, 0, -1)[:200],
        "comparison": _comparison(request, found),
        "is_whole": request.GET.get("show") == "all",
        "as_text": request.GET.get("view") != "lines",
    }
    if request.htmx and request.htmx.target == "record-compare":
        return render(request, "memory/_record_compare.html", context)
    page = record_history.history_of(found, cursor=request.GET.get("cursor", ""))
    context |= {"changes": page.changes, "next_cursor": page.next_cursor}
    return render(request, "memory/record_history.html", context)


def _comparison(request: BeaconRequest, record: Remembered) -> Any:
    """Return the two versions that the address names, the older first; None if it names none."""
    ends = [request.GET.get(name, "") for name in ("from", "to")]
    numbers = [int(end) for end in ends if end.isdecimal() and len(end) < 9]
    older, newer = (min(numbers), max(numbers)) if len(numbers) == 2 else (0, 0)
    if not 1 <= older <= record.version or newer > record.version:
        return None
    whole = request.GET.get("show") == "all"
    return record_history.compare(record, older, newer, whole=whole)
