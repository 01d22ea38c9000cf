"""Runs by REST: starting one at a time, watching, cancelling, and reading results."""

from __future__ import annotations

from typing import Any

import pytest

from memory.models import Topic
from research.models import Report, Run
from research.services.runs.execution import starting
from tests.api.cast import Program, items, problem
from tests.research import factories

AGENT = "agent:desk"


@pytest.fixture
def topic(alice: Any) -> Topic:
    """Alice's topic, not researched yet."""
    return factories.make_topic(alice, "One")


def test_a_run_is_queued_and_its_address_told(agent: Program, topic: Topic) -> None:
    answer = agent.send("POST", "/topics/one/runs")

    run = Run.objects.get()
    assert answer.status_code == 202
    assert answer["Location"] == f"/api/v1/runs/{run.pk}"
    told = answer.json()
    assert (told["id"], told["topic"], told["number"]) == (run.pk, "one", None)
    assert (told["status"], told["trigger"], told["actor"]) == ("queued", "agent", "agent:desk")
    assert agent.get(f"/runs/{run.pk}").json() == told


def test_it_takes_a_depth_or_nothing(agent: Program, topic: Topic) -> None:
    assert agent.post("/topics/one/runs", {"depth": "quick"}).json()["depth"] == "quick"
    problem(agent.post("/topics/one/runs", {"depth": "bottomless"}), 422)


@pytest.mark.requirement("R53")
def test_while_one_is_unfinished_another_is_refused_and_that_one_named(
    agent: Program, topic: Topic
) -> None:
    first = agent.post("/topics/one/runs").json()
    answer = agent.post("/topics/one/runs")

    assert problem(answer, 409)["run"] == first["id"]
    assert answer["Location"] == f"/api/v1/runs/{first['id']}"
    assert Run.objects.count() == 1


def test_an_archived_topic_is_not_run(agent: Program, alice: Any, topic: Topic) -> None:
    topic.archive(by=alice.actor)

    assert "archive" in problem(agent.post("/topics/one/runs"), 409)["detail"]


@pytest.mark.requirement("R233")
def test_past_the_hours_runs_it_says_how_long_to_wait(
    agent: Program, topic: Topic, settings: Any
) -> None:
    settings.BEACON_RUNS_PER_HOUR = 1
    agent.post("/topics/one/runs")
    Run.objects.update(status="failed")

    answer = agent.post("/topics/one/runs")

    problem(answer, 429)
    assert 0 < int(answer["Retry-After"]) <= 3600


def test_the_steps_and_counts_of_a_run_are_reported(
    agent: Program, alice: Any, topic: Topic
) -> None:
    run = factories.make_run(topic)
    factories.make_steps(run)

    told = agent.get(f"/runs/{run.pk}").json()

    assert (told["number"], told["is_baseline"]) == (1, True)
    counts = {"new": 2, "known": 1, "returning": 0, "read": 2, "unsupported": 0}
    assert told["counts"] == counts
    assert [step["name"] for step in told["steps"]][:2] == ["load_memory", "plan"]
    assert told["steps"][0]["state"] == "done"


def test_whether_it_is_a_baseline_is_reported_once_it_is_known(
    agent: Program, topic: Topic
) -> None:
    """A run's row starts as one, no matter what its topic's memory says later."""
    factories.make_run(topic)

    told = agent.post("/topics/one/runs").json()

    assert (told["number"], told["is_baseline"]) == (None, None)


def test_runs_are_listed_the_latest_first(agent: Program, topic: Topic) -> None:
    ids = [factories.make_run(topic).pk for _number in range(3)]

    told = items(agent.get("/topics/one/runs"))

    assert [run["id"] for run in told] == ids[::-1]
    assert "steps" not in told[0]


# --- what is done to one ------------------------------------------------------------------------------


def test_a_queued_run_is_cancelled_and_then_has_ended(agent: Program, topic: Topic) -> None:
    run = agent.post("/topics/one/runs").json()["id"]

    assert agent.post(f"/runs/{run}/cancel").json()["status"] == "cancelled"
    assert "cancelled" in problem(agent.post(f"/runs/{run}/cancel"), 409)["detail"]
    problem(agent.post(f"/runs/{run}/stop"), 409)


def test_a_running_run_is_asked_to_stop(agent: Program, topic: Topic) -> None:
    run = factories.make_run(topic, saved=False, actor=AGENT)

    assert agent.post(f"/runs/{run.pk}/stop").json()["status"] == "running"
    run.refresh_from_db()
    assert run.stop_requested_at is not None


def test_a_failed_run_is_retried_under_its_id(agent: Program, topic: Topic) -> None:
    run = factories.make_run(topic, saved=False, status="failed", actor=AGENT)

    answer = agent.post(f"/runs/{run.pk}/retry")

    assert (answer.status_code, answer.json()["status"]) == (202, "queued")
    assert answer["Location"] == f"/api/v1/runs/{run.pk}"


def test_a_saved_run_is_not_retried(agent: Program, topic: Topic) -> None:
    run = factories.make_run(topic, actor=AGENT)

    problem(agent.post(f"/runs/{run.pk}/retry"), 409)


def test_a_retry_from_a_step_that_was_not_finished_is_refused(agent: Program, topic: Topic) -> None:
    run = factories.make_run(topic, saved=False, status="failed", actor=AGENT)

    told = problem(agent.post(f"/runs/{run.pk}/retry", {"step": "read"}), 422)

    assert "read" in told["errors"]["step"][0]


def test_a_retry_waits_for_the_run_in_progress(agent: Program, topic: Topic) -> None:
    failed = factories.make_run(topic, saved=False, status="failed", actor=AGENT)
    other = starting.start_run(topic, trigger="person", by=topic.owner.actor)

    answer = agent.post(f"/runs/{failed.pk}/retry")

    problem(answer, 409)
    assert answer["Location"] == f"/api/v1/runs/{other.pk}"


@pytest.mark.parametrize("act", ["cancel", "stop", "retry"])
def test_a_run_that_someone_else_started_is_left_alone(
    agent: Program, topic: Topic, act: str
) -> None:
    run = factories.make_run(topic, saved=False, status="failed" if act == "retry" else "running")

    told = problem(agent.post(f"/runs/{run.pk}/{act}"), 403)

    assert f"didn’t start run {run.pk}" in told["detail"]
    run.refresh_from_db()
    assert (run.stop_requested_at, run.cancel_requested_at) == (None, None)


def test_a_run_that_a_person_retried_is_theirs(
    agent: Program, person: Program, topic: Topic
) -> None:
    run = factories.make_run(topic, saved=False, status="failed", actor="agent:desk")
    assert person.post(f"/runs/{run.pk}/retry").status_code == 202

    for act in ("cancel", "stop", "retry"):
        assert "A person retried" in problem(agent.post(f"/runs/{run.pk}/{act}"), 403)["detail"]
    run.refresh_from_db()
    assert (run.status, run.cancel_requested_at) == ("queued", None)
    assert person.post(f"/runs/{run.pk}/cancel").status_code == 200


# --- what it wrote --------------------------------------------------------------------------------


def test_a_report_is_json_with_its_delta_next_to_the_body(agent: Program, topic: Topic) -> None:
    run = factories.make_second_run(topic)
    Report.objects.filter(run=run).update(summary="It opens in March [3].")

    told = agent.get(f"/runs/{run.pk}/report").json()

    assert told["summary"] == "It opens in March."
    assert (told["number"], told["run"], told["topic"]) == (2, run.pk, "one")
    assert told["delta"] not in told["body"]
    assert told["delta_heading"] == "What Changed Since Last Week"
    assert [item["status"] for item in told["delta_items"]][:3] == [
        "contradicted", "changed", "new",
    ]  # fmt: skip
    first = told["delta_items"][0]
    assert (first["needs_review"], first["previous_source"]) == (False, None)
    assert first["source"]["domain"] == told["sources"][1]["domain"]
    assert told["delta_items"][0]["previous"] == "Asynchronous I/O is off by default everywhere."
    assert [source["n"] for source in told["sources"]] == [1, 2]
    assert told["sources"][0]["quotes"][0]["found"] is True


def test_by_accept_it_is_the_markdown_that_the_page_exports(agent: Program, topic: Topic) -> None:
    run = factories.make_second_run(topic)

    for path in (f"/runs/{run.pk}/report", "/topics/one/reports/2"):
        answer = agent.get(path, Accept="text/markdown")

        assert answer["Content-Type"] == "text/markdown; charset=utf-8"
        assert answer.content.decode() == run.report.as_markdown()
        assert "Accept" in answer["Vary"].split(", ")


def test_by_its_number_it_is_the_same_report(agent: Program, topic: Topic) -> None:
    run = factories.make_second_run(topic)

    same = agent.get("/topics/one/reports/2").json()

    assert same == agent.get(f"/runs/{run.pk}/report").json()
    problem(agent.get("/topics/one/reports/7"), 404)


@pytest.mark.parametrize("status", ["running", "failed"])
def test_a_report_that_is_not_written_shows_the_runs_state(
    agent: Program, topic: Topic, status: str
) -> None:
    run = factories.make_run(topic, saved=False, status=status)

    assert problem(agent.get(f"/runs/{run.pk}/report"), 404)["detail"] == f"run is {status}"


def test_a_stranger_finds_no_run(stranger: Program, topic: Topic) -> None:
    run = factories.make_run(topic)
    factories.make_report(run)

    for path in ("", "/report"):
        problem(stranger.get(f"/runs/{run.pk}{path}"), 404)
    for act in ("cancel", "stop", "retry"):
        problem(stranger.post(f"/runs/{run.pk}/{act}"), 404)


def test_a_number_that_no_run_can_have_is_not_found(agent: Program) -> None:
    problem(agent.get(f"/runs/{10**30}"), 404)
    problem(agent.get("/runs/0"), 404)
    problem(agent.get("/topics/one/reports/" + "9" * 40), 404)
