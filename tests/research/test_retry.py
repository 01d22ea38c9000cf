"""What a retry repeats, and what it keeps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from beacon_site.net.errors import ProviderRejected
from beacon_site.providers.search.base import SearchHit
from memory.models import SeenUrl, Topic
from research.models import Run, TopicSettings
from research.models.runs import StepNotFinished
from research.services.runs.execution import starting
from research.services.runs.execution.starting import RunNotAllowed
from research.services.topics.settings import editing as topic_editing
from tests.providers.fakes import FakeSearch
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
def test_a_run_retried_after_a_newer_one_begins_again_and_shows_no_old_news(
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
        run.request_stop(by=topic.owner.actor)

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

    with pytest.raises(RunNotAllowed, match="archived"):
        starting.retry_run(run, by=topic.owner.actor)


def test_the_time_of_a_step_that_is_done_again_is_its_own(topic: Topic, providers: Providers):
    cast.set_up(providers, 1)
    run = _failed_at("write", topic)
    run.retry(by=topic.owner.actor)

    step = run.steps.get(name="write")
    assert (step.started_at, step.finished_at) == (None, None)


# --- from a step ------------------------------------------------------------------------------------


def _asked(providers: Providers) -> int:
    return len(providers.search.asked)


def test_retried_from_the_search_everything_from_there_on_is_done_again(
    topic: Topic, providers: Providers
):
    cast.set_up(providers, 1)
    run = _failed_at("write", topic)
    planned = run.steps.get(name="plan").output
    cast.set_up(providers, 2, 3)

    starting.retry_run(run, by=topic.owner.actor, step="search")
    cast.carried_out(run)

    assert run.status == "succeeded"
    assert run.steps.get(name="plan").output == planned
    assert {hit.link for hit in run.hits.all()} == {cast.url(2), cast.url(3)}


def test_retried_from_the_reading_it_searches_no_second_time(topic: Topic, providers: Providers):
    cast.set_up(providers, 1, 2)
    del providers.pages.pages[cast.url(2)]
    run = _failed_at("write", topic)
    asked, providers.pages = _asked(providers), cast.pages(1, 2)

    starting.retry_run(run, by=topic.owner.actor, step="read")
    assert (run.hits.filter(reading="not read").count(), run.hits.count()) == (2, 2)
    cast.carried_out(run)

    assert (_asked(providers), run.read_count, run.warnings) == (asked, 2, [])


def _cancel(run: Run) -> None:
    run.request_cancel(by=run.topic.owner.actor)


def _stopped_at(step: str, topic: Topic) -> Run:
    """Return a run that is stopped early as `step` begins, and cancelled as it would write."""
    run = cast.started(topic)
    with (
        cast.before_step(step, lambda: run.request_stop(by=topic.owner.actor)),
        cast.before_step("write", lambda: _cancel(run)),
    ):
        cast.carried_out(run)
    assert (run.status, bool(run.stop_reason)) == ("cancelled", True)
    return run


def test_a_stopped_run_retried_from_its_reading_asks_the_queries_it_had_left(
    topic: Topic, providers: Providers
):
    cast.set_up(providers, 1, 2)
    run = _stopped_at("filter_seen", topic)
    search = run.steps.get(name="search")
    planned, search.output["asked"] = search.output["asked"], search.output["asked"][:2]
    search.save()  # as if it had been stopped when two had answered
    asked = _asked(providers)

    starting.retry_run(run, by=topic.owner.actor, step="read")
    cast.carried_out(run)

    assert (run.status, run.warnings) == ("succeeded", [])
    left = providers.search.asked[asked:]
    assert sorted(left) == sorted(entry["query"] for entry in planned[2:])


@pytest.mark.parametrize("step", ["write", "filter_seen"])
def test_a_stopped_run_retried_from_any_step_reads_what_it_had_left(
    topic: Topic, providers: Providers, step: str
):
    cast.set_up(providers, 1, 2, 3)
    run = cast.started(topic)
    with (
        cast.before_step("read", lambda: run.request_stop(by=topic.owner.actor)),
        cast.before_step("verify", lambda: _cancel(run)),
    ):
        cast.carried_out(run)

    starting.retry_run(run, by=topic.owner.actor, step=step)
    cast.carried_out(run)

    assert (run.status, run.read_count, run.warnings) == ("succeeded", 3, [])
    assert SeenUrl.objects.count() == 3


def test_a_retry_keeps_the_warnings_of_the_steps_it_keeps_and_no_other(
    topic: Topic, providers: Providers
):
    cast.set_up(providers, 1, 2)
    del providers.pages.pages[cast.url(2)]
    providers.model = cast.model(ProviderRejected("no such model"))
    run = _failed_at("write", topic)
    planned, read = run.warnings

    starting.retry_run(run, by=topic.owner.actor)
    run.refresh_from_db()
    assert run.warnings == [planned, read]
    Run.objects.filter(pk=run.pk).update(status="failed")
    starting.retry_run(run, by=topic.owner.actor, step="read")

    run.refresh_from_db()
    assert run.warnings == [planned]


def test_a_retry_keeps_what_only_the_run_was_warned_of(topic: Topic, providers: Providers):
    cast.set_up(providers, 1)
    providers.search = FakeSearch([cast.hit(1), SearchHit(url="", title="no address")])
    run = _failed_at("write", topic)
    assert [warning for warning in run.warnings if "without a usable URL" in warning]

    starting.retry_run(run, by=topic.owner.actor)

    before, run.warnings = run.warnings, []
    run.refresh_from_db()
    assert run.warnings == before


def test_retried_from_the_filter_blocked_hits_are_reported_again(
    topic: Topic, providers: Providers
):
    cast.set_up(providers, 1, 2)
    TopicSettings.objects.update(block_domains=["site1.example"])
    run = _failed_at("write", topic)
    TopicSettings.objects.update(block_domains=[])

    starting.retry_run(run, by=topic.owner.actor, step="filter_seen")
    cast.carried_out(run)

    assert (run.new_count, run.read_count) == (2, 2)


@pytest.mark.parametrize("step", ["search", "save", "nonsense"])
def test_from_a_step_that_is_not_finished_no_run_is_retried(
    topic: Topic, providers: Providers, step: str
):
    cast.set_up(providers, 1)
    run = _failed_at("search", topic)

    with pytest.raises(StepNotFinished, match=step):
        starting.retry_run(run, by=topic.owner.actor, step=step)

    run.refresh_from_db()
    assert run.status == "failed"


def test_a_retry_takes_the_settings_of_now(topic: Topic, providers: Providers):
    cast.set_up(providers, 1)
    run = _failed_at("search", topic)
    TopicSettings.objects.update(services=["hackernews"], objective="Why")

    starting.retry_run(run, by=topic.owner.actor)

    run.refresh_from_db()
    assert (run.asked_for.services, run.asked_for.objective) == (["hackernews"], "Why")


def test_an_edit_while_a_run_is_in_progress_applies_from_the_next_run(
    topic: Topic, providers: Providers
):
    cast.set_up(providers, 1)
    run = cast.started(topic)

    def edit() -> None:
        wanted = {"objective": "Something else", "block_domains": ["site1.example"]}
        topic_editing.edit_topic(topic, by=topic.owner.actor, wanted=wanted)

    with cast.before_step("plan", edit):
        cast.carried_out(run)

    assert (run.new_count, run.read_count) == (1, 1)
    assert run.manifest["objective"] == ""
    assert cast.carried_out(cast.started(topic)).manifest["objective"] == "Something else"
