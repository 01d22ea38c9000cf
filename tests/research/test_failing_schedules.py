"""A schedule whose runs keep failing pauses itself once, and says so."""

from __future__ import annotations

from django.utils import timezone

from memory.models import Activity, Topic
from research.models import Delivery, Run, Schedule
from research.services.schedules import scheduling
from tests.research.factories import make_run
from tests.research.notice_cast import email


def fail(topic: Topic, times: int) -> None:
    scheduling.set_schedule(topic, by=topic.owner.actor, preset="daily", time_zone="UTC")
    for number in range(times):
        make_run(
            topic, saved=False, status="failed", trigger="schedule", error=f"why {number}",
            finished_at=timezone.now(),
        )  # fmt: skip


def test_five_failures_in_a_row_pause_it_and_are_reported(topic: Topic):
    email(topic.owner)
    fail(topic, 5)

    assert scheduling.pause_failing() == 1

    assert Schedule.objects.get().paused
    [notice] = Delivery.objects.all()
    assert "why 4" in notice.message and notice.topic == topic
    assert Activity.objects.filter(kind="schedule-failing", is_warning=True).exists()


def test_four_are_borne_and_one_that_was_saved_between_breaks_the_row(topic: Topic):
    fail(topic, 4)
    assert scheduling.pause_failing() == 0
    make_run(topic)
    fail(topic, 2)

    assert scheduling.pause_failing() == 0


def test_a_person_who_resumes_it_is_not_overruled_by_the_same_failure(topic: Topic):
    fail(topic, 5)
    scheduling.pause_failing()
    scheduling.set_paused(topic, paused=False, by=topic.owner.actor)

    assert scheduling.pause_failing() == 0
    assert Run.objects.count() == 5
