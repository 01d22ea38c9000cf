"""What recall returns of research: reports; and where topic facts are shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse

from memory.recall import kinds
from research.models import Report


def register() -> None:
    """Tell recall of reports, and of the page on which a fact stands."""
    kinds.register(
        kinds.RecallKind(
            "report",
            Report,
            _reports,
            title=lambda report: str(report.title),
            url=lambda report: reverse("research:run", args=[report.run.topic.slug, report.run_id]),
            of_topic=True,
            topic_path="run__topic",
        )
    )
    kinds.register(replace(kinds.KINDS["fact"], url=_fact_url))


def _reports(owner: Any, now: datetime) -> QuerySet[Any]:
    saved = Report.objects.of(owner).live().exclude(run__number=None)
    return saved.filter(run__topic__trashed_at=None).select_related("run__topic")


def _fact_url(fact: Any) -> str:
    return reverse("research:topic", args=[fact.topic.slug]) + f"#fact-{fact.pk}"
