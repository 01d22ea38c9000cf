"""For how long facts went unchecked, where that is longer than their topic allows.

How long a topic allows is research's to say, which has settings and schedules: it registers here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import ngettext

from memory.models import TopicFact

LEAST_DAYS = 30
# Each is given ids of topics, and returns after how many days without a check facts are stale.
STALE_AFTER: list[Callable[[Iterable[Any]], dict[Any, int]]] = []


def checked_at(fact: TopicFact) -> datetime:
    """Return when the fact was last held against a source, or written."""
    return fact.confirmed_at or fact.created


def days_since(fact: TopicFact) -> int:
    """Return for how many whole days the fact went unchecked."""
    return max(0, (timezone.now() - checked_at(fact)).days)


def stale_days(facts: Sequence[TopicFact]) -> dict[Any, int]:
    """Return for each stale current fact, by its id, for how many days it went unchecked.

    One query at most; none while all were checked today.
    """
    ages = {fact.pk: days_since(fact) for fact in facts if fact.state == TopicFact.State.CURRENT}
    topics = {fact.pk: fact.topic_id for fact in facts if ages.get(fact.pk)}
    if not topics:
        return {}
    allowed: dict[Any, int] = {}
    for ask in STALE_AFTER:
        allowed |= ask(set(topics.values()))
    return {
        key: ages[key]
        for key, topic in topics.items()
        if ages[key] >= allowed.get(topic, LEAST_DAYS)
    }


def in_words(days: int) -> str:
    """Return how long ago a fact was checked."""
    return ngettext("last checked %(n)d day ago", "last checked %(n)d days ago", days) % {"n": days}
