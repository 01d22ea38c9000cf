"""Making topics and starting their runs, and when that is refused."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.utils import timezone

from beacon_site.providers.search import sample
from memory.models import Topic
from memory.models.errors import InvalidValue
from research.models import Run, RunAlreadyActive, Schedule, TopicSettings
from research.services.runs.execution import starting
from research.services.runs.execution.starting import RunNotAllowed
from tests.research import cast
from tests.research.factories import make_call

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def start(topic: Topic) -> Run:
    return starting.start_run(topic, trigger="person", by=topic.owner.actor)


def ran(topic: Topic, *, minutes_ago: int) -> Run:
    """Return a cancelled run that was started by hand some time ago."""
    run = start(topic)
    run.request_cancel(by=topic.owner.actor)
    ago = timezone.now() - timedelta(minutes=minutes_ago)
    Run.objects.filter(pk=run.pk).update(created=ago)
    return run


def test_a_topic_is_created_with_its_settings_and_schedule(alice: Any):
    alice.time_zone = "Europe/Berlin"

    topic = starting.create_topic(
        owner=alice,
        title="Cells",
        by=alice.actor,
        settings={"objective": "Why"},
        schedule={"preset": "daily"},
    )

    assert (topic.settings.objective, topic.schedule.preset) == ("Why", "daily")  # type: ignore[attr-defined]
    assert topic.schedule.time_zone == "Europe/Berlin"  # type: ignore[attr-defined]


def test_a_topic_that_cannot_be_named_so_leaves_nothing_behind(alice: Any):
    with pytest.raises(InvalidValue):
        starting.create_topic(owner=alice, title="  ", by=alice.actor)

    assert not Topic.objects.exists()
    assert not TopicSettings.objects.exists()
    assert not Schedule.objects.exists()


def test_the_sample_topic_is_created_once(alice: Any):
    made = [starting.create_sample_topic(alice, by=alice.actor) for _time in range(2)]

    assert made[0] == made[1]
    assert made[0].title == sample.SAMPLE_TITLE
    assert made[0].settings.services == ["sample"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("place", ["trash", "archive"])
def test_a_sample_topic_that_was_trashed_is_restored(alice: Any, place: str):
    put_away = starting.create_sample_topic(alice, by=alice.actor)
    getattr(put_away, place)(by=alice.actor)

    topic = starting.create_sample_topic(alice, by=alice.actor)

    assert (topic, topic.trashed_at, topic.archived_at) == (put_away, None, None)
    assert start(topic).status == "queued"


def test_a_topic_of_ones_own_is_not_run_as_the_sample(alice: Any):
    starting.create_topic(owner=alice, title=sample.SAMPLE_TITLE, by=alice.actor)

    with pytest.raises(InvalidValue, match="that isn’t the sample"):
        starting.create_sample_topic(alice, by=alice.actor)


@pytest.mark.django_db(transaction=True)
def test_two_who_ask_for_the_sample_at_once_get_the_same(
    alice: Any, monkeypatch: pytest.MonkeyPatch
):
    both, check, made = threading.Barrier(2), Topic.check_title, []

    def checked(topic: Topic) -> None:
        check(topic)
        both.wait(10)

    def ask() -> None:
        made.append(starting.create_sample_topic(alice, by=alice.actor))
        connection.close()

    monkeypatch.setattr(Topic, "check_title", checked)
    threads = [threading.Thread(target=ask) for _time in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert made == [Topic.objects.get()] * 2


@pytest.mark.requirement("R52", "R55")
def test_a_started_run_is_a_row_that_waits_and_a_nudge_after_the_commit(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
):
    nudged: list[int] = []
    monkeypatch.setattr(Run, "wake", lambda self: nudged.append(self.pk))

    with django_capture_on_commit_callbacks(execute=True):
        run = start(topic)
        assert nudged == []

    assert (run.status, run.number, nudged) == ("queued", None, [run.pk])


@pytest.mark.parametrize(
    ("act", "says"), [("trash", "in Trash. Restore it"), ("archive", "archived. Unarchive it")]
)
def test_a_topic_that_is_trashed_is_not_run_and_says_what_to_do(topic: Topic, act: str, says: str):
    getattr(topic, act)(by=topic.owner.actor)

    with pytest.raises(RunNotAllowed, match=says):
        start(topic)


@pytest.mark.requirement("R233")
def test_more_runs_an_hour_than_allowed_are_refused_with_a_reason(topic: Topic, settings: Any):
    settings.BEACON_RUNS_PER_HOUR = 2
    topic.owner.time_zone = "Asia/Tokyo"
    with time_machine.travel(NOON, tick=False):
        for minutes in (50, 40):
            ran(topic, minutes_ago=minutes)

        with pytest.raises(RunNotAllowed) as refused:
            start(topic)

    assert str(refused.value) == (
        "You’ve reached the limit of 2 runs per hour. You can start the next run at 21:10 (in 10 min). Scheduled runs aren’t affected."
    )
    assert refused.value.retry_after == 600


@pytest.mark.requirement("R233")
def test_a_retry_by_hand_counts_as_a_start(topic: Topic, settings: Any):
    settings.BEACON_RUNS_PER_HOUR = 2
    run = ran(topic, minutes_ago=90)
    for _time in range(2):
        starting.retry_run(run, by=topic.owner.actor)
        run.request_cancel(by=topic.owner.actor)

    with pytest.raises(RunNotAllowed, match="limit of 2 runs per hour"):
        starting.retry_run(run, by=topic.owner.actor)
    with pytest.raises(RunNotAllowed, match="limit of 2 runs per hour"):
        start(topic)


def test_where_the_limit_is_none_at_all_no_run_starts_and_that_is_explained(
    topic: Topic, settings: Any
):
    settings.BEACON_RUNS_PER_HOUR = 0

    with pytest.raises(RunNotAllowed, match="the limit is 0 per hour"):
        start(topic)


@pytest.mark.parametrize(
    ("most", "says"),
    [
        (5, []),
        (4, ["You can start 3 more runs this hour. The limit is 4."]),
        (2, ["You can start 1 more run this hour. The limit is 2."]),
    ],
)
def test_when_few_runs_are_left_of_the_hour_it_is_explained(
    topic: Topic, settings: Any, most: int, says: list[str]
):
    settings.BEACON_RUNS_PER_HOUR = most
    ran(topic, minutes_ago=5)

    assert starting.describe_limits(topic.owner) == says


def test_a_month_whose_budget_is_used_up_is_told_before_a_run_starts(topic: Topic):
    topic.owner.monthly_tokens = 100
    make_call(ran(topic, minutes_ago=70))

    (words,) = starting.describe_limits(topic.owner)
    assert words == (
        "The monthly limit of 100 tokens has been reached. Until next month, runs plan and "
        "write without the model."
    )


@pytest.mark.requirement("R233")
def test_runs_of_the_schedule_and_of_others_do_not_count_against_a_person(
    topic: Topic, bob: Any, settings: Any
):
    settings.BEACON_RUNS_PER_HOUR = 1
    other = starting.create_topic(owner=bob, title="Bob's", by=bob.actor)
    start(other)
    Run.objects.start(topic, trigger="schedule", by=topic.owner.actor).request_cancel(
        by=topic.owner.actor
    )

    assert start(topic).status == "queued"


@pytest.mark.requirement("R53")
@pytest.mark.django_db(transaction=True)
def test_of_ten_starts_at_once_one_run_comes(topic: Topic, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Run, "wake", lambda self: True)
    refused: list[RunAlreadyActive] = []

    def press() -> None:
        try:
            start(Topic.objects.get(pk=topic.pk))
        except RunAlreadyActive as exc:
            refused.append(exc)
        finally:
            connection.close()

    presses = [threading.Thread(target=press) for _time in range(10)]
    for thread in presses:
        thread.start()
    for thread in presses:
        thread.join()

    assert Run.objects.count() == 1
    assert len(refused) == 9
    assert all(exc.run == Run.objects.get() for exc in refused)


@pytest.mark.requirement("R53")
@pytest.mark.django_db(transaction=True)
def test_of_ten_claims_at_once_one_worker_gets_the_run(topic: Topic):
    run, got = cast.started(topic), []

    def claim(name: str) -> None:
        got.append(Run.objects.claim(run.pk, worker=name) is not None)
        connection.close()

    workers = [threading.Thread(target=claim, args=(f"w{n}",)) for n in range(10)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()

    assert sorted(got) == [False] * 9 + [True]
    run.refresh_from_db()
    assert run.attempt == 1
