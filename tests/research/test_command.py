"""`manage.py research`: a topic is run from the command line, worker or not."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from memory.models import Observation, Topic, User
from research.management.commands import research as command
from research.models import Run, TopicSettings, Worker
from research.services.runs.execution import starting
from tests.research import cast
from tests.research.conftest import Providers

Say = Callable[..., tuple[str, str]]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "POLL_SECONDS", 0.01)


@pytest.fixture
def say(db: None) -> Say:
    """Return a function: words of the command in, what it says on stdout and stderr out."""

    def said(*words: str) -> tuple[str, str]:
        out, err = io.StringIO(), io.StringIO()
        call_command("research", *words, stdout=out, stderr=err)
        return out.getvalue(), err.getvalue()

    return said


@pytest.mark.slow
@pytest.mark.requirement("R39", "R40", "R41", "R42", "R57")
def test_the_sample_four_times_is_a_baseline_two_deltas_and_nothing_new(alice: Any, say: Say):
    reports = [say("Sample by command", "--sample", "--wait")[0] for _time in range(4)]

    for number, report in enumerate(reports, start=1):
        assert report.startswith(f"# Sample by command\n\nRun #{number} · ")
    assert "## What Changed" not in reports[0]
    for report in reports[1:3]:
        assert "## What Changed Since Last Week" in report
        assert "- **New:** " in report
    assert "Nothing new since" in reports[3]
    assert "**New:**" not in reports[3]
    assert Topic.objects.get().run_count == 4


def test_without_a_worker_the_run_is_carried_out_here_and_says_so(
    alice: Any, providers: Providers, say: Say
):
    cast.set_up(providers, 1)

    out, err = say("Solid-state batteries")

    assert out.startswith("# Solid-state batteries")
    assert "No worker is running, so this command executes the run itself." in err
    assert Run.objects.get().trigger == "command"


def test_a_deep_run_without_a_model_says_that_it_continues_as_quick(
    alice: Any, providers: Providers, say: Say
):
    cast.set_up(providers, 1)

    out, err = say("Solid-state batteries", "--depth", "deep")

    assert Run.objects.get().depth == "deep" and out.startswith("# Solid-state batteries")
    assert "warning: The run continues as a quick run because no model is set up." in err


def test_without_a_worker_what_follows_the_run_is_carried_out_here_too(
    alice: Any, providers: Providers, say: Say
):
    cast.set_up(providers, 1)
    say("Solid-state batteries")

    assert Observation.objects.for_user(alice).exists()
    follow_ups = Run.objects.get().steps.filter(is_follow_up=True)
    assert {step.state for step in follow_ups} == {"done"}


def test_with_a_worker_and_without_wait_the_run_is_queued(alice: Any, say: Say):
    Worker.objects.create(name="w", kind="worker", seen_at=timezone.now())

    out, err = say("Cells")

    assert out == ""
    assert f"Run {Run.objects.get().pk} queued." in err


def test_a_run_that_no_worker_takes_is_carried_out_here_after_all(
    alice: Any, providers: Providers, say: Say, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(command, "NOBODY_TOOK_IT", 0.0)
    Worker.objects.create(name="w", kind="worker", seen_at=timezone.now())
    cast.set_up(providers, 1)

    assert say("Solid-state batteries", "--wait")[0].startswith("# Solid-state batteries")


def test_the_same_title_is_the_same_topic(alice: Any, providers: Providers, say: Say):
    say("Solid-state batteries")
    say("  solid-state   BATTERIES ")

    assert Topic.objects.get().run_count == 2


def test_a_run_that_is_in_progress_is_waited_for(topic: Topic, providers: Providers, say: Say):
    cast.set_up(providers, 1)
    cast.started(topic)

    out, err = say(topic.title, "--wait")

    assert "A run of this topic is already in progress. Waiting for that run." in err
    assert Run.objects.count() == 1
    assert out.startswith("# Solid-state batteries")


@pytest.mark.parametrize("review", ["wait", "day"])
def test_a_plan_that_is_to_be_checked_ends_the_waiting_with_its_address(
    topic: Topic, providers: Providers, say: Say, review: str
):
    cast.set_up(providers, 1)
    TopicSettings.objects.update(plan_review=review)

    for _time in range(2):
        with pytest.raises(
            CommandError, match="The run is waiting for you to review its plan"
        ) as ended:
            say(topic.title, "--wait")
        page = f"/topics/{topic.slug}/runs/{Run.objects.get().pk}/"
        assert ended.value.returncode == 3 and page in str(ended.value)
    assert Run.objects.get().waiting_since is not None


def test_when_few_runs_are_left_of_the_hour_it_is_reported(alice: Any, say: Say, settings: Any):
    settings.BEACON_RUNS_PER_HOUR = 3
    Worker.objects.create(name="w", kind="worker", seen_at=timezone.now())

    assert "You can start 2 more runs this hour" in say("Cells")[1]


def test_warnings_are_told_next_to_the_report(topic: Topic, providers: Providers, say: Say):
    cast.set_up(providers, 1, 2)
    del providers.pages.pages[cast.url(2)]

    _out, err = say(topic.title, "--wait")

    assert "warning: 1 of 2 pages couldn’t be read" in err


def test_a_run_that_failed_is_an_error_with_its_reason(alice: Any, say: Say, settings: Any):
    settings.BEACON_SEARCH = ["serpapi"]

    with pytest.raises(CommandError, match="The run is failed: every search failed"):
        say("Cells", "--wait")


def test_without_an_account_it_says_how_to_make_one(say: Say):
    with pytest.raises(CommandError, match="There are no accounts yet"):
        say("Cells")


def test_a_command_logs_warnings_alone(settings: Any):
    assert settings.BEACON_PROCESS == "command"
    assert settings.LOGGING["root"]["level"] == "WARNING"


def test_with_two_accounts_it_asks_whose_topic_it_is(
    alice: Any, bob: Any, providers: Providers, say: Say
):
    with pytest.raises(CommandError, match=r"--user .* Accounts: alice, bob"):
        say("Cells")

    say("Cells", "--user", "bob")
    assert Topic.objects.get().owner == bob


@pytest.mark.parametrize("name", ["nobody", "gone"])
def test_an_unknown_or_disabled_user_is_named(alice: Any, say: Say, name: str):
    User.objects.create_user("gone", is_active=False)

    with pytest.raises(CommandError, match=f"No account is named “{name}”. Accounts: alice."):
        say("Cells", "--user", name)


@pytest.mark.parametrize("title", ["", " ", "x" * 501])
def test_a_topic_that_cannot_be_is_refused(alice: Any, say: Say, title: str):
    with pytest.raises(CommandError):
        say(title)

    assert not Run.objects.exists()


def test_a_topic_of_the_web_is_not_researched_in_the_sample(topic: Topic, say: Say):
    with pytest.raises(CommandError, match="that isn’t the sample"):
        say(topic.title, "--sample")


def test_too_many_runs_are_refused_with_a_reason(topic: Topic, say: Say, settings: Any):
    settings.BEACON_RUNS_PER_HOUR = 1
    starting.start_run(topic, trigger="person", by=topic.owner.actor).request_cancel(
        by=topic.owner.actor
    )

    with pytest.raises(CommandError, match="limit of 1 run per hour"):
        say(topic.title)
