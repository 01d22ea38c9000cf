"""Clock changes: one run for each local time, and missed runs follow the schedule's policy.

Processes add nothing here: the tick hands the time to `start_due`, which these tests do themselves.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from research.models import Run, Schedule
from research.services.runs.execution import starting
from research.services.schedules import scheduling
from tests.conftest import Say

pytestmark = [pytest.mark.faults, pytest.mark.django_db]

BERLIN, SYDNEY = "Europe/Berlin", "Australia/Sydney"


def _topic(owner: Any, start: datetime, **schedule: Any) -> Any:
    topic = starting.create_topic(owner=owner, title="Harbour", by=owner.actor)
    fields = {"preset": "cron", "missed": Schedule.Missed.ONCE} | schedule
    Schedule.objects.filter(pk=topic.pk).update(**fields)
    row = Schedule.objects.get(pk=topic.pk)
    Schedule.objects.filter(pk=topic.pk).update(next_run_at=scheduling.next_run(row, start))
    return topic


def _ticks(*times: datetime, every: timedelta = timedelta(minutes=15)) -> list[datetime]:
    """Tick from each time to the next (all in pairs), end every run at once; return their slots."""
    slots = []
    for start, end in zip(times[::2], times[1::2], strict=True):
        at = start
        while at <= end:
            for run in scheduling.start_due(at):
                Run.objects.filter(pk=run.pk).update(status="failed", finished_at=at)
                slots.append(run.scheduled_for)
            at += every
    return slots


def _utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


CLOCKS = {
    "02:30 on a morning without 02:30 (Berlin, spring)": (
        BERLIN, "30 2 * * *", (_utc(2026, 3, 28, 12), _utc(2026, 3, 30, 2)), 2,
    ),
    "02:30 on a night with two (Berlin, autumn)": (
        BERLIN, "30 2 * * *", (_utc(2026, 10, 24, 12), _utc(2026, 10, 26, 3)), 2,
    ),
    "02:30 on a morning without 02:30 (Sydney, spring)": (
        SYDNEY, "30 2 * * *", (_utc(2026, 10, 3, 6), _utc(2026, 10, 4, 18)), 2,
    ),
    "02:30 on a night with two (Sydney, autumn)": (
        SYDNEY, "30 2 * * *", (_utc(2026, 4, 4, 6), _utc(2026, 4, 5, 18)), 2,
    ),
    "every hour of a night with an extra hour": (
        BERLIN, "0 * * * *", (_utc(2026, 10, 24, 22, 30), _utc(2026, 10, 25, 3, 30)), 5,
    ),
    "29 February, in two years": (
        "UTC", "0 7 29 2 *", (_utc(2027, 2, 28, 6), _utc(2027, 3, 1, 8), _utc(2028, 2, 29, 6), _utc(2028, 3, 1, 8)), 1,
    ),
    "a clock set back by 3 hours to before a scheduled time": (
        "UTC", "0 7 * * *", (_utc(2026, 6, 1, 6), _utc(2026, 6, 1, 8), _utc(2026, 6, 1, 5), _utc(2026, 6, 1, 9)), 1,
    ),
    "a clock set forward by a day and back again": (
        "UTC", "0 7 * * *", (_utc(2026, 6, 1, 6), _utc(2026, 6, 1, 8), _utc(2026, 6, 2, 6), _utc(2026, 6, 2, 8),
                             _utc(2026, 6, 1, 8), _utc(2026, 6, 2, 9)), 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOCKS)
def test_each_local_slot_is_one_run_whatever_the_clock_does(alice: Any, say: Say, name: str):
    zone, cron, times, slots = CLOCKS[name]
    _topic(alice, times[0], time_zone=zone, cron=cron)
    found = _ticks(*times)
    say(name, "one run for each local time", f"slots: {slots}, runs: {len(found)}")

    assert len(found) == slots
    assert len(set(found)) == slots


@pytest.mark.parametrize(
    ("missed", "hours", "wanted"),
    [("once", 9, 1), ("once", 24 * 4 + 9, 1), ("skip", 9, 0), ("skip", 24 * 4 + 9, 0)],
)
def test_what_was_missed_in_hours_off_follows_the_schedule(
    alice: Any, say: Say, missed: str, hours: int, wanted: int
):
    off = _utc(2026, 6, 1, 6)
    back = off + timedelta(hours=hours, minutes=2)
    _topic(alice, off, time_zone="UTC", cron="0 7 * * *", missed=missed)
    at_once = _ticks(back, back + timedelta(minutes=40))
    the_next_day = _ticks(back + timedelta(minutes=45), back + timedelta(hours=24))
    say(
        f"off for {hours} h over its scheduled times, the schedule set to “{missed}”",
        "missed runs follow the topic's policy",
        f"runs when back: {len(at_once)}, the next day: {len(the_next_day)}",
    )

    assert (len(at_once), len(the_next_day)) == (wanted, 1)
