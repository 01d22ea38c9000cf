"""Whether everything works, for staff."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from beacon_site.http import BeaconRequest
from memory.accounts.guards import staff_only
from memory.doctor import checkup


@never_cache
@require_safe
@staff_only
def health_page(request: BeaconRequest) -> HttpResponse:
    """Show each part that Beacon stands on, with what to do where one fails."""
    found = checkup.checks()
    context = {
        "checks": found,
        "bad": sum(check.state == checkup.BAD for check in found),
        "warned": sum(check.state == checkup.WARN for check in found),
        "tab": "health",
    }
    return render(request, "memory/_health.html" if request.htmx else "memory/health.html", context)
