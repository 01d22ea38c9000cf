"""Queued work is a row: a lost message delays a run, but never loses it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.conf import settings as site
from django.utils import timezone

from beacon_site import celery
from beacon_site.celery import app
from beacon_site.net.errors import ProviderUnavailable
from memory.models import Activity, Topic
from research import tasks
from research.models import Run, Step
from research.services.runs.context.run_context import StepKind, StepResult
from research.services.runs.execution import pipeline, starting
from research.services.schedules import scheduling
from tests.research import cast
from tests.research.conftest import Providers


@pytest.fixture(params=["closed", "silent"])
def no_redis(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A broker whose port is closed, or that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1] if request.param == "silent" else 1
        url = f"redis://127.0.0.1:{port}/0"
        original = app.connection_for_write
        monkeypatch.setattr(app, "connection_for_write", lambda **more: original(url=url, **more))
        yield


@pytest.fixture
def queue() -> Iterator[redis.Redis]:
    """The broker of the tests, its queues empty."""
    with redis.Redis.from_url(site.REDIS_URL) as opened:
        opened.delete("research", "reflect")
        yield opened
        opened.delete("research", "reflect")


@pytest.mark.requirement("R56")
def test_without_redis_a_nudge_costs_less_than_a_second_and_the_run_waits(
    topic: Topic, no_redis: None
):
    run, began = cast.started(topic), time.monotonic()

    assert not run.wake()

    assert time.monotonic() - began < 1
    run.refresh_from_db()
    assert (run.status, run.nudged_at) == ("queued", None)


@pytest.mark.requirement("R55", "R56")
def test_the_tick_sends_what_could_not_be_sent(topic: Topic, queue: redis.Redis):
    run = cast.started(topic)

    tasks.tick()

    run.refresh_from_db()
    assert queue.llen("research") == 1
    assert run.nudged_at is not None


def test_a_run_that_was_nudged_lately_is_not_sent_again(topic: Topic, queue: redis.Redis):
    run = cast.started(topic)
    tasks.tick()
    tasks.tick()
    assert queue.llen("research") == 1

    Run.objects.filter(pk=run.pk).update(nudged_at=timezone.now() - timedelta(seconds=61))
    tasks.tick()

    assert queue.llen("research") == 2


def test_where_the_broker_is_gone_a_dispatch_ends_at_its_first_run(
    alice: Any, monkeypatch: pytest.MonkeyPatch
):
    for n in range(3):
        cast.started(starting.create_topic(owner=alice, title=f"Topic {n}", by=alice.actor))
    asked: list[int] = []

    monkeypatch.setattr(Run, "wake", lambda self: bool(asked.append(self.pk)))

    assert (Run.objects.dispatch(), len(asked)) == (0, 1)


def test_a_run_whose_time_has_not_come_is_not_sent(topic: Topic, queue: redis.Redis):
    run = cast.started(topic)
    Run.objects.filter(pk=run.pk).update(not_before=timezone.now() + timedelta(minutes=1))

    assert (Run.objects.dispatch(), queue.llen("research")) == (0, 0)


def test_the_tick_frees_a_stalled_run_and_sends_it(topic: Topic, queue: redis.Redis):
    run = cast.started(topic)
    Run.objects.claim(run.pk, worker="one")
    cast.lose_lease(run)

    tasks.tick()

    run.refresh_from_db()
    assert (run.status, run.crashes, queue.llen("research")) == ("queued", 1, 1)


def test_the_tick_starts_what_is_due(topic: Topic, monkeypatch: pytest.MonkeyPatch):
    started: list[Any] = []
    monkeypatch.setattr(scheduling, "start_due", lambda at: started.append(at) or [])

    tasks.tick()

    assert len(started) == 1


# --- follow-ups ------------------------------------------------------------------------------------


@pytest.fixture
def follow_up(
    topic: Topic, providers: Providers, monkeypatch: pytest.MonkeyPatch
) -> tuple[Step, list[Any]]:
    """A follow-up of a saved run, and what its function is to give, in order."""
    answers: list[Any] = []

    def function(work: Any) -> StepResult:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return StepResult({"n": answer}, "done", {"n": answer})

    monkeypatch.setattr(pipeline, "FOLLOW_UPS", [StepKind("extract", "Extract", function)])
    cast.set_up(providers, 1)
    run = cast.carried_out(cast.started(topic))
    return run.steps.get(is_follow_up=True), answers


def due(step: Step) -> Step:
    Step.objects.filter(pk=step.pk, state="waiting").update(not_before=timezone.now())
    step.refresh_from_db()
    return step


def test_a_follow_up_is_sent_and_carried_out_once(
    follow_up: tuple[Step, list[Any]], queue: redis.Redis
):
    step, answers = follow_up
    answers += [7]

    Step.objects.dispatch()
    assert queue.llen("reflect") == 1
    tasks.run_follow_up(step.pk)
    tasks.run_follow_up(step.pk)

    step.refresh_from_db()
    assert (step.state, step.output, answers) == ("done", {"n": 7}, [])


def test_a_follow_up_that_fails_three_times_is_a_warning_on_its_run(
    follow_up: tuple[Step, list[Any]],
):
    step, answers = follow_up
    answers += [ProviderUnavailable("busy")] * 3
    for state in ("waiting", "waiting", "failed"):
        pipeline.run_follow_up(due(step).pk)
        step.refresh_from_db()
        assert step.state == state

    run = Run.objects.get(pk=step.run_id)
    assert (run.status, run.warnings) == ("succeeded", ["extract failed: busy"])
    assert Activity.objects.filter(kind="follow-up-failed").count() == 1


def test_an_unforeseen_error_in_a_follow_up_is_raised_and_tried_again(
    follow_up: tuple[Step, list[Any]],
):
    step, answers = follow_up
    answers += [KeyError("what"), 1]

    with pytest.raises(KeyError):
        pipeline.run_follow_up(step.pk)
    assert due(step).warning == "KeyError: 'what'"
    pipeline.run_follow_up(step.pk)

    step.refresh_from_db()
    assert (step.state, step.warning) == ("done", "")


def test_a_follow_up_that_no_longer_exists_is_skipped(
    follow_up: tuple[Step, list[Any]], monkeypatch: pytest.MonkeyPatch
):
    step, _answers = follow_up
    monkeypatch.setattr(pipeline, "FOLLOW_UPS", [])

    assert pipeline.run_follow_up(step.pk)

    step.refresh_from_db()
    assert step.state == "skipped"


def test_a_dispatch_stops_at_a_follow_up_that_the_broker_does_not_take(
    follow_up: tuple[Step, list[Any]], no_redis: None
):
    assert Step.objects.dispatch() == 0


def test_while_no_one_takes_messages_no_more_are_sent(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, queue: redis.Redis
) -> None:
    cast.started(topic)
    monkeypatch.setattr(celery, "MAX_WAITING", 0)
    assert Run.objects.dispatch() == 0

    monkeypatch.setattr(celery, "MAX_WAITING", 1_000_000)
    assert Run.objects.dispatch() == 1


def test_a_redis_that_is_away_is_not_full(settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"

    assert not celery.is_full("research")
