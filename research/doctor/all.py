"""What research has the doctor look at."""

from __future__ import annotations

from memory.doctor import examining, triggers
from research.doctor import deliveries, leftovers, runs, schedules
from research.models import TopicNews


def register() -> None:
    """Tell the doctor, in the order in which it looks."""
    triggers.AFTER_MENDING[:] = [count_news_anew]
    for part in (runs, schedules, deliveries, leftovers):
        examining.register(*part.EXAMINATIONS)


def count_news_anew() -> None:
    """Let what lists tell of unread reports be counted again: a trigger may have missed a change."""
    TopicNews.objects.update(counted=None)
