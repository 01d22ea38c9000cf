"""A run whose plan waits for a person, for the checked pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.urls import reverse
from django.utils import timezone

from research.models import Run, TopicSettings
from tests.research import factories

PLANNED = [
    "solid-state battery pilot lines 2026",
    "solid-state battery cost per kilowatt hour",
    "固态电池 量产 2026",
    "sulfide electrolyte suppliers Europe",
]


def waiting_plan(owner: Any) -> dict[str, str]:
    """Create a run that waits, and continues automatically in the evening."""
    asked = {
        "objective": "Which makers get from pilot lines to mass production, and at what cost?",
        "focus": "Europe and East Asia; not laboratories",
        "plan_review": TopicSettings.PlanReview.DAY,
        "services": ["wikipedia", "arxiv", "hackernews", "feeds", "library"],
    }
    topic = factories.make_topic(owner, "Solid-state batteries", settings=asked)
    factories.make_report(
        factories.make_run(topic),
        **factories.written(
            "Two makers run pilot lines for solid-state cells.",
            "Neither has announced a price per kilowatt hour.",
        ),
    )
    now = timezone.now()
    run = factories.make_run(
        topic,
        saved=False,
        status=Run.Status.QUEUED,
        started_at=now,
        waiting_since=now,
        not_before=now + timedelta(hours=23),
        settings=TopicSettings.objects.get(topic=topic).as_json(),
        is_baseline=False,
    )
    factories.make_steps(run, done=2)
    facts = ("A pilot line in Kyoto made 3,400 cells.", "Cells cost 97 euros per kilowatt hour.")
    memory = {"memory": {"facts": [{"text": text} for text in facts]}}
    detail = "2 facts, 14 seen URLs, last run on 14 Nov 2026"
    run.steps.filter(name="load_memory").update(output=memory, detail=detail)
    run.steps.filter(name="plan").update(
        output={"queries": PLANNED, "by": "facets"}, detail="4 queries, planned from templates"
    )
    return {
        "waiting": reverse("research:run", args=[topic.slug, run.pk]),
        "waiting slug": topic.slug,
    }
