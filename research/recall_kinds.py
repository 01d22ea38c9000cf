"""What memory search returns from research: reports, links to topic facts, and outdated findings."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.urls import reverse

from memory.models import Observation, Sensitivity, TopicFact
from memory.search import kinds
from research.models import DeltaItem, Report


def register() -> None:
    """Register reports with memory search, and the page that shows each fact."""
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
    kinds.register(replace(kinds.KINDS["observation"], overtaken=_overtaken))


def _reports(owner: Any, now: datetime) -> QuerySet[Any]:
    saved = Report.objects.of(owner).live().exclude(run__number=None)
    return saved.filter(run__topic__trashed_at=None).select_related("run__topic")


def _overtaken(observations: list[Observation]) -> dict[uuid.UUID, str]:
    """Return, for findings whose fact was replaced, what a later run found instead, in one query.

    A finding has exactly the text of its fact, and remains when the fact is replaced. Text that a
    person has since marked as wrong or sensitive is left out.
    """
    told = {(one.topic_id, one.content): one.pk for one in observations if one.topic_id}
    if not told:
        return {}
    facts = TopicFact.objects.live().filter(topic=OuterRef("run__topic"), text=OuterRef("sentence"))
    stands = facts.exclude(state=TopicFact.State.STRUCK).exclude(sensitivity=Sensitivity.SENSITIVE)
    changed = DeltaItem.objects.filter(
        Exists(stands),
        status=DeltaItem.Status.CHANGED,
        withheld="",
        previous_text__in={content for _topic, content in told},
        previous_fact__in=TopicFact.objects.filter(
            topic__in={topic for topic, _content in told}, state=TopicFact.State.RETIRED
        ),
    ).order_by("run__number")
    rows = changed.values_list("run__topic", "previous_text", "sentence")
    return {told[topic, was]: now for topic, was, now in rows if (topic, was) in told}


def _fact_url(fact: Any) -> str:
    return reverse("research:topic", args=[fact.topic.slug]) + f"#fact-{fact.pk}"
