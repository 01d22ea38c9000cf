"""Facts that are stale or only supported by blocked sources.

Data flow: current facts with a source -> those whose source is blocked now -> minus those that a
run confirmed by an unblocked page -> their ids, for a tag next to each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from beacon_site.text.canonical_urls import canonical_url
from memory.models import Topic, TopicFact
from memory.services import topic_memory
from memory.services.topic_memory import MIN_DAYS
from research.models import DeltaItem, Hit, Schedule, TopicSettings
from research.models.topics import everywhere, in_effect
from research.services.schedules import scheduling
from research.services.topics.settings import standing_rules


def only_blocked(topic: Any, facts: Sequence[TopicFact]) -> set[Any]:
    """Return the ids of the facts whose sources are all blocked, in two to four queries.

    `topic` must have its settings loaded. Facts that a person wrote or edited don't depend on
    sources.
    """
    with_source = [fact for fact in facts if fact.url and not fact.edited_by_person]
    if not with_source:
        return set()
    settings = in_effect(topic.settings, everywhere(topic.owner_id))
    blocked = {fact.pk for fact in with_source if _is_blocked(settings, fact.url)}
    return blocked - _confirmed_elsewhere(settings, blocked) if blocked else set()


def _is_blocked(settings: TopicSettings, url: str) -> bool:
    return bool(standing_rules.reason_against(settings, canonical_url(url)))


def _confirmed_elsewhere(settings: TopicSettings, ids: set[Any]) -> set[Any]:
    """Return the ids of facts that an unblocked page confirmed."""
    confirmed = DeltaItem.objects.supported().filter(
        previous_fact__in=ids, status=DeltaItem.Status.CONFIRMED
    )
    rows = list(confirmed.values_list("previous_fact", "run", "citations"))
    if not rows:
        return set()
    hits = Hit.objects.filter(run__in={run for _fact, run, _numbers in rows})
    cited = hits.exclude(cited_as=None).values_list("run", "cited_as", "url")
    usable = {(run, number) for run, number, url in cited if not _is_blocked(settings, url)}
    return {fact for fact, run, numbers in rows if any((run, n) in usable for n in numbers)}


# --- staleness ---

GAPS = 3  # schedule intervals that a fact can go unchecked


def days_of(settings: TopicSettings, schedule: Schedule | None) -> int:
    """Return after how many days without a check the topic's facts are stale.

    This is the topic's own setting. The default is 30 days, or three times its schedule's longest
    gap if that is longer.
    """
    if settings.stale_days:
        return settings.stale_days
    if schedule is None:
        return MIN_DAYS
    gap = scheduling.longest_gap(schedule, timezone.now())
    return max(MIN_DAYS, GAPS * -(-gap // timedelta(days=1)))


def days_by_topic(topic_ids: Iterable[Any]) -> dict[Any, int]:
    """Return after how many days facts are stale, by topic, in one query."""
    rows = TopicSettings.objects.filter(topic__in=list(set(topic_ids)))
    return {
        settings.pk: days_of(settings, getattr(settings.topic, "schedule", None))
        for settings in rows.select_related("topic__schedule")
    }


def age_label(fact: TopicFact, days: int) -> str:
    """Return how long ago a current fact was checked, or "" if it isn't stale."""
    age = topic_memory.days_since(fact)
    is_stale = fact.state == TopicFact.State.CURRENT and age >= days
    return topic_memory.age_label(age) if is_stale else ""


def stale_facts(topic: Topic, days: int) -> QuerySet[Any]:
    """Return the topic's current facts that are older than this many days, oldest check first."""
    before = timezone.now() - timedelta(days=days)
    unchecked = Q(confirmed_at__lte=before) | Q(confirmed_at=None, created__lte=before)
    rows = TopicFact.objects.filter(topic=topic).current().filter(unchecked)
    return rows.order_by(Coalesce(F("confirmed_at"), F("created")), "position")


def register() -> None:
    """Register staleness with memory, whose pages and prompts show facts."""
    if days_by_topic not in topic_memory.STALE_AFTER:
        topic_memory.STALE_AFTER.append(days_by_topic)
