"""Rules for every kind of leased job: one holder, a fence, a limit of crashes, and repeated messages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.db.models import F
from django.utils import timezone

from beacon_site import celery
from beacon_site.db import leased_jobs
from beacon_site.worker_threads import FINDS_NOTHING
from memory.accounts.archive import exporter
from memory.accounts.archive import jobs as archives
from memory.agents.chat import conversation
from memory.agents.chat import end as conversation_end
from memory.models import Archive, BackupFile, BulkAction, Message, Reflection, Topic
from memory.pages.records import bulk
from memory.services import backups
from research import tasks
from research.models import Delivery, Run, Step
from research.tasks import minute_tick, tick
from tests.research import cast
from tests.research.factories import make_run
from tests.research.notice_cast import body_in_style, email, saved_run


def _reflection(topic: Topic) -> Reflection:
    session = conversation.start(topic.owner, "Tea")
    conversation_end.end(session, by=topic.owner.actor)
    return Reflection.objects.get(source=f"session:{session.pk}")


def _step(topic: Topic) -> Step:
    run = make_run(topic)
    return Step.objects.create(run=run, name="extract", position=9, is_follow_up=True)


def _delivery(topic: Topic) -> Delivery:
    email(topic.owner)
    return body_in_style(saved_run(topic, "A fact."))[0]


def _answer(topic: Topic) -> Message:
    session = conversation.start(topic.owner, "Tea")
    return conversation.ask(session, "Tea?", by=topic.owner.actor)


MADE: dict[type, Callable[[Topic], Any]] = {
    Archive: lambda topic: archives.ask_export(topic.owner),
    BackupFile: lambda topic: backups.ask(topic.owner)[0],
    BulkAction: lambda topic: bulk.ask(topic.owner, "notes", "pin", query=""),
    Delivery: _delivery,
    Message: _answer,
    Reflection: _reflection,
    Run: cast.started,
    Step: _step,
}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The messages to workers."""
    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr(celery, "send", lambda *told, queue: not found.append((*told, queue)))
    return found


@pytest.fixture(params=MADE, ids=lambda kind: kind.__name__)
def job(request: pytest.FixtureRequest, topic: Topic, sent: list[Any]) -> Any:
    """A waiting job of each kind."""
    return MADE[request.param](topic)


def claimed(job: Any) -> Any:
    return type(job).objects.claim(job.pk)


def lose(job: Any) -> None:
    type(job).objects.update(lease_until=timezone.now() - timedelta(seconds=1))


def test_every_kind_is_tested_here():
    assert set(leased_jobs.kinds()) == set(MADE)


def test_only_kinds_with_unfinished_jobs_are_swept(job: Any, django_assert_num_queries: Any):
    with django_assert_num_queries(1):
        assert type(job) in leased_jobs.unfinished_kinds()
    type(job).objects.all().delete()
    assert type(job) not in leased_jobs.unfinished_kinds()


def test_the_beat_leaves_the_tick_out_only_while_nothing_is_unfinished(job: Any):
    assert not FINDS_NOTHING[tick.name]()
    type(job).objects.all().delete()
    assert FINDS_NOTHING[tick.name]()


@pytest.mark.django_db
def test_a_tick_that_finds_nothing_takes_few_queries(django_assert_max_num_queries: Any):
    with django_assert_max_num_queries(2):
        tick()
    with django_assert_max_num_queries(10):
        minute_tick()


def test_of_two_claims_one_gets_the_job(job: Any):
    assert claimed(job) is not None
    assert claimed(job) is None


def test_a_worker_that_lost_its_lease_changes_nothing(job: Any):
    first = claimed(job)
    lose(job)
    second = claimed(job)

    assert not first.renew()
    assert not first.end("failed")
    assert not first.release()
    with pytest.raises(leased_jobs.JobLost):
        first.put(crashes=0)
    assert second.renew()
    assert second.crashes == 1


def test_the_job_of_a_lost_worker_waits_again_and_a_message_is_sent_once(
    job: Any, sent: list[tuple[Any, ...]]
):
    claimed(job)
    assert type(job).objects.sweep() == 0
    lose(job)
    assert type(job).objects.sweep() == 1
    sent.clear()

    assert (type(job).objects.dispatch(), type(job).objects.dispatch()) == (1, 0)
    key = job.pk if isinstance(job.pk, int) else str(job.pk)
    assert sent == [(job.TASK, key, job.QUEUE)]


def test_a_job_that_loses_three_workers_is_given_up(job: Any):
    for _time in range(3):
        last = claimed(job)
        lose(job)

    assert claimed(job) is None
    assert type(job).objects.sweep() == 1
    job.refresh_from_db()
    assert (job.is_unfinished, job.crashes, job.lease_until) == (False, 3, None)
    assert not last.renew()


def test_a_renewed_lease_is_not_swept(job: Any):
    held = claimed(job)
    lose(job)
    assert held.renew()

    assert type(job).objects.sweep() == 0
    assert held.release()


@pytest.mark.usefixtures("sent")
def test_a_job_that_cannot_be_given_up_holds_up_no_other(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
):
    stuck, other = (bulk.ask(topic.owner, "notes", "pin", query="") for _n in range(2))
    for job in (stuck, other):
        claimed(job)
    lose(stuck)
    BulkAction.objects.filter(pk=stuck.pk).update(crashes=2)

    def broken(_act: BulkAction) -> None:
        raise OSError("read-only")

    monkeypatch.setattr(BulkAction, "give_up", broken)
    with structlog.testing.capture_logs() as lines:
        assert BulkAction.objects.sweep() == 1

    assert [line["pk"] for line in lines] == [str(stuck.pk)]
    stuck.refresh_from_db()
    other.refresh_from_db()
    assert (stuck.state, stuck.crashes, other.state) == ("running", 2, "waiting")


@pytest.mark.usefixtures("sent", "topic")
def test_the_log_of_a_tick_names_the_part_that_failed(monkeypatch: pytest.MonkeyPatch):
    def broken() -> None:
        raise OSError("no")

    monkeypatch.setattr(BulkAction.objects, "sweep", broken)
    monkeypatch.setattr(leased_jobs, "unfinished_kinds", lambda: [BulkAction])
    with structlog.testing.capture_logs() as lines, pytest.raises(OSError, match="no"):
        tick()

    assert "sweep bulkaction" in [line.get("part") for line in lines]


@pytest.mark.usefixtures("sent")
def test_an_export_that_another_worker_took_over_leaves_its_file(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
):
    row = archives.ask_export(topic.owner)
    files = exporter.files

    def taken_over(owner: Any) -> Any:
        Archive.objects.update(attempt=F("attempt") + 1)
        row.file.write_bytes(b"the other's")
        return files(owner)

    monkeypatch.setattr(exporter, "files", taken_over)
    archives.perform(row.pk)

    assert row.file.read_bytes() == b"the other's"
    assert [file.name for file in row.file.parent.glob(f"{row.pk}*")] == [row.file.name]


def test_the_time_limit_of_a_tick_ends_it():
    def over() -> None:
        raise SoftTimeLimitExceeded

    after: list[str] = []
    with pytest.raises(SoftTimeLimitExceeded):
        tasks._do_all([("too long", over), ("next", lambda: after.append("done"))])

    assert after == []
