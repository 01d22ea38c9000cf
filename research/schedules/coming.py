"""Upcoming runs: their times, and changes made in the calendar."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice, takewhile

from cronsim import CronSimError

from memory.core.actors import Actor
from memory.models import Activity, Topic
from research.models import Schedule
from research.schedules import scheduling

A_MONTH = timedelta(days=30)
MOST_SLOTS = 3_000  # per month; one every 15 minutes is 2,880


def slots_until(schedule: Schedule, after: datetime, until: datetime) -> list[datetime]:
    """Return the times within (after, until] at which the schedule is due, paused or not.

    None for an invalid cron expression, which the tick logs.
    """
    try:
        found = takewhile(lambda slot: slot <= until, scheduling.slots_of(schedule, after))
        return list(islice(found, MOST_SLOTS))
    except CronSimError:
        return []


def runs_a_month(schedule: Schedule, now: datetime) -> int:
    """Return how many runs the schedule starts within 30 days."""
    return len(slots_until(schedule, now, now + A_MONTH))


# --- rescheduling ---


def hour_of(schedule: Schedule) -> int | None:
    """Return the hour of a schedule, or None if it has several or none."""
    fields = schedule.cron.split()
    is_single = len(fields) == 5 and fields[1].isascii() and fields[1].isdigit()
    return int(fields[1]) if is_single and schedule.preset != Schedule.Preset.NONE else None


def move_to_hour(topic: Topic, hour: int, *, by: Actor) -> int | None:
    """Move the topic to another hour of the same days. Return the previous hour.

    Returns None and changes nothing if the schedule has no single hour or the hour is invalid.
    """
    schedule = Schedule.objects.filter(topic=topic).first()
    was = hour_of(schedule) if schedule is not None else None
    if schedule is None or was is None or hour not in scheduling.HOURS:
        return None
    fields = schedule.cron.split()
    fields[1] = str(hour)
    scheduling.set_schedule(
        topic,
        by=by,
        preset=schedule.preset,
        cron=" ".join(fields),
        time_zone=schedule.time_zone,
        missed=schedule.missed,
        paused=schedule.paused,
    )
    return was


def set_missed(topic: Topic, choice: str, *, by: Actor) -> str | None:
    """Set what happens to missed runs. Return the previous value, or None if nothing changed."""
    recurring = Schedule.objects.filter(topic=topic).exclude(preset=Schedule.Preset.NONE)
    schedule = recurring.exclude(missed=choice).first()
    if schedule is None or not recurring.filter(missed=schedule.missed).update(missed=choice):
        return None
    schedule_words = str(Schedule.Missed(choice).label)
    Activity.log(topic.owner, by, "schedule-set", subject=topic, schedule=schedule_words)
    return str(schedule.missed)
