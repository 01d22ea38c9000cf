"""Real worker and beat processes against loopback services: prompts and recurrence."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from tests.faults.outside import KEY, MODEL_KEY, PLAN_MARK, Outside
from tests.faults.person import PASSWORD, Person
from tests.faults.processes import Site, site

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

TOPIC = "Harbour cranes"


@pytest.fixture
def outside() -> Iterator[Outside]:
    with Outside() as made:
        yield made


@pytest.fixture
def beacon(outside: Outside) -> Iterator[Site]:
    # The interpreter's own warnings (that the tests run as root) aren't lines of the log.
    quiet = {"BEACON_LOG_FORMAT": "json", "PYTHONWARNINGS": "ignore"}
    with site(**outside.variables, **quiet) as made:
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


@pytest.mark.requirement("R236")
def test_every_line_of_every_process_is_json_with_its_ids_and_without_a_secret(
    beacon: Site, outside: Outside
):
    beacon.start_beat()
    base, mcp = beacon.start_web(), beacon.start_mcp()
    number, planted = "number-of-the-press", "planted-secret-0123456789"
    beacon.act("topics", TOPIC)
    person = Person(base)
    for path in (f"/memory/?q={planted}", f"/shared/{planted}/", f"/topics/{planted}/"):
        httpx.get(base + path, headers={"Authorization": f"Bearer {planted}"})
    answer = httpx.post(mcp, headers={"Authorization": f"Bearer bcn_{planted}"}, json={})
    person.number(number)
    started = person.post("/topics/harbour-cranes/run/")
    beacon.wait_for_run(1, 120)

    assert answer.status_code == 401 and answer.headers["X-Request-ID"]
    assert started.headers["X-Request-ID"] == number
    said = beacon.logs()
    bare = [line for line in said.splitlines() if line.strip() and not line.startswith("{")]
    assert "\n".join(bare) == ""
    lines = [json.loads(line) for line in said.splitlines() if line.strip()]
    by_run = [line for line in lines if line.get("run") and line["process"] == "worker"]
    assert {line["process"] for line in lines} >= {"web", "worker", "mcp"}
    assert any(line.get("request_id") == number and line.get("task_id") for line in by_run)
    assert [secret for secret in (planted, KEY, MODEL_KEY, PASSWORD) if secret in said] == []


@pytest.mark.long
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


def test_a_connection_that_a_proxy_keeps_is_not_closed_under_its_next_request(beacon: Site):
    address = urlsplit(beacon.start_web())
    kept = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
    try:
        kept.request("GET", "/livez")
        kept.getresponse().read()
        line = kept.sock
        time.sleep(4)  # gunicorn's own would be 2

        kept.request("GET", "/livez")
        assert kept.getresponse().status == 200
        assert kept.sock is line is not None  # else it had connected again
    finally:
        kept.close()
