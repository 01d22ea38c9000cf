"""The doctor looks at follow-ups, schedules and the numbers of runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memory.doctor.checkup import GOOD, WARN
from memory.models import Topic, User
from research.models import Run, Schedule, Step
from research.running import following_up
from research.schedules import scheduling
from tests.doctor_cast import _no_word_is_left, asked, is_found_and_mended  # noqa: F401
from tests.research.factories import make_run, make_topic

LONG_AGO = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _tells_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("research.outbox.send", lambda *args, **kwargs: True)


def follow_up(topic: Topic, **more: Any) -> Any:
    fields = {"name": "summarise", "is_follow_up": True, **more}
    return Step.objects.create(run=make_run(topic), **fields)


def lost(topic: Topic, attempt: int) -> Any:
    ago = timezone.now() - LONG_AGO
    return follow_up(topic, state="running", attempt=attempt, lease_until=ago)


def every_morning(topic: Topic) -> Schedule:
    return scheduling.set_schedule(topic, by=topic.owner.actor, preset="daily", time_zone="UTC")


# --- follow-ups -----------------------------------------------------------------------------------


def test_a_follow_up_whose_worker_is_gone_waits_for_another(topic: Topic) -> None:
    step = lost(topic, attempt=1)

    is_found_and_mended("follow-ups", "1 follow-up of a run is carried out by a worker")
    step.refresh_from_db()
    assert (step.state, step.attempt) == (Step.State.WAITING, 1)


def test_follow_ups_that_nobody_takes_are_told_and_what_is_fresh_or_done_is_not(
    topic: Topic,
) -> None:
    follow_up(topic)
    follow_up(topic, name="extract", state="done", not_before=timezone.now() - LONG_AGO)
    assert asked("follow-ups").state == GOOD
    Step.objects.filter(state="waiting").update(not_before=timezone.now() - LONG_AGO)

    found = asked("follow-ups", fix=True)
    assert (found.state, "more than half an hour: 1" in found.said) == (WARN, True)


def test_a_follow_up_that_kills_its_workers_is_given_up_after_three(topic: Topic) -> None:
    step = lost(topic, attempt=3)

    assert following_up.carry_out_follow_up(step.pk)
    step.refresh_from_db()
    assert step.state == Step.State.FAILED
    assert "summarise failed: the worker was lost 3 times" in Run.objects.get().warnings[0]
    assert not following_up.carry_out_follow_up(step.pk)


# --- schedules ------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [None, timedelta(days=3), timedelta(minutes=1)])
def test_a_schedule_that_waits_for_a_wrong_moment_waits_for_its_next_run(
    topic: Topic, wrong: timedelta | None
) -> None:
    right = every_morning(topic).next_run_at
    moment = timezone.now() + wrong if wrong else None
    Schedule.objects.update(next_run_at=moment)

    is_found_and_mended("schedules", "1 schedule waits for another moment than its next run")
    assert Schedule.objects.get().next_run_at == right


def test_what_is_paused_put_away_or_run_by_hand_waits_for_nothing(topic: Topic) -> None:
    every_morning(topic)
    scheduling.set_paused(topic, paused=True, by=topic.owner.actor)
    assert asked("schedules").state == GOOD
    scheduling.set_paused(topic, paused=False, by=topic.owner.actor)
    scheduling.set_schedule(topic, by=topic.owner.actor, preset="none", time_zone="UTC")
    assert asked("schedules").state == GOOD


def test_a_line_that_cannot_be_read_is_its_owners_to_set_anew(topic: Topic) -> None:
    every_morning(topic)
    Schedule.objects.update(cron="99 99 * * *", next_run_at=None)

    found = asked("schedules", fix=True)
    assert (found.state, found.mended) == (WARN, "")
    assert "cannot be read: 1" in found.said and "set them anew" in found.todo


def test_runs_that_are_late_are_told_and_left_to_the_tick(topic: Topic) -> None:
    every_morning(topic)
    ago = timezone.now() - LONG_AGO
    Schedule.objects.update(next_run_at=ago)

    found = asked("schedules", fix=True)
    assert (found.state, found.mended) == (WARN, "")
    assert "due more than half an hour ago: 1" in found.said
    assert Schedule.objects.get().next_run_at == ago


# --- numbers of runs ------------------------------------------------------------------------------


def test_a_topic_that_counted_fewer_runs_than_it_has_counts_on_from_the_last(
    alice: User, topic: Topic
) -> None:
    for _number in range(4):
        make_run(topic)
    Topic.objects.filter(pk=topic.pk).update(run_count=2)
    ahead = make_topic(alice, title="Ahead")
    Topic.objects.filter(pk=ahead.pk).update(run_count=9)

    is_found_and_mended("run-numbers", "1 topic has counted fewer runs")
    topic.refresh_from_db()
    ahead.refresh_from_db()
    assert (topic.run_count, ahead.run_count) == (4, 9)
