"""The runs that are to come: when, at what probable cost, and where several begin at once."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice, takewhile

from cronsim import CronSimError

from research.models import Schedule
from research.schedules import scheduling

A_MONTH = timedelta(days=30)
MOST_SLOTS = 3_000  # of a month: one every 15 minutes has 2,880


def slots_until(schedule: Schedule, after: datetime, until: datetime) -> list[datetime]:
    """Return the moments within (after, until] at which the schedule is due, paused or not.

    None for a line that cannot be read: the tick says so in the log.
    """
    try:
        found = takewhile(lambda slot: slot <= until, scheduling.slots_of(schedule, after))
        return list(islice(found, MOST_SLOTS))
    except CronSimError:
        return []


def runs_a_month(schedule: Schedule, now: datetime) -> int:
    """Return how many runs the schedule starts within thirty days."""
    return len(slots_until(schedule, now, now + A_MONTH))
