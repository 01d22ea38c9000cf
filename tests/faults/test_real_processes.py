"""Real worker and beat processes against loopback services: prompts, recurrence, kills."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from tests.faults.processes import Site, site
from tests.providers.servers import ScriptedChatServer, SerpApiServer, slow

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

KEY = "serp-secret-key-98765"
MODEL_KEY = "sk-model-secret-key-4321"
TOPIC = "Harbour cranes"


class Outside:
    """The loopback model, SerpAPI and web site of this file."""

    def __init__(self, chat: ScriptedChatServer, serp: SerpApiServer, web: HTTPServer) -> None:
        self.chat, self.serp, self.web = chat, serp, web
        chat.standing = self._answer
        self.publish(
            1, "The harbour at Varna ordered 14 electric cranes for 31 million euros in May."
        )

    def publish(self, number: int, sentence: str) -> None:
        """Put a page on the web and let the search find it beside the earlier ones."""
        page = f"<html><title>Page {number}</title><body><article><h1>Page {number}</h1><p>{sentence}</p></article></body></html>"
        self.web.expect_request(f"/page/{number}").respond_with_data(page, content_type="text/html")
        link = self.web.url_for(f"/page/{number}")
        self.serp.results = [
            *self.serp.results,
            {"position": number, "title": f"Page {number}", "link": link, "snippet": sentence},
        ]

    def _answer(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = "\n".join(str(m["content"]) for m in body["messages"])
        if '{"queries"' in prompt:
            return {"queries": ["harbour cranes", "harbour cranes orders"]}
        page = prompt.rsplit("<<<", 1)[1].split(">>>", 1)[0]
        sentence = next(line for line in page.splitlines() if "harbour" in line.lower()).strip()
        return {
            "summary": f"{sentence} [1]",
            "body": f"{sentence} [1]",
            "findings": [{"sentence": sentence, "citations": [1], "quote": sentence}],
        }

    def prompts(self, mark: str) -> list[str]:
        """Return the prompts that hold `mark`, in order."""
        return [asked.prompt for asked in self.chat.asked if mark in asked.prompt]


@pytest.fixture
def outside() -> Iterator[Outside]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    web = HTTPServer(host="127.0.0.1", port=0, threaded=True)
    web.start()
    try:
        with ScriptedChatServer() as chat, SerpApiServer(key=KEY) as serp:
            yield Outside(chat, serp, web)
    finally:
        web.stop()


@pytest.fixture
def beacon(outside: Outside) -> Iterator[Site]:
    with site(
        BEACON_LLM_BASE_URL=outside.chat.base_url,
        BEACON_LLM_MODEL="loopback-model",
        OPENAI_API_KEY=MODEL_KEY,
        SERPAPI_BASE_URL=outside.serp.base_url,
        SERPAPI_API_KEY=KEY,
        BEACON_SEARCH="serpapi",
        BEACON_FETCH_ALLOW_HOSTS=f"127.0.0.1:{outside.web.port}",
    ) as made:
        made.start_worker()
        yield made


@pytest.mark.requirement("R33", "R34", "R37", "R38", "R55", "R236", "R238")
def test_two_runs_ask_real_http_services_what_the_seeds_ask(beacon: Site, outside: Outside):
    first = beacon.manage("research", TOPIC, "--wait")
    outside.publish(
        2, "The harbour at Gdynia opened a second crane terminal on 9 June with 120 workers."
    )
    second = beacon.manage("research", TOPIC, "--wait")

    plan, write = outside.prompts('{"queries"')[1], outside.prompts('"findings"')[1]
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
        beacon.wait_for_run(number)

    runs = beacon.rows("SELECT number, trigger, status FROM research_run ORDER BY number")
    assert runs[1:] == [(2, "schedule", "succeeded"), (3, "schedule", "succeeded")]
    assert beacon.value("SELECT count(*) FROM research_report") == 3


def test_a_run_whose_worker_is_killed_goes_on_behind_its_last_finished_step(
    beacon: Site, outside: Outside
):
    asked = outside.chat.asked
    outside.chat.enqueue(lambda request: outside.chat.stand(request), slow(60))
    beacon.manage("research", TOPIC)
    beacon.wait(lambda: len(asked) == 2)  # planned, and now writing
    beacon.kill("worker")
    began = time.monotonic()
    beacon.start_beat()
    beacon.start_worker("second")

    assert beacon.wait_for_run(1, seconds=180) == "succeeded"
    assert time.monotonic() - began < 2 * 90  # reliability.md 4: within 90 s
    assert len(outside.prompts('{"queries"')) == 1
    assert len(outside.serp.asked) == 2
    assert beacon.value("SELECT count(*) FROM research_report") == 1
    assert beacon.value("SELECT crashes FROM research_run") == 1


def test_a_worker_that_is_told_to_stop_lets_its_run_go_at_once(beacon: Site, outside: Outside):
    outside.chat.enqueue(lambda request: outside.chat.stand(request), slow(60))
    beacon.manage("research", TOPIC)
    beacon.wait(lambda: len(outside.chat.asked) == 2)

    assert beacon.terminate("worker") < 2 * 20  # reliability.md 4: within 20 s
    assert beacon.value("SELECT status FROM research_run") == "queued"
    beacon.start_worker("second")
    beacon.start_beat()

    assert beacon.wait_for_run(1, seconds=120) == "succeeded"
    assert beacon.value("SELECT crashes FROM research_run") == 0
