"""The page that holds two runs of a topic against each other."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from research.reports import compare as comparing
from research.reports.compare import Asked
from research.topics import page as topic_page


@require_safe
@login_required
@vary_on_headers("HX-Request")
def compare(request: BeaconRequest, slug: str) -> HttpResponse:
    """Compare two runs of a topic; over htmx the comparison alone."""
    topic = get_object_or_404(topic_page.topics_of(request.user), slug=slug)
    context = comparing.context(topic, Asked.of(request.GET))
    if request.htmx:
        return render(request, "research/_compare.html", context | {"is_swap": True})
    context |= {"tab": "runs", "head": topic_page.head_of(topic)}
    return render(request, "research/compare.html", context)
