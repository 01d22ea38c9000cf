"""What a run of a topic will probably take: a fragment that the topic's pages fetch, and a page."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from research.budgets import forecasting, spending_page
from research.facts import staleness
from research.facts.staleness import stale_facts
from research.topics import page as topic_page


@require_safe
@login_required
@vary_on_headers("HX-Request")
def topic_forecast(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show the forecast of the next run by its depths, and what the topic's month has left."""
    topic = get_object_or_404(topic_page.topics_of(request.user), slug=slug)
    shown = {
        "topic": topic,
        "forecast": forecasting.forecast_of(topic),
        "month": spending_page.month_of(topic),
        "stale": stale_facts(topic, staleness.days_of(topic.settings, topic.schedule)).count(),
    }
    if request.htmx:
        return render(request, "research/_topic_cost.html", shown)
    head = topic_page.head_of(topic)
    return render(request, "research/topic_forecast.html", {**shown, "tab": "", "head": head})
