"""Schedules: settings, expiry, and how the tick starts runs."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.db import connections
from django.utils import timezone

from beacon_site.worker_threads import FINDS_NOTHING
from memory.models import Activity, Topic
from memory.models.actors import SYSTEM
from research.models import Run, Schedule
from research.pages import topic_list
from research.services.runs import presenters
from research.services.runs.execution.starting import create_topic
from research.services.schedules import cron, scheduling
from research.services.schedules.scheduling import next_slots
from research.tasks import tick

pytestmark = pytest.mark.usefixtures("no_broker")

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)


def schedule_of(line: str, zone: str = "Europe/Berlin") -> Schedule:
    return Schedule(preset="cron", cron=line, time_zone=zone)


def local(slots: list[datetime]) -> list[str]:
    return [f"{slot.astimezone(BERLIN):%d.%m. %H:%M%z}" for slot in slots]


@pytest.fixture
def weekly(alice: Any) -> Topic:
    """Due on Mondays at 07:00 UTC, made the Saturday before."""
    with time_machine.travel(datetime(2026, 11, 21, tzinfo=UTC), tick=False):
        fields = scheduling.schedule_fields(preset="weekly", time_zone="UTC")
        return create_topic(owner=alice, title="Weekly", by=alice.actor, schedule=fields)


# --- expiry ---------------------------------------------------------------------------------------


def test_memory_of_a_weekly_topic_lives_thirty_days(weekly: Topic):
    assert scheduling.memory_lifetime(weekly) == timedelta(days=30)


def test_memory_of_a_quarterly_topic_lives_twice_its_longest_gap(weekly: Topic):
    scheduling.set_schedule(weekly, by=SYSTEM, preset="cron", cron="0 9 1 */3 *", time_zone="UTC")

    assert scheduling.memory_lifetime(weekly) == timedelta(days=2 * 92)


def test_the_beat_leaves_the_tick_out_until_a_topic_is_due(weekly: Topic):
    due = weekly.schedule.next_run_at
    with time_machine.travel(due - timedelta(seconds=1), tick=False):
        assert FINDS_NOTHING[tick.name]()
    with time_machine.travel(due, tick=False):
        assert not FINDS_NOTHING[tick.name]()


# --- people ---------------------------------------------------------------------------------------


@time_machine.travel(MONDAY, tick=False)
def test_setting_a_schedule_says_when_the_next_run_is_and_who_set_it(weekly: Topic, alice: Any):
    schedule = scheduling.set_schedule(
        weekly, by=alice.actor, preset="daily", hour=6, time_zone="UTC"
    )

    assert schedule.next_run_at == datetime(2026, 11, 24, 6, tzinfo=UTC)
    assert Activity.objects.get(kind="schedule-set").actor == "human:alice"


def test_what_fell_due_in_a_pause_is_not_caught_up_with(weekly: Topic, alice: Any):
    scheduling.set_paused(weekly, paused=True, by=alice.actor)
    with time_machine.travel(MONDAY, tick=False):
        assert scheduling.start_due() == []
        scheduling.set_paused(weekly, paused=False, by=alice.actor)
        assert scheduling.start_due() == []

    weekly.schedule.refresh_from_db()
    assert weekly.schedule.next_run_at == datetime(2026, 11, 30, 7, tzinfo=UTC)


def test_pausing_twice_is_told_from_pausing(weekly: Topic, alice: Any):
    assert scheduling.set_paused(weekly, paused=True, by=alice.actor)
    assert not scheduling.set_paused(weekly, paused=True, by=alice.actor)


# --- the tick -------------------------------------------------------------------------------------


@pytest.mark.requirement("R54")
def test_a_recurring_topic_really_runs_again(weekly: Topic):
    slots = []
    for week in range(3):
        (run,) = scheduling.start_due(MONDAY + timedelta(weeks=week))
        Run.objects.filter(pk=run.pk).update(status=Run.Status.SUCCEEDED, number=week + 1)
        slots.append(run.scheduled_for)

    assert slots == [datetime(2026, 11, 23, 7, tzinfo=UTC) + timedelta(weeks=w) for w in range(3)]
    assert scheduling.start_due(MONDAY + timedelta(weeks=2)) == []


@pytest.mark.requirement("R54")
def test_a_scheduled_run_says_what_started_it(weekly: Topic):
    (run,) = scheduling.start_due(MONDAY)

    assert (run.trigger, run.actor, run.status) == ("schedule", "research", "queued")


def test_a_due_schedule_looks_no_further_ahead_than_its_next_slot(
    weekly: Topic, monkeypatch: pytest.MonkeyPatch
):
    seen: list[datetime] = []
    slots = cron.slots

    def counted(*args: Any) -> Iterator[datetime]:
        for slot in slots(*args):
            seen.append(slot)
            yield slot

    monkeypatch.setattr(cron, "slots", counted)

    assert len(scheduling.start_due(MONDAY)) == 1
    assert len(seen) <= 3


def test_nothing_starts_before_its_time(weekly: Topic):
    assert scheduling.start_due(datetime(2026, 11, 23, 6, 59, tzinfo=UTC)) == []


def test_of_two_beats_one_starts_the_run(weekly: Topic):
    seen_by_both = Schedule.objects.select_related("topic__owner", "topic__settings").get()

    first = scheduling.start_due(MONDAY)
    second = scheduling._take(seen_by_both, MONDAY)

    assert (len(first), second, Run.objects.count()) == (1, None, 1)


@pytest.mark.django_db(transaction=True)
def test_two_beats_at_the_very_same_time_start_one_run(weekly: Topic):
    def beat(_number: int) -> int:
        try:
            return len(scheduling.start_due(MONDAY))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(beat, range(4))) == 1
    assert Activity.objects.filter(kind="schedule-skipped").count() == 0


def test_for_all_that_was_missed_one_run_comes(weekly: Topic):
    (run,) = scheduling.start_due(MONDAY + timedelta(weeks=3, days=2))

    assert run.scheduled_for == datetime(2026, 11, 23, 7, tzinfo=UTC)
    weekly.schedule.refresh_from_db()
    assert weekly.schedule.next_run_at == datetime(2026, 12, 21, 7, tzinfo=UTC)


HOURLY = "0 * * * *"
OFF = [  # how long Beacon was off starting at 07:00, the line, how many slots were missed
    (timedelta(minutes=10), HOURLY, 0),
    (timedelta(minutes=20), HOURLY, 1),
    (timedelta(hours=3, minutes=30), HOURLY, 4),
    (timedelta(hours=3, minutes=5), HOURLY, 3),  # the fourth is on time
    (timedelta(days=2, minutes=30), HOURLY, 49),
    (timedelta(weeks=3, minutes=30), "0 7 * * 1", 4),
    (timedelta(weeks=52), "* * * * *", 500),  # counted no further
]


def off_for(topic: Topic, line: str, gone: timedelta, **fields: Any) -> list[Run]:
    """Return what starts when the schedule's tick comes after Beacon was off so long."""
    due = datetime(2026, 11, 23, 7, tzinfo=UTC)
    chosen = {"preset": "cron", "cron": line, "next_run_at": due, **fields}
    Schedule.objects.filter(topic=topic).update(**chosen)
    return scheduling.start_due(due + gone)


@pytest.mark.requirement("R54")
@pytest.mark.parametrize(("gone", "line", "missed"), OFF)
def test_hours_days_and_weeks_off_are_caught_up_with_by_one_run_that_says_so(
    weekly: Topic, gone: timedelta, line: str, missed: int
):
    (run,) = off_for(weekly, line, gone)

    assert (run.missed_slots, Run.objects.count()) == (missed, 1)
    lines = Activity.objects.filter(kind="schedule-caught-up")
    assert [entry.detail["slots"] for entry in lines] == ([missed] if missed else [])
    assert scheduling.start_due(datetime(2026, 11, 23, 7, tzinfo=UTC) + gone) == []


@pytest.mark.requirement("R54")
@pytest.mark.parametrize(("gone", "line", "missed"), OFF)
def test_where_the_schedule_skips_what_was_missed_only_a_slot_on_time_is_run(
    weekly: Topic, gone: timedelta, line: str, missed: int
):
    started = off_for(weekly, line, gone, missed="skip")

    is_on_time = (line, missed) in ((HOURLY, 0), (HOURLY, 3), ("* * * * *", 500))
    assert [run.missed_slots for run in started] == ([0] if is_on_time else [])
    lines = Activity.objects.filter(kind="schedule-skipped")
    assert [entry.detail["slots"] for entry in lines] == ([missed] if missed else [])


@pytest.mark.parametrize(
    ("night", "line", "missed"),
    [
        (datetime(2026, 3, 29, 0, tzinfo=UTC), "30 2 * * *", 1),  # the hour that is skipped
        (datetime(2026, 10, 25, 0, tzinfo=UTC), "30 2 * * *", 1),  # the hour that comes twice
        (datetime(2026, 3, 29, 0, tzinfo=UTC), HOURLY, 10),
        (datetime(2026, 10, 25, 0, tzinfo=UTC), HOURLY, 10),
    ],
)
def test_off_over_the_night_when_clocks_change_each_slot_is_missed_once(
    weekly: Topic, night: datetime, line: str, missed: int
):
    due = next_slots(schedule_of(line), night - timedelta(minutes=1), 1)[0]
    Schedule.objects.filter(topic=weekly).update(
        preset="cron", cron=line, time_zone="Europe/Berlin", next_run_at=due
    )

    (run,) = scheduling.start_due(due + timedelta(hours=9, minutes=30))

    assert run.missed_slots == missed


@pytest.mark.django_db(transaction=True)
def test_two_beats_that_come_back_at_once_catch_up_once(weekly: Topic):
    def beat(_number: int) -> int:
        try:
            return len(scheduling.start_due(MONDAY + timedelta(weeks=2)))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(beat, range(4))) == 1
    assert Activity.objects.filter(kind="schedule-caught-up").count() == 1


def test_the_topic_can_say_for_a_week_what_happened(weekly: Topic):
    off_for(weekly, HOURLY, timedelta(hours=2, minutes=30))
    notice = topic_list.head_of(topic_list.topics_of(weekly.owner).get(pk=weekly.pk))["notice"]

    assert notice is not None and not notice["is_warning"]
    assert (
        notice["words"]
        == "3 scheduled runs were missed while Beacon was off, so Beacon started one run to catch up"
    )
    Activity.objects.update(created=timezone.now() - timedelta(days=8))
    assert (
        topic_list.head_of(topic_list.topics_of(weekly.owner).get(pk=weekly.pk))["notice"] is None
    )


def test_the_run_says_what_it_catches_up_with(weekly: Topic):
    (run,) = off_for(weekly, HOURLY, timedelta(hours=2, minutes=30))

    assert presenters.started_by(run) == "on schedule, catching up on 3 missed runs"


def test_a_schedule_that_skips_says_so_and_moves_on(weekly: Topic):
    Schedule.objects.update(missed="skip")

    assert scheduling.start_due(MONDAY + timedelta(hours=3)) == []

    assert "missed" in Activity.objects.get(kind="schedule-skipped").detail["why"]
    weekly.schedule.refresh_from_db()
    assert weekly.schedule.next_run_at == datetime(2026, 11, 30, 7, tzinfo=UTC)


def test_a_schedule_that_skips_still_takes_the_slot_that_is_on_time(weekly: Topic):
    Schedule.objects.update(missed="skip")

    (run,) = scheduling.start_due(datetime(2026, 12, 7, 7, 5, tzinfo=UTC))

    assert run.scheduled_for == datetime(2026, 12, 7, 7, tzinfo=UTC)


@pytest.mark.requirement("R53")
def test_a_slot_that_meets_an_unfinished_run_is_skipped_with_a_warning(weekly: Topic, alice: Any):
    Run.objects.start(weekly, trigger="person", by=alice.actor)

    assert scheduling.start_due(MONDAY) == []

    line = Activity.objects.get(kind="schedule-skipped")
    assert line.is_warning
    assert "in progress" in line.detail["why"]
    weekly.schedule.refresh_from_db()
    assert weekly.schedule.next_run_at == datetime(2026, 11, 30, 7, tzinfo=UTC)


@pytest.mark.parametrize("act", ["archive", "trash"])
def test_a_topic_in_trash_is_not_run(weekly: Topic, alice: Any, act: str):
    getattr(weekly, act)(by=alice.actor)

    assert scheduling.start_due(MONDAY) == []


def test_a_schedule_that_cannot_be_read_stops_no_other(weekly: Topic, alice: Any):
    broken = create_topic(owner=alice, title="Broken", by=alice.actor)
    due = MONDAY - timedelta(days=1)
    Schedule.objects.filter(topic=broken).update(preset="cron", cron="nonsense", next_run_at=due)

    assert [run.topic for run in scheduling.start_due(MONDAY)] == [weekly]
    assert Activity.objects.get(kind="schedule-unreadable").is_warning
