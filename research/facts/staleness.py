"""How long ago facts were checked, and when that is too long: their topic's setting, or its pace."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from memory.models import Topic, TopicFact
from memory.topics import fact_age
from memory.topics.fact_age import LEAST_DAYS
from research.models import Schedule, TopicSettings
from research.schedules import scheduling

GAPS = 3  # of the schedule that a fact may go unchecked


def days_of(settings: TopicSettings, schedule: Schedule | None) -> int:
    """Return after how many days without a check the topic's facts are stale.

    The topic's own setting, else 30 days, or three times its schedule's longest gap if longer.
    """
    if settings.stale_days:
        return settings.stale_days
    if schedule is None:
        return LEAST_DAYS
    gap = scheduling.longest_gap(schedule, timezone.now())
    return max(LEAST_DAYS, GAPS * -(-gap // timedelta(days=1)))


def days_by_topic(topic_ids: Iterable[Any]) -> dict[Any, int]:
    """Return after how many days facts are stale, by topic: one query."""
    found = TopicSettings.objects.filter(topic__in=list(set(topic_ids)))
    return {
        settings.pk: days_of(settings, getattr(settings.topic, "schedule", None))
        for settings in found.select_related("topic__schedule")
    }


def in_words(fact: TopicFact, days: int) -> str:
    """Return how long ago a current fact was checked; empty for one that is not stale."""
    age = fact_age.days_since(fact)
    is_stale = fact.state == TopicFact.State.CURRENT and age >= days
    return fact_age.in_words(age) if is_stale else ""


def stale_facts(topic: Topic, days: int) -> QuerySet[Any]:
    """Return the topic's current facts that went unchecked for longer, the longest first."""
    before = timezone.now() - timedelta(days=days)
    unchecked = Q(confirmed_at__lte=before) | Q(confirmed_at=None, created__lte=before)
    found = TopicFact.objects.filter(topic=topic).current().filter(unchecked)
    return found.order_by(Coalesce(F("confirmed_at"), F("created")), "position")


def register() -> None:
    """Tell memory, whose pages and prompts show facts, when they are stale."""
    if days_by_topic not in fact_age.STALE_AFTER:
        fact_age.STALE_AFTER.append(days_by_topic)
