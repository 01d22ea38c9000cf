"""Saving a run: one number, one report, and memory saved completely or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from django.conf import settings as site
from django.db import DatabaseError
from django.utils import timezone

from memory.models import Activity, SeenUrl, Topic, TopicFact
from memory.services import topic_memory
from research.models import DeltaItem, Report, Run, Schedule, Step
from research.services.runs.context.run_context import StepKind, StepResult
from research.services.runs.execution import pipeline
from tests.research import cast
from tests.research.conftest import Providers

RunOf = Callable[[Topic], Run]


def facts_of(topic: Topic) -> list[str]:
    return [fact.text for fact in TopicFact.objects.filter(topic=topic).current()]


def seen(topic: Topic) -> set[str]:
    return set(SeenUrl.objects.filter(topic=topic).values_list("url", flat=True))


def failing(*_args: Any, **_more: Any) -> Any:
    raise DatabaseError("the disk is full")


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.requirement("R26", "R27")
def test_numbers_have_no_gaps_and_are_given_at_the_save_alone(
    topic: Topic, providers: Providers, run_of: RunOf
):
    cast.set_up(providers, 1)
    numbers = [run_of(topic).number]
    cancelled = cast.started(topic)
    cancelled.request_cancel(by=topic.owner.actor)
    run = cast.started(topic)
    with cast.before_step("save", lambda: numbers.append(Run.objects.get(pk=run.pk).number)):
        cast.carried_out(run)

    assert numbers == [1, None]
    assert run.number == 2
    topic.refresh_from_db()
    assert (topic.run_count, topic.last_run_at) == (2, run.finished_at)


@pytest.mark.requirement("R10", "R40")
def test_after_its_memory_lapsed_a_topic_has_a_baseline_with_the_next_number(
    topic: Topic, once: Run, run_of: RunOf
):
    Topic.objects.filter(pk=topic.pk).update(expires_at=timezone.now() - timedelta(days=1))

    second = run_of(topic)

    assert (second.number, second.is_baseline, second.report.delta) == (2, True, "")
    assert second.new_count == 2
    topic.refresh_from_db()
    assert (topic.memory_runs, topic.memory_is_live()) == (1, True)
    assert run_of(topic).is_baseline is False


@pytest.mark.requirement("R10", "R11", "R12", "R43")
def test_a_save_renews_the_expiry_and_a_read_does_not(topic: Topic, once: Run, run_of: RunOf):
    soon = timezone.now() + timedelta(days=1)
    Topic.objects.filter(pk=topic.pk).update(expires_at=soon)
    cast.through(cast.work_of(topic), "plan").run.finish("failed", "x")
    topic.refresh_from_db()
    assert topic.expires_at == soon

    run_of(topic)

    assert topic.expires_at is not None
    left = topic.expires_at - timezone.now()
    assert timedelta(days=29, hours=23) < left <= timedelta(days=30)


def test_a_rarely_scheduled_topic_lives_for_twice_its_longest_gap(
    topic: Topic, providers: Providers, run_of: RunOf
):
    Schedule.objects.filter(topic=topic).update(preset="cron", cron="0 7 1 1,4,7,10 *")
    cast.set_up(providers, 1)

    run_of(topic)

    assert topic.expires_at is not None
    assert topic.expires_at - timezone.now() > timedelta(days=180)


# --- failures of the memory ------------------------------------------------------------------------


@pytest.mark.requirement("R7", "R8")
def test_a_memory_that_cannot_be_loaded_is_not_taken_for_none_and_is_left_alone(
    topic: Topic, once: Run, run_of: RunOf, monkeypatch: pytest.MonkeyPatch
):
    before = (facts_of(topic), seen(topic), topic.expires_at, topic.summary, topic.memory_runs)
    monkeypatch.setattr(topic_memory, "_read", failing)

    run = run_of(topic)

    after = (facts_of(topic), seen(topic), topic.expires_at, topic.summary, topic.memory_runs)
    assert (run.status, run.number, run.is_baseline) == ("partial", 2, True)
    assert (run.report.delta, run.report.delta_heading) == ("", "")
    assert run.warnings == ["memory not loaded: the disk is full"]
    assert before == after
    assert topic.run_count == 2


@pytest.mark.requirement("R8")
def test_the_run_after_a_failed_load_is_a_delta_again(topic: Topic, once: Run, run_of: RunOf):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topic_memory, "_read", failing)
        run_of(topic)

    third = run_of(topic)

    assert (third.number, third.is_baseline, third.new_count) == (3, False, 1)
    assert cast.sentence(2) in third.report.delta


@pytest.mark.requirement("R9", "R44")
@pytest.mark.parametrize("place", ["replace_facts", "merge_seen_urls", "keep_sources"])
def test_a_memory_that_cannot_be_saved_loses_no_report_and_leaves_its_urls_unseen(
    topic: Topic, once: Run, run_of: RunOf, monkeypatch: pytest.MonkeyPatch, place: str
):
    before = (facts_of(topic), seen(topic), topic.expires_at)
    monkeypatch.setattr(topic_memory, place, failing)

    run = run_of(topic)

    assert (run.status, run.number) == ("partial", 2)
    assert run.warnings == ["Memory not saved: the disk is full"]
    assert run.steps.get(name="save").warning == run.warnings[0]
    assert cast.sentence(2) in run.report.delta
    assert (facts_of(topic), seen(topic), topic.expires_at) == before
    assert DeltaItem.objects.filter(run=run, status="new").exists()


@pytest.mark.requirement("R44")
def test_what_an_unsaved_memory_left_unseen_is_new_to_the_next_run(
    topic: Topic, once: Run, run_of: RunOf
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topic_memory, "merge_seen_urls", failing)
        run_of(topic)

    assert run_of(topic).new_count == 1


def test_a_save_that_fails_in_the_middle_leaves_no_half_report(
    topic: Topic, once: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pipeline.saving, "_finish", failing)
    run = cast.started(topic)

    with pytest.raises(DatabaseError):
        cast.carried_out(run)

    run.refresh_from_db()
    assert (run.status, run.number) == ("failed", None)
    assert not Report.objects.filter(run=run).exists()
    assert cast.url(2) not in seen(topic)


# --- Redis -----------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Any:
    with redis.Redis.from_url(site.REDIS_URL) as open_server:
        yield open_server


@pytest.mark.requirement("R1", "R237")
def test_a_save_publishes_the_six_fields_for_thirty_days(
    topic: Topic,
    once: Run,
    run_of: RunOf,
    settings: Any,
    server: redis.Redis,
    django_capture_on_commit_callbacks: Any,
):
    settings.BEACON_PUBLISH_OWNER = "alice"
    with django_capture_on_commit_callbacks(execute=True):
        run_of(topic)
    key = f"beacon:memory:{topic.slug}"
    stored = json.loads(server.get(key))  # type: ignore[arg-type]

    assert 2_591_990 <= server.ttl(key) <= 2_592_000  # type: ignore[operator]
    assert list(stored) == [
        "topic", "seenUrls", "keyFacts", "lastRunAt", "runCount", "reportSummary",
    ]  # fmt: skip
    assert stored["topic"] == "Solid-state batteries"
    assert set(stored["seenUrls"]) == seen(topic)
    assert stored["keyFacts"] == facts_of(topic)
    assert (stored["runCount"], stored["reportSummary"]) == (2, topic.summary)
    assert datetime.fromisoformat(stored["lastRunAt"]) == topic.last_run_at
    assert stored["lastRunAt"].endswith("+00:00")


@pytest.mark.requirement("R56")
def test_a_run_continues_where_redis_is_down_and_the_log_says_so(
    topic: Topic, once: Run, run_of: RunOf, settings: Any, django_capture_on_commit_callbacks: Any
):
    settings.BEACON_PUBLISH_OWNER, settings.REDIS_URL = "alice", "redis://127.0.0.1:1/0"

    with django_capture_on_commit_callbacks(execute=True):
        run = run_of(topic)

    assert (run.status, run.number) == ("succeeded", 2)
    assert Activity.objects.filter(kind="publish-failed", is_warning=True).count() == 1


# --- what the run records -----------------------------------------------------------------------


def test_the_manifest_says_what_the_run_was_made_with(topic: Topic, once: Run):
    made = once.manifest

    assert made["planned_by"] == "facets"
    assert made["written_by"] == "extractive"
    assert made["services"] == ["fake"]
    assert made["budget"] == {"tokens": 60_000, "pages": 24, "minutes": 15, "money": None}
    assert set(made["queries"]) == set(once.steps.get(name="plan").output["queries"])


@pytest.mark.requirement("R29", "R51")
def test_each_step_keeps_its_output_its_counts_and_its_time(topic: Topic, once: Run):
    kept = list(once.steps.filter(is_follow_up=False))

    assert [step.name for step in kept] == [kind.name for kind in pipeline.STEPS]
    assert all(step.output and step.detail for step in kept)
    assert all(step.milliseconds is not None and step.milliseconds >= 0 for step in kept)


def test_follow_ups_are_laid_out_by_the_save(
    topic: Topic, providers: Providers, monkeypatch: pytest.MonkeyPatch
):
    done: list[int] = []

    def follow(work: Any) -> StepResult:
        done.append(work.run.pk)
        return StepResult({"n": 1}, "done")

    monkeypatch.setattr(pipeline, "FOLLOW_UPS", [StepKind("extract", "Extract", follow)])
    cast.set_up(providers, 1)
    run = cast.carried_out(cast.started(topic))
    step = Step.objects.get(run=run, is_follow_up=True)

    assert (run.status, step.state) == ("succeeded", "waiting")
    assert list(Step.objects.due()) == [step]
    assert done == []
