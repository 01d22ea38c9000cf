"""What a retry carries out again, and what it keeps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memory.models import SeenUrl, Topic
from research import starting
from research.models import Run
from research.starting import NotNow
from tests.research import cast
from tests.research.conftest import Providers

RunOf = Callable[[Topic], Run]


def _boom() -> None:
    raise ValueError("a bug")


def _failed_at(step: str, topic: Topic, act: Callable[[Run], object] = lambda run: None) -> Run:
    """Return a run that fails at `step`, after `act`."""
    run = cast.started(topic)

    def fail() -> None:
        act(run)
        _boom()

    with cast.before_step(step, fail), pytest.raises(ValueError):
        cast.carried_out(run)
    run.refresh_from_db()
    assert run.status == "failed"
    return run


@pytest.mark.requirement("R37", "R41", "R43")
def test_a_run_retried_after_a_newer_one_begins_anew_and_tells_no_old_news(
    topic: Topic, providers: Providers, run_of: RunOf
):
    cast.set_up(providers, 1)
    run_of(topic)
    cast.set_up(providers, 1, 2)
    old = _failed_at("write", topic)
    run_of(topic)

    starting.retry_run(old, by=topic.owner.actor)
    cast.carried_out(old)

    assert (old.number, old.new_count) == (3, 0)
    assert old.report.is_quiet
    assert "Run #2" in old.report.delta_since


def test_a_stopped_run_that_is_retried_reads_what_it_had_left(topic: Topic, providers: Providers):
    cast.set_up(providers, 1, 2, 3)

    def stop(run: Run) -> None:
        run.ask_to_stop(by=topic.owner.actor)

    run = cast.started(topic)
    with (
        cast.before_step("read", lambda: stop(run)),
        cast.before_step("write", _boom),
        pytest.raises(ValueError),
    ):
        cast.carried_out(run)

    starting.retry_run(run, by=topic.owner.actor)
    cast.carried_out(run)

    assert (run.status, run.read_count, run.warnings) == ("succeeded", 3, [])
    assert SeenUrl.objects.count() == 3


def test_a_run_of_an_archived_topic_cannot_be_retried(topic: Topic, providers: Providers):
    cast.set_up(providers, 1)
    run = _failed_at("write", topic)
    topic.refresh_from_db()
    topic.archive(by=topic.owner.actor)
    run.topic.refresh_from_db()

    with pytest.raises(NotNow, match="archived"):
        starting.retry_run(run, by=topic.owner.actor)


def test_the_time_of_a_step_that_is_done_again_is_its_own(topic: Topic, providers: Providers):
    cast.set_up(providers, 1)
    run = _failed_at("write", topic)
    run.retry(by=topic.owner.actor)

    step = run.steps.get(name="write")
    assert (step.started_at, step.finished_at) == (None, None)
