"""A run whose plan waits for a person: it is released, not claimed again, and continues on request."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from beacon_site.net.errors import ProviderRejected
from memory.models import Activity, Topic
from research import tasks
from research.models import Run, RunAlreadyActive, TopicSettings
from research.models.runs import RunQuerySet
from research.services.runs import presenters
from research.services.runs.execution import starting
from research.services.runs.steps import planning
from research.services.runs.steps.planning import PlanNotWaiting
from research.services.schedules import scheduling
from research.services.topics.settings import editing as topic_editing
from tests.research import cast
from tests.research.conftest import Providers

MINE = ["What costs a cell", "Who makes them"]


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "wake", lambda self: True)


@pytest.fixture
def topic(topic: Topic, providers: Providers) -> Topic:
    """A topic with plan review, and a model that plans two queries."""
    cast.set_up(providers, 1, 2)
    providers.model = cast.model(cast.PLAN, cast.report(1, 2))
    TopicSettings.objects.update(plan_review="wait")
    topic.refresh_from_db()
    return topic


@pytest.fixture
def run(topic: Topic) -> Run:
    """A run whose plan waits."""
    return cast.carried_out(cast.started(topic))


def seen(run: Run) -> datetime:
    run.refresh_from_db()
    assert run.waiting_since is not None
    return run.waiting_since


def accept(run: Run, queries: list[str] | None = None) -> Run:
    queries = queries or list(cast.PLAN["queries"])
    planning.accept(run, queries, seen=seen(run), by=run.topic.owner.actor)
    run.refresh_from_db()
    return run


def plan_of(run: Run) -> dict[str, Any]:
    output: dict[str, Any] = run.steps.get(name="plan").output
    return output


# --- it waits ---------------------------------------------------------------------------------------


def test_behind_its_plan_the_run_is_let_go_of_and_waits(run: Run, providers: Providers):
    assert (run.status, run.lease_until) == ("queued", None)
    assert run.waiting_since is not None
    assert cast.steps(run)["plan"] == "done" and cast.steps(run)["search"] == "waiting"
    assert providers.search.asked == []


def test_no_one_claims_it_and_no_one_is_told_of_it(run: Run):
    assert Run.objects.claim(run.pk, worker="another") is None
    assert Run.objects.dispatch() == 0
    assert Run.objects.sweep() == 0


def test_a_worker_that_is_lost_between_plan_and_review_costs_no_second_plan(
    topic: Topic, providers: Providers
):
    run = cast.started(topic)
    with cast.killed_after("plan"):
        cast.carried_out(run)
    cast.lose_lease(run)

    cast.carried_out(run)

    assert seen(run) and providers.model is not None
    assert len(providers.model.history) == 1


def test_its_waiting_counts_neither_as_work_nor_as_the_time_it_took(run: Run):
    long_ago = timezone.now() - timedelta(days=3)
    Run.objects.filter(pk=run.pk).update(waiting_since=long_ago)

    cast.carried_out(accept(run))

    assert run.status == "succeeded"
    assert run.worked_seconds < 60
    assert 3 * 86400 <= run.waited_seconds < 3 * 86400 + 60


@pytest.mark.parametrize("how", ["no review", "stopping", "repeats another"])
def test_what_needs_no_look_continues_by_itself(topic: Topic, providers: Providers, how: str):
    if how == "no review":
        TopicSettings.objects.update(plan_review="no")
    if how == "repeats another":
        TopicSettings.objects.update(plan_review="no")
        was = cast.carried_out(cast.started(topic))
        Run.objects.filter(pk=was.pk).update(settings=was.settings | {"plan_review": "wait"})
        was.refresh_from_db()
        run = starting.rerun(was, by=topic.owner.actor)
    else:
        run = cast.started(topic)

    def stop() -> None:
        if how == "stopping":
            run.request_stop(by=topic.owner.actor)

    with cast.before_step("plan", stop):
        cast.carried_out(run)

    assert run.waiting_since is None
    assert run.status == ("cancelled" if how == "stopping" else "succeeded")


# --- it continues -----------------------------------------------------------------------------------


def test_accepted_as_it_is_it_continues_and_says_who_looked(run: Run, topic: Topic):
    cast.carried_out(accept(run))

    assert (run.status, run.manifest["planned_by"]) == ("succeeded", "model")
    assert plan_of(run)["reviewed"]["by"] == "human:alice"
    assert Activity.objects.get(kind="plan-accepted").actor == "human:alice"


def test_edited_queries_are_asked_and_the_models_own_are_kept_beside(
    run: Run, providers: Providers
):
    cast.carried_out(accept(run, MINE))

    assert sorted(providers.search.asked) == sorted(MINE)
    assert plan_of(run)["by"] == "person"
    assert (run.manifest["queries"], run.manifest["proposed"]) == (MINE, cast.PLAN["queries"])
    assert run.steps.get(name="plan").detail == "2 queries, edited by you"
    assert Activity.objects.get(kind="plan-edited").detail["queries"] == MINE


def test_planned_again_it_asks_the_model_again_and_waits_again(run: Run, providers: Providers):
    first = seen(run)
    providers.model = cast.model({"queries": ["another", "plan"]}, cast.report(1, 2))

    planning.replan(run, seen=first, by=run.topic.owner.actor)
    cast.carried_out(run)

    assert plan_of(run)["queries"] == ["another", "plan"]
    assert seen(run) > first


def test_planned_again_nothing_of_the_plan_before_is_left(topic: Topic, providers: Providers):
    providers.model = cast.model(ProviderRejected("no such model"), cast.PLAN)
    run = cast.carried_out(cast.started(topic))
    assert len(run.warnings) == 1

    planning.replan(run, seen=seen(run), by=topic.owner.actor)

    step = run.steps.get(name="plan")
    assert (step.state, step.started_at, step.finished_at) == ("waiting", None, None)
    assert (step.input_hash, step.output, step.warning) == ("", {}, "")
    run.refresh_from_db()
    assert run.warnings == []


def test_after_a_day_it_continues_by_itself_where_the_topic_says_so(topic: Topic):
    TopicSettings.objects.update(plan_review="day")
    run = cast.carried_out(cast.started(topic))
    assert planning.resume_unreviewed() == 0
    assert planning.resumes_at(run) == run.not_before

    Run.objects.filter(pk=run.pk).update(not_before=timezone.now())
    tasks.minute_tick()

    assert cast.carried_out(run).status == "succeeded"
    assert Activity.objects.get(kind="plan-continued").actor == "research"


def test_where_it_is_to_wait_it_waits_for_ever(run: Run):
    Run.objects.filter(pk=run.pk).update(not_before=timezone.now() - timedelta(days=300))

    assert planning.resume_unreviewed() == 0
    assert planning.resumes_at(run) is None


# --- two at once ------------------------------------------------------------------------------------


def test_a_plan_that_went_on_is_not_accepted_twice(run: Run):
    first = seen(run)
    accept(run, MINE)

    with pytest.raises(PlanNotWaiting, match="edited in another window"):
        planning.accept(run, ["late"], seen=first, by=run.topic.owner.actor)

    assert plan_of(run)["queries"] == MINE


def test_a_plan_that_was_made_again_is_not_the_one_that_was_seen(run: Run, providers: Providers):
    first = seen(run)
    providers.model = cast.model({"queries": ["another"]}, cast.report(1, 2))
    planning.replan(run, seen=first, by=run.topic.owner.actor)
    with pytest.raises(PlanNotWaiting, match="A new plan is being created"):
        planning.accept(run, MINE, seen=first, by=run.topic.owner.actor)

    cast.carried_out(run)

    with pytest.raises(PlanNotWaiting, match="A newer plan exists"):
        planning.accept(run, MINE, seen=first, by=run.topic.owner.actor)


@pytest.mark.django_db(transaction=True)
def test_of_five_windows_that_accept_at_once_one_does(run: Run):
    at, done = seen(run), []

    def press(number: int) -> None:
        try:
            mine = Run.objects.select_related("topic__owner").get(pk=run.pk)
            planning.accept(mine, [f"query {number}"], seen=at, by=run.topic.owner.actor)
            done.append(f"query {number}")
        except PlanNotWaiting:
            pass
        finally:
            connection.close()

    windows = [threading.Thread(target=press, args=(number,)) for number in range(5)]
    for window in windows:
        window.start()
    for window in windows:
        window.join()

    assert plan_of(run)["queries"] == done
    assert len(done) == 1


# --- it is ended, and what meets it ------------------------------------------------------------------


@pytest.mark.parametrize("act", ["cancel", "trash", "archive"])
def test_it_can_be_ended_while_it_waits(run: Run, topic: Topic, act: str):
    by = topic.owner.actor
    acts = {
        "cancel": lambda: run.request_cancel(by=by),
        "trash": lambda: topic_editing.trash_topic(topic, by=by),
        "archive": lambda: topic_editing.archive_topic(topic, by=by),
    }
    acts[act]()

    run.refresh_from_db()
    assert (run.status, run.waiting_since) == ("cancelled", None)


def test_cancelled_and_retried_it_waits_again_without_another_plan(run: Run, providers: Providers):
    run.request_cancel(by=run.topic.owner.actor)
    starting.retry_run(run, by=run.topic.owner.actor)

    cast.carried_out(run)

    assert seen(run) and providers.model is not None
    assert len(providers.model.history) == 1


def test_cancelled_at_the_moment_when_it_would_wait_it_is_cancelled(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
):
    run = cast.started(topic)
    wait = Run.wait_for_a_person

    def cancel_first(self: Run, **how: Any) -> bool:
        run.request_cancel(by=topic.owner.actor)
        return wait(self, **how)

    monkeypatch.setattr(Run, "wait_for_a_person", cancel_first)
    cast.carried_out(cast.carried_out(run))

    assert run.status == "cancelled"


def _while_planned(act: Callable[[Run], object], topic: Topic) -> Run:
    """Return a run for which `act` is done once it was decided that its plan waits."""
    run, wait = cast.started(topic), Run.wait_for_a_person

    def act_first(self: Run, **how: Any) -> bool:
        act(run)
        return wait(self, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "wait_for_a_person", act_first)
        return cast.carried_out(run)


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda run: run.request_stop(by=run.topic.owner.actor), "stopped before the first search"),
        (
            lambda run: topic_editing.archive_topic(run.topic, by=run.topic.owner.actor),
            "the topic was archived",
        ),
    ],
)
def test_stopped_or_archived_at_the_moment_when_it_would_wait_it_is_ended(
    topic: Topic, act: Callable[[Run], object], why: str
):
    run = _while_planned(act, topic)
    assert run.waiting_since is None

    cast.carried_out(run)

    assert run.status == "cancelled" and why in run.error


def test_archived_while_it_plans_it_waits_for_no_one(topic: Topic):
    run = cast.started(topic)

    with cast.before_step("plan", lambda: topic_editing.archive_topic(topic, by=topic.owner.actor)):
        cast.carried_out(run)

    assert (run.status, run.error) == ("cancelled", "the topic was archived")


@pytest.mark.parametrize("act", ["cancel", "trash"])
def test_cancelled_as_it_begins_to_wait_for_a_day_it_is_ended_at_once(topic: Topic, act: str):
    TopicSettings.objects.update(plan_review="day")
    run = cast.started(topic)
    held = Run.objects.claim(run.pk, worker="test")
    assert held is not None
    update, by = RunQuerySet.update, topic.owner.actor

    def wait_after(self: Any, **fields: Any) -> int:
        done = update(self, **fields)
        if not done and "cancel_requested_at" in fields:
            patch.undo()
            assert held.wait_for_a_person(at_most=planning.DAY)
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunQuerySet, "update", wait_after)
        run.request_cancel(by=by) if act == "cancel" else topic_editing.trash_topic(topic, by=by)

    assert cast.carried_out(run).status == "cancelled"


def test_cancelled_while_it_waits_its_waiting_is_not_reported_as_work(run: Run):
    at = timezone.now() - timedelta(days=2)
    Run.objects.filter(pk=run.pk).update(waiting_since=at, started_at=at - timedelta(seconds=5))

    run.request_cancel(by=run.topic.owner.actor)

    run.refresh_from_db()
    assert run.waited_seconds > 2 * 86400 - 1
    assert presenters.took(run).startswith("5.")


def test_nothing_can_be_written_from_what_waits(run: Run):
    assert run.request_stop(by=run.topic.owner.actor) is False
    assert seen(run)


@pytest.mark.requirement("R53")
def test_a_second_run_says_that_a_plan_waits(run: Run, topic: Topic):
    with pytest.raises(RunAlreadyActive, match="waiting for you to review its plan"):
        starting.start_run(topic, trigger="person", by=topic.owner.actor)


def test_a_slot_that_falls_due_in_the_meantime_is_skipped_with_a_warning_that_says_so(
    run: Run, topic: Topic
):
    scheduling.set_schedule(topic, by=topic.owner.actor, preset="daily", time_zone="UTC")

    assert scheduling.start_due(timezone.now() + timedelta(days=1)) == []

    line = Activity.objects.get(kind="schedule-skipped")
    assert line.is_warning and "review its plan" in line.detail["why"]
