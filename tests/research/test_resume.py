"""A run that loses its worker continues after its last finished step, and always ends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import OperationalError
from django.db.models import F
from django.utils import timezone

from beacon_site.db import errors, leased_jobs
from beacon_site.db.leased_jobs import JobLost
from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from memory.models import Activity, ContentItem, SeenUrl, Topic
from research.models import Hit, Report, Run, RunAlreadyActive
from research.services.runs.context import run_context
from research.services.runs.context.run_context import Interrupted, RunContext
from research.services.runs.execution import pipeline
from research.tasks import execute_run
from tests.research import cast
from tests.research.conftest import Providers

NAMES = [kind.name for kind in pipeline.STEPS]
RunOf = Callable[[Topic], Run]


@pytest.fixture
def scripted(providers: Providers) -> Providers:
    """Two pages and a model that plans once and writes once: asked again it has no answer."""
    cast.set_up(providers, 1, 2)
    providers.model = cast.model(cast.PLAN, cast.report(1, 2))
    return providers


def raising(exc: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise exc

    return act


@pytest.mark.requirement("R31", "R32")
@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_lost_its_worker_continues_behind_its_last_step(
    topic: Topic, scripted: Providers, name: str
):
    run = cast.started(topic)
    with cast.killed_after(name):
        pipeline.execute(run.pk, worker="one")
    cast.lose_lease(run)

    cast.carried_out(run)

    assert (run.status, run.number) == ("succeeded", 1)
    assert scripted.model is not None and len(scripted.model.history) == 2
    assert sorted(scripted.search.asked) == ["cell lines", "cell prices"]
    assert sorted(scripted.pages.history) == [cast.url(1), cast.url(2)]
    assert Report.objects.filter(run=run).count() == 1


@pytest.mark.parametrize(("calls", "kept"), [("search", 1), ("read", 1)])
def test_answers_that_were_kept_are_not_requested_again(
    topic: Topic, scripted: Providers, monkeypatch: pytest.MonkeyPatch, calls: str, kept: int
):
    run, seen, original = cast.started(topic), [0], RunContext.progress

    def progress(self: RunContext, *args: Any, **more: Any) -> None:
        original(self, *args, **more)
        seen[0] += self.step.name == calls
        if seen[0] == 2:
            seen[0] = 99
            raise cast.Killed

    monkeypatch.setattr(RunContext, "progress", progress)
    with pytest.raises(cast.Killed):
        pipeline.execute(run.pk, worker="one")
    cast.lose_lease(run)
    cast.carried_out(run)

    asked = scripted.search.asked if calls == "search" else scripted.pages.history
    assert run.number == 1
    assert len(asked) == 2 + kept
    assert all(len(one.queries) == 2 for one in run.hits.all())


def test_of_two_claims_one_gets_the_run(topic: Topic):
    run = cast.started(topic)

    claims = [Run.objects.claim(run.pk, worker=name) for name in ("one", "two")]

    assert [bool(claim) for claim in claims] == [True, False]


def test_a_message_delivered_twice_is_carried_out_once(topic: Topic, scripted: Providers):
    run = cast.started(topic)

    execute_run(run.pk)
    execute_run(run.pk)

    run.refresh_from_db()
    assert (run.number, run.attempt, Report.objects.count()) == (1, 1, 1)
    assert scripted.model is not None and len(scripted.model.history) == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_worker_that_was_given_up_on_changes_nothing(
    topic: Topic, scripted: Providers, name: str
):
    run = cast.started(topic)

    def steal() -> None:
        Run.objects.filter(pk=run.pk).update(attempt=F("attempt") + 1)

    with cast.before_step(name, steal):
        cast.carried_out(run)

    assert (run.status, run.number, run.attempt) == ("running", None, 2)
    assert cast.steps(run)[name] == "running"
    assert not Report.objects.exists()
    assert not SeenUrl.objects.exists()
    assert Hit.objects.exists() is (NAMES.index(name) > NAMES.index("search"))
    assert ContentItem.objects.exists() is (NAMES.index(name) > NAMES.index("read"))


def test_each_write_of_the_run_asks_for_the_fence(topic: Topic, scripted: Providers):
    work = cast.through(cast.work_of(topic), "load_memory")
    Run.objects.filter(pk=work.run.pk).update(attempt=F("attempt") + 1)

    for write in (
        lambda: work.run.put(read_count=1),
        lambda: work.run.warn("a warning"),
        lambda: work.stop("a reason"),
        lambda: work.progress("half way"),
        lambda: work.look(at_once=True),
    ):
        with pytest.raises(JobLost):
            write()
    assert not work.run.renew()
    assert not work.run.finish("failed", "too late")
    assert not work.run.requeue("too late")


def test_a_run_whose_lease_ran_out_is_queued_again(topic: Topic):
    run = cast.started(topic)
    Run.objects.claim(run.pk, worker="one")
    assert Run.objects.sweep() == 0
    cast.lose_lease(run)

    freed = Run.objects.sweep()

    run.refresh_from_db()
    assert (freed, run.status, run.crashes, run.lease_until) == (1, "queued", 1, None)


@pytest.mark.parametrize("frees", [True, False])
def test_a_run_that_loses_its_worker_three_times_fails_with_its_reason(topic: Topic, frees: bool):
    run = cast.started(topic)
    for _time in range(3):
        assert Run.objects.claim(run.pk, worker="one")
        cast.lose_lease(run)
        if frees:
            Run.objects.sweep()

    assert Run.objects.claim(run.pk, worker="one") is None
    Run.objects.sweep()
    run.refresh_from_db()
    assert (run.status, run.crashes) == ("failed", 3)
    assert run.error.startswith("the worker stopped unexpectedly 3 times")
    assert Activity.objects.filter(kind="run-failed", is_warning=True).exists()


def test_a_worker_that_was_leaving_counts_no_crash(topic: Topic):
    run = cast.started(topic)
    for _time in range(5):
        Run.objects.claim(run.pk, worker="one")
        Run.objects.filter(pk=run.pk).update(is_worker_stopping=True)
        cast.lose_lease(run)
        assert Run.objects.sweep() == 1

    run.refresh_from_db()
    assert (run.status, run.crashes, run.is_worker_stopping) == ("queued", 0, False)


def test_a_run_of_a_leaving_worker_waits_behind_its_last_step(topic: Topic, scripted: Providers):
    run = cast.started(topic)

    def leave() -> None:
        Run.objects.filter(pk=run.pk).update(is_worker_stopping=True)

    with cast.before_step("filter_seen", leave):
        cast.carried_out(run)
    states = cast.steps(run)

    assert (run.status, run.crashes, states["filter_seen"], states["read"]) == (
        "queued", 0, "done", "waiting",
    )  # fmt: skip
    assert cast.carried_out(run).status == "succeeded"
    assert len(scripted.search.asked) == 2


def test_a_task_that_works_too_long_lets_go_of_its_run(
    topic: Topic, scripted: Providers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_context, "TASK_SECONDS", -1)

    run = cast.carried_out(cast.started(topic))

    assert (run.status, run.tries, run.crashes) == ("queued", 0, 0)


@pytest.mark.parametrize("exc", [Interrupted("the worker is stopping"), SoftTimeLimitExceeded()])
def test_an_interrupted_run_is_queued_again_at_once(
    topic: Topic, scripted: Providers, exc: Exception
):
    with cast.before_step("verify", raising(exc)):
        run = cast.carried_out(cast.started(topic))

    assert (run.status, run.error) == ("queued", "")
    assert run.not_before <= timezone.now()
    assert run in Run.objects.waiting()
    assert cast.carried_out(run).number == 1


def test_a_run_that_finds_the_disk_full_waits_and_says_so(
    topic: Topic, scripted: Providers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pipeline, "connection", SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(errors, "_full_at", errors._full_at)  # restored after the test
    full = OperationalError("could not extend file")
    full.__cause__ = psycopg.errors.DiskFull()
    with cast.before_step("verify", raising(full)):
        run = cast.carried_out(cast.started(topic))

    assert (run.status, run.error) == ("queued", "the server’s disk is full")


def test_an_unforeseen_error_ends_the_run_and_is_raised_again(topic: Topic, scripted: Providers):
    run = cast.started(topic)

    with cast.before_step("verify", raising(KeyError("what"))), pytest.raises(KeyError):
        pipeline.execute(run.pk, worker="one")

    run.refresh_from_db()
    assert (run.status, run.number) == ("failed", None)
    assert "log" in run.error
    assert cast.steps(run)["verify"] == "failed"


@pytest.mark.requirement("R52")
def test_a_failed_run_is_retried_from_its_failed_step(topic: Topic, scripted: Providers):
    with cast.before_step("write", raising(ProviderRejected("the key is wrong"))):
        run = cast.carried_out(cast.started(topic))
    assert (run.status, run.error) == ("failed", "the key is wrong")

    assert run.retry(by=topic.owner.actor)
    cast.carried_out(run)

    assert (run.status, run.number, run.error) == ("succeeded", 1, "")
    assert len(scripted.search.asked) == 2


def test_a_retried_run_has_all_its_minutes_again(topic: Topic, scripted: Providers):
    with cast.before_step("write", raising(ProviderRejected("the key is wrong"))):
        run = cast.carried_out(cast.started(topic))
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(days=1))

    run.retry(by=topic.owner.actor)

    assert cast.carried_out(run).status == "succeeded"


def test_a_run_that_succeeded_is_not_retried(topic: Topic, scripted: Providers):
    run = cast.carried_out(cast.started(topic))

    assert not run.retry(by=topic.owner.actor)
    run.refresh_from_db()
    assert (run.status, run.number) == ("succeeded", 1)


@pytest.mark.requirement("R53")
def test_a_second_run_of_a_topic_is_refused_and_says_which_is_in_the_way(topic: Topic):
    first = cast.started(topic)

    with pytest.raises(RunAlreadyActive) as refused:
        cast.started(topic)

    assert refused.value.run == first
    assert "already in progress" in str(refused.value)


@pytest.mark.requirement("R53")
def test_a_retry_is_refused_while_another_run_is_unfinished(topic: Topic):
    old = cast.started(topic)
    old.request_cancel(by=topic.owner.actor)
    new = cast.started(topic)

    with pytest.raises(RunAlreadyActive) as refused:
        old.retry(by=topic.owner.actor)

    assert refused.value.run == new


def test_a_run_is_postponed_for_30_then_120_seconds_and_then_fails(topic: Topic):
    run, waits = cast.started(topic), []
    for _time in range(3):
        Run.objects.filter(pk=run.pk).update(not_before=timezone.now())
        held = Run.objects.claim(run.pk, worker="one")
        assert held is not None
        held.postpone_or_fail("the service is down")
        run.refresh_from_db()
        waits.append(round((run.not_before - timezone.now()).total_seconds()))

    assert waits[:2] == [30, 120]
    assert (run.status, run.error) == ("failed", "the service is down")


@pytest.mark.parametrize(("asked", "waits"), [(77.0, 77), (9000.0, 600)])
def test_a_run_waits_as_long_as_the_service_asks_but_ten_minutes_at_most(
    topic: Topic, scripted: Providers, asked: float, waits: int
):
    down = ProviderUnavailable("busy", retry_after=asked)
    with cast.before_step("search", raising(down)):
        run = cast.carried_out(cast.started(topic))

    assert (run.status, run.error) == ("queued", "busy")
    assert abs((run.not_before - timezone.now()).total_seconds() - waits) < 2
    assert run not in Run.objects.waiting()


def test_the_heartbeat_renews_the_lease_and_notices_a_lost_run(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
):
    beats = iter([True, False])
    monkeypatch.setattr(leased_jobs, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(Run, "renew", lambda self: next(beats))
    with cast.work_of(topic) as work:
        work.heartbeat.wait(5)

        with pytest.raises(JobLost):
            work.look(at_once=True)


def test_a_beat_that_the_database_refuses_is_tried_again(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
):
    answers: list[Any] = [OperationalError("gone"), True, False]

    def beat(self: Run) -> bool:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    monkeypatch.setattr(leased_jobs, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(Run, "renew", beat)
    with cast.work_of(topic) as work:
        work.heartbeat.wait(5)

    assert answers == []


def test_a_run_that_was_deleted_is_lost(topic: Topic):
    work = cast.work_of(topic)
    Run.objects.filter(pk=work.run.pk).delete()

    with pytest.raises(JobLost):
        work.look(at_once=True)


def test_a_run_that_waits_is_what_a_dispatch_sends(topic: Topic, monkeypatch: pytest.MonkeyPatch):
    run, sent = cast.started(topic), []

    monkeypatch.setattr(Run, "wake", lambda self: bool(sent.append(self.pk)) or True)
    Run.objects.dispatch()

    assert sent == [run.pk]
