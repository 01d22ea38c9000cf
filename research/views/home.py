"""Home: what is new since the person last read, and what is going on."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import HttpResponseClientRefresh

from beacon_site.http import BeaconRequest
from research import home_page


@require_safe
@login_required
@vary_on_headers("HX-Request")
def home(request: BeaconRequest) -> HttpResponse:
    """Show Home; over htmx the runs that are going on, 204 while none of them moved."""
    if not request.htmx:
        return render(request, "research/home.html", home_page.context(request.user))
    seen = request.GET.get("running", "")
    running = home_page.going_on(request.user)
    now = home_page.signature(running)
    if seen and now == seen:
        return HttpResponse(status=204)
    if seen and not home_page.same_runs(seen, now):
        return HttpResponseClientRefresh()  # one ended: its report belongs into the list
    shown = home_page.running_context(running)
    return render(request, "research/_home_running.html", shown)
