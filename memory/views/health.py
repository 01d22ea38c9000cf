"""Whether everything works, for staff."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from beacon_site.http import BeaconRequest
from memory import system_status
from memory.accounts.guards import staff_only


@never_cache
@require_safe
@staff_only
def health_page(request: BeaconRequest) -> HttpResponse:
    """Show each part that Beacon needs, with what to do where one fails."""
    parts = system_status.parts()
    context = {
        "parts": parts,
        "bad": sum(part.state == system_status.BAD for part in parts),
        "warned": sum(part.state == system_status.WARN for part in parts),
        "tab": "health",
    }
    return render(request, "memory/_health.html" if request.htmx else "memory/health.html", context)
