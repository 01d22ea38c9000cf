"""Real worker and beat processes against loopback services: prompts and recurrence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.outside import KEY, MODEL_KEY, PLAN_MARK, Outside
from tests.faults.processes import Site, site

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

TOPIC = "Harbour cranes"


@pytest.fixture
def outside() -> Iterator[Outside]:
    with Outside() as made:
        yield made


@pytest.fixture
def beacon(outside: Outside) -> Iterator[Site]:
    with site(**outside.variables) as made:
        made.start_worker()
        yield made


@pytest.mark.requirement("R33", "R34", "R37", "R38", "R55", "R236", "R238")
def test_two_runs_ask_real_http_services_what_the_seeds_ask(beacon: Site, outside: Outside):
    first = beacon.manage("research", TOPIC, "--wait")
    outside.publish(
        2, "The harbour at Gdynia opened a second crane terminal on 9 June with 120 workers."
    )
    second = beacon.manage("research", TOPIC, "--wait")

    plan, write = outside.prompts(PLAN_MARK)[1], outside.prompts('"findings"')[1]
    assert "Run #1" in first.stdout
    assert "Gdynia" in second.stdout.split("What Changed Since Last Week")[1]
    assert "14 electric cranes" in plan
    assert "DELTA report" in write
    assert "14 electric cranes" in write.split("Topic: ")[0]
    assert "14 electric cranes" not in write.split("Topic: ")[1]
    assert {asked["engine"] for asked in outside.serp.asked} == {"google"}
    said = beacon.logs() + first.stderr + second.stderr + first.stdout + second.stdout
    assert KEY not in said
    assert MODEL_KEY not in said


@pytest.mark.requirement("R54", "R55")
def test_a_recurring_topic_really_runs_again_by_beat_each_time_with_its_report(
    beacon: Site, outside: Outside
):
    beacon.manage("research", TOPIC, "--wait")
    beacon.start_beat()
    for number in (2, 3):
        outside.publish(
            number,
            f"The harbour number {number} bought {number * 11} cranes this year, its owner said.",
        )
        beacon.rows(
            "UPDATE research_schedule SET preset = 'daily', cron = '0 7 * * *', next_run_at = now()"
        )
        beacon.wait_for_run(number, 120)  # twice what is promised

    runs = beacon.rows("SELECT number, trigger, status FROM research_run ORDER BY number")
    assert runs[1:] == [(2, "schedule", "succeeded"), (3, "schedule", "succeeded")]
    assert beacon.value("SELECT count(*) FROM research_report") == 3
