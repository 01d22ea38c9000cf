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
    Run.objects.filter(pk=going.pk).update(lease_until=later)
    saved = deep_rows.saved(factories.make_topic(owner, "Deep runs"))
    factories.make_call(saved, model="gpt-5-mini")
    Run.objects.filter(pk=saved.pk).update(model_calls=1)
    return {"deep": _address(going), "deep report": _address(saved)}


def _address(run: Run) -> str:
    return reverse("research:run", args=[run.topic.slug, run.pk])
