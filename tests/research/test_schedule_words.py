"""Schedules on real clocks, rejected ones, and their descriptions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from memory.models.errors import InvalidValue
from research.models import Schedule
from research.services.schedules import scheduling
from research.services.schedules.scheduling import check_cron, describe, next_slots

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)


def schedule_of(line: str, zone: str = "Europe/Berlin") -> Schedule:
    return Schedule(preset="cron", cron=line, time_zone=zone)


def local(slots: list[datetime]) -> list[str]:
    return [f"{slot.astimezone(BERLIN):%d.%m. %H:%M%z}" for slot in slots]


# --- clocks ---------------------------------------------------------------------------------------


def test_an_hour_that_the_clock_skips_runs_once_when_the_new_time_begins():
    slots = next_slots(schedule_of("30 2 * * *"), datetime(2026, 3, 28, 12, tzinfo=UTC), 2)

    assert local(slots) == ["29.03. 03:00+0200", "30.03. 02:30+0200"]


def test_several_times_in_a_skipped_hour_are_one_run():
    slots = next_slots(schedule_of("*/30 2 * * *"), datetime(2026, 3, 28, 12, tzinfo=UTC), 2)

    assert local(slots) == ["29.03. 03:00+0200", "30.03. 02:00+0200"]


@pytest.mark.parametrize("line", ["30 2 * * *", "*/30 2 * * *"])
def test_an_hour_that_comes_twice_runs_once(line: str):
    slots = next_slots(schedule_of(line), datetime(2026, 10, 24, 12, tzinfo=UTC), 4)

    on_that_night = [text for text in local(slots) if text.startswith("25.10.")]
    assert on_that_night == sorted(set(on_that_night))
    assert all(text.endswith("+0200") for text in on_that_night)


def test_a_line_for_every_hour_misses_none_when_clocks_go_back():
    slots = next_slots(schedule_of("0 * * * *"), datetime(2026, 10, 24, 23, 30, tzinfo=UTC), 4)

    gaps = [after - before for before, after in pairwise(slots)]
    assert gaps == [timedelta(hours=1)] * 3


def test_half_an_hour_of_summer_time_is_understood():
    late = schedule_of("15 2 * * *", "Australia/Lord_Howe")

    (slot,) = next_slots(late, datetime(2026, 10, 3, 12, tzinfo=UTC), 1)

    assert slot == datetime(2026, 10, 3, 15, 30, tzinfo=UTC)  # 02:00 becomes 02:30


def test_the_29th_of_february_waits_for_leap_years():
    slots = next_slots(schedule_of("0 9 29 2 *", "UTC"), MONDAY, 3)

    assert [slot.year for slot in slots] == [2028, 2032, 2036]


def test_the_last_day_of_the_month_is_another_each_month():
    monthly = Schedule(preset="monthly", cron="0 7 L * *", time_zone="UTC")

    assert [slot.day for slot in next_slots(monthly, MONDAY, 4)] == [30, 31, 31, 28]


def test_a_topic_run_by_hand_has_no_next_runs():
    assert next_slots(Schedule(preset="none"), MONDAY) == []


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("0 9 30 2 *", "would never run"),
        ("0 9 31 4,6 *", "would never run"),
        ("* * * * *", "15 minutes"),
        ("*/10 9 * * *", "15 minutes"),
        ("0,59 0,23 * * *", "15 minutes"),
        ("61 9 * * *", "minute (0 to 59)"),
        ("0 9 * * FUNDAY", "weekday"),
        ("every monday", "5 fields"),
        ("", "5 fields"),
        ("0 0 9 * * *", "5 fields"),
        ("１ ９ * * *", "minute"),
        ("0 9 " + ",".join(["1"] * 60) + " * *", "at most 100"),
    ],
)
def test_a_line_that_cannot_be_is_refused_with_a_reason(line: str, words: str):
    with pytest.raises(InvalidValue) as refused:
        check_cron(line, "UTC")

    assert words in str(refused.value)
    assert "cron" in refused.value.errors


def test_a_time_zone_that_does_not_exist_is_refused_with_an_example():
    with pytest.raises(InvalidValue) as refused:
        check_cron("0 9 * * *", "Europe/Atlantis")

    assert "Europe/Berlin" in refused.value.errors["time_zone"][0]


@pytest.mark.parametrize("zone", ["../../etc/passwd", "", "Europe", "a\x00b"])
def test_what_isnt_a_zone_name_is_refused_too(zone: str):
    with pytest.raises(InvalidValue):
        check_cron("0 9 * * *", zone)


@pytest.mark.parametrize("line", ["*/15 * * * *", "0,59 0,23 1 * *", "0 7 * * mon-fri"])
def test_a_line_that_keeps_the_least_gap_is_taken(line: str):
    assert check_cron(f"  {line} ", "UTC") == line.upper()


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"preset": "none"}, "manually"),
        ({"preset": "daily", "hour": 6}, "every day at 06:00 (UTC)"),
        ({"preset": "weekdays"}, "every weekday at 07:00 (UTC)"),
        ({"preset": "weekly", "weekday": 0}, "every Sunday at 07:00 (UTC)"),
        ({"preset": "monthly", "day": "L"}, "on the last day of every month at 07:00 (UTC)"),
        ({"preset": "cron", "cron": "0 9 * * 1#3"}, "at 09:00, on the third Monday of the month"),
    ],
)
def test_a_schedule_reads_as_a_phrase(chosen: dict[str, Any], words: str):
    fields = scheduling.schedule_fields(time_zone="UTC", **chosen)

    assert describe(Schedule(**fields)).startswith(words)


def test_the_form_finds_hour_weekday_and_day_again():
    fields = scheduling.schedule_fields(preset="weekly", time_zone="UTC", hour=22, weekday=5)

    assert scheduling.choices_of(Schedule(**fields)) == {"hour": 22, "weekday": 5, "day": "1"}
