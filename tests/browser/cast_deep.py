"""A deep run in progress and one with its report, for the browser."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.urls import reverse
from django.utils import timezone

from research.models import Run
from tests.research import deep_rows, factories


def deep_runs(owner: Any) -> dict[str, str]:
    """Create both and return their addresses."""
    going = deep_rows.unfinished_runs(factories.make_topic(owner, "Deep runs that go on"), calls=9)
    later = timezone.now() + timedelta(days=1)
    Run.objects.filter(pk=going.pk).update(
        lease_until=later, prompt_tokens=36_420, completion_tokens=1_680
    )
    counts = {"PostgreSQL 18": 3, "PostgreSQL 18 criticism": 2}
    going.steps.filter(name="plan").update(output={"queries": list(counts)})
    asked = [
        {"query": query, "service": "serpapi", "hits": count, "problem": ""}
        for query, count in counts.items()
    ]
    going.steps.filter(name="search").update(output={"asked": asked})
    second = [{"query": "PostgreSQL 18 criticism", "service": "serpapi", "rank": 1}]
    going.hits.filter(place__gt=3).update(queries=second)
    saved = deep_rows.saved(factories.make_topic(owner, "Deep runs"))
    factories.make_call(saved, model="gpt-5-mini")
    Run.objects.filter(pk=saved.pk).update(model_calls=1)
    return {"deep": _address(going), "deep report": _address(saved)}


def _address(run: Run) -> str:
    return reverse("research:run", args=[run.topic.slug, run.pk])
