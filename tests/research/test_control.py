"""Controlling a run in progress, and its budgets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from beacon_site.net.fetch import WebPage
from beacon_site.providers.llm.base import Answer, LlmProfile, Usage
from beacon_site.providers.search.base import SearchHit
from memory.models import ModelCall, SeenUrl, Topic, TopicFact
from research.models import Hit, Run, TopicSettings
from research.services.runs.execution import pipeline
from tests.providers.fakes import FAKE_PROFILE, FakeLanguageModel
from tests.research import cast
from tests.research.conftest import Providers

RunOf = Callable[[Topic], Run]


class Gate:
    """A place in which a fake's thread is held until the test opens it."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()

    def pass_through(self) -> None:
        self.entered.set()
        self.opened.wait(20)


@pytest.fixture
def gate() -> Iterator[Gate]:
    held = Gate()
    yield held
    held.opened.set()


def hold_search(providers: Providers, gate: Gate) -> None:
    def search(query: str, options: Any) -> list[SearchHit]:
        gate.pass_through()
        return []

    providers.search.search = search  # type: ignore[method-assign]


def hold_pages(providers: Providers, gate: Gate, *, but: int = 0) -> None:
    original = providers.pages.fetch

    def fetch(url: str) -> WebPage:
        if url != cast.url(but):
            gate.pass_through()
        return original(url)

    providers.pages.fetch = fetch  # type: ignore[method-assign]


def carry_out_and(act: Callable[[Run], object], topic: Topic, gate: Gate) -> tuple[Run, float]:
    """Carry a run out, do `act` from another connection once the gate is reached; time the rest."""
    run, acted = cast.started(topic), [0.0]

    def at_the_gate() -> None:
        gate.entered.wait(20)
        time.sleep(0.3)
        act(Run.objects.get(pk=run.pk))
        acted[0] = time.monotonic()
        connection.close()

    person = threading.Thread(target=at_the_gate)
    person.start()
    cast.carried_out(run)
    took = time.monotonic() - acted[0]
    person.join()
    return run, took


def cancel(run: Run) -> bool:
    return run.request_cancel(by=run.topic.owner.actor)


def stop(run: Run) -> bool:
    return run.request_stop(by=run.topic.owner.actor)


# --- cancel --------------------------------------------------------------------------------------


@pytest.mark.requirement("R52")
def test_a_queued_run_is_cancelled_at_once(topic: Topic, providers: Providers):
    run = cast.started(topic)

    assert cancel(run)

    run.refresh_from_db()
    assert (run.status, run.number) == ("cancelled", None)
    assert not pipeline.execute(run.pk, worker="one")
    assert not cancel(run)
    assert not stop(run)


@pytest.mark.parametrize("step", ["load_memory", "search", "read", "write", "verify"])
def test_a_run_is_cancelled_between_its_steps(topic: Topic, providers: Providers, step: str):
    cast.set_up(providers, 1)
    run = cast.started(topic)

    with cast.before_step(step, lambda: cancel(run)):
        cast.carried_out(run)

    assert (run.status, run.error) == ("cancelled", "cancelled manually")
    assert cast.steps(run)["save"] == "waiting"
    assert not SeenUrl.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("hold", [hold_search, hold_pages])
def test_a_run_is_cancelled_inside_a_fan_out_within_five_seconds(
    topic: Topic, providers: Providers, gate: Gate, hold: Callable[[Providers, Gate], None]
):
    cast.set_up(providers, 1, 2, 3)
    hold(providers, gate)

    run, took = carry_out_and(cancel, topic, gate)

    assert run.status == "cancelled"
    assert took < 5


@pytest.mark.django_db(transaction=True)
def test_a_run_is_cancelled_while_the_model_writes_and_the_call_says_so(
    topic: Topic, providers: Providers, gate: Gate
):
    cast.set_up(providers, 1)
    providers.model = FakeLanguageModel(cast.PLAN)
    original = providers.model.ask

    def ask(messages: Any, **more: Any) -> Answer:
        if providers.model and providers.model.history:
            gate.pass_through()
        return original(messages, **more)

    providers.model.ask = ask  # type: ignore[method-assign]
    run, took = carry_out_and(cancel, topic, gate)

    assert (run.status, run.model_calls) == ("cancelled", 2)
    assert took < 5
    assert ModelCall.objects.get(purpose="write").error.startswith("cancelled because")


def test_a_cancelled_run_can_be_retried(topic: Topic, providers: Providers):
    cast.set_up(providers, 1)
    run = cast.started(topic)
    with cast.before_step("read", lambda: cancel(run)):
        cast.carried_out(run)

    run.retry(by=topic.owner.actor)

    assert cast.carried_out(run).number == 1


# --- stop now ------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_stop_now_reports_what_was_read_and_leaves_the_rest_unseen(
    topic: Topic, providers: Providers, gate: Gate
):
    cast.set_up(providers, 1, 2, 3)
    hold_pages(providers, gate, but=1)

    run, took = carry_out_and(stop, topic, gate)

    assert (run.status, run.number, run.read_count) == ("partial", 1, 1)
    assert took < 5
    assert run.warnings[0].startswith("stopped early, so the report")
    assert cast.sentence(1) in run.report.body
    assert list(SeenUrl.objects.values_list("url", flat=True)) == [cast.url(1)]


def test_what_a_stopped_run_left_unread_is_new_to_the_next(
    topic: Topic, providers: Providers, run_of: RunOf
):
    cast.set_up(providers, 1)
    run_of(topic)
    cast.set_up(providers, 1, 2)
    run = cast.started(topic)
    with cast.before_step("filter_seen", lambda: stop(run)):
        cast.carried_out(run)

    assert run_of(topic).new_count == 1


@pytest.mark.requirement("R42")
@pytest.mark.parametrize("step", ["filter_seen"])
def test_a_run_stopped_before_it_read_does_not_say_that_nothing_is_new(
    topic: Topic, providers: Providers, run_of: RunOf, step: str
):
    cast.set_up(providers, 1)
    run_of(topic)
    cast.set_up(providers, 1, 2)
    run = cast.started(topic)
    with cast.before_step(step, lambda: stop(run)):
        cast.carried_out(run)

    assert (run.status, run.number) == ("partial", 2)
    assert "all already known" not in run.report.delta
    assert providers.pages.history == []
    assert TopicFact.objects.filter(topic=topic).current().exists()


def test_a_baseline_stopped_before_it_read_says_what_waits(topic: Topic, providers: Providers):
    cast.set_up(providers, 1, 2)
    run = cast.started(topic)
    with cast.before_step("filter_seen", lambda: stop(run)):
        cast.carried_out(run)

    assert "The next run will read 2 sources" in run.report.summary
    assert not SeenUrl.objects.exists()


def test_a_run_that_is_stopped_before_its_search_asks_no_one(topic: Topic, providers: Providers):
    cast.set_up(providers, 1)
    run = cast.started(topic)
    stop(run)

    cast.carried_out(run)

    assert providers.search.asked == providers.pages.history == []
    assert (run.status, run.number) == ("cancelled", None)
    assert run.error == "stopped before the first search, so there’s nothing to report"


# --- the trash -----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["search", "read", "verify", "save"])
def test_a_topic_trashed_in_mid_run_cancels_the_run_and_loses_nothing(
    topic: Topic, providers: Providers, run_of: RunOf, step: str
):
    cast.set_up(providers, 1)
    run_of(topic)
    facts = set(TopicFact.objects.filter(topic=topic).current().values_list("text", flat=True))
    cast.set_up(providers, 1, 2)
    run = cast.started(topic)
    trashed = Topic.objects.get(pk=topic.pk)
    with cast.before_step(step, lambda: trashed.trash(by=topic.owner.actor)):
        cast.carried_out(run)

    assert (run.status, run.number) == ("cancelled", None)
    assert "Trash" in run.error
    assert set(SeenUrl.objects.values_list("url", flat=True)) == {cast.url(1)}
    trashed.restore(by=topic.owner.actor)
    assert facts == set(
        TopicFact.objects.filter(topic=topic).current().values_list("text", flat=True)
    )
    assert run_of(Topic.objects.get(pk=topic.pk)).number == 2


# --- budgets -------------------------------------------------------------------------------------


def spending(*answers: Any, tokens: int, profile: LlmProfile = FAKE_PROFILE) -> FakeLanguageModel:
    """A model whose first answer costs that many tokens."""
    plan = Answer('{"queries": ["cells"]}', Usage(tokens, 0), "fake", "stop")
    return FakeLanguageModel(plan, *answers, profile=profile)


def limit(topic: Topic, **fields: Any) -> None:
    TopicSettings.objects.filter(topic=topic).update(**fields)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"max_tokens": 500}, "limit of 500 tokens (600 used)"),
        ({"max_money": Decimal("0.01")}, "limit of $0.01 ($0.6000 used)"),
    ],
)
def test_a_run_that_spent_its_budget_stops_says_so_and_keeps_its_report(
    topic: Topic, providers: Providers, fields: dict[str, Any], says: str
):
    cast.set_up(providers, 1)
    dear = LlmProfile("http://x.invalid", "dear", price_in=Decimal(1000), price_out=Decimal(0))
    providers.model = spending(tokens=600, profile=dear)
    limit(topic, **fields)

    run = cast.carried_out(cast.started(topic))

    assert (run.status, run.number, run.model_calls) == ("partial", 1, 1)
    assert says in run.warnings[0]
    assert run.report.is_extractive


def test_a_run_stops_when_its_minutes_are_over(topic: Topic, providers: Providers):
    cast.set_up(providers, 1)
    limit(topic, max_minutes=3)
    run = cast.started(topic)
    Run.objects.filter(pk=run.pk).update(worked_seconds=240)

    cast.carried_out(run)

    assert (run.status, run.number) == ("failed", None)
    assert "the run reached its time limit of 3 min. Nothing was searched" in run.error


def test_a_run_whose_worker_was_away_for_hours_has_its_minutes_still(
    topic: Topic, providers: Providers
):
    cast.set_up(providers, 1)
    limit(topic, max_minutes=3)
    run = cast.started(topic)
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(hours=5))

    assert cast.carried_out(run).status == "succeeded"


def test_a_month_that_is_used_up_stops_a_run_before_it_asks_the_model(
    topic: Topic, providers: Providers
):
    cast.set_up(providers, 1)
    providers.model = FakeLanguageModel()
    ModelCall.objects.create(owner=topic.owner, purpose="plan", source="x", prompt_tokens=900)
    topic.owner.monthly_tokens = 800
    topic.owner.save()

    run = cast.carried_out(cast.started(topic))

    assert (run.status, run.number) == ("partial", 1)
    assert "the monthly limit of 800 tokens has been reached" in run.warnings[0]
    assert providers.model.history == []
    assert run.report.is_extractive


def test_a_budget_that_is_reached_at_the_very_call_stops_the_run_too(
    topic: Topic, providers: Providers
):
    cast.set_up(providers, 1)
    providers.model = FakeLanguageModel()
    topic.owner.monthly_tokens = 800
    topic.owner.save()
    with cast.before_step(
        "plan",
        lambda: ModelCall.objects.create(
            owner=topic.owner, purpose="ask", source="x", prompt_tokens=900
        ),
    ):
        run = cast.carried_out(cast.started(topic))

    assert (run.status, run.number) == ("partial", 1)
    assert "800 tokens" in run.warnings[0]
    assert run.steps.get(name="plan").output["by"] == "facets"


def test_no_more_pages_are_read_than_the_budget_allows_and_the_run_says_so(
    topic: Topic, providers: Providers
):
    cast.set_up(providers, 1, 2, 3)
    limit(topic, max_pages=2)

    run = cast.carried_out(cast.started(topic))

    assert len(providers.pages.history) == run.read_count == 2
    assert "read only 2 of 3 new pages" in " ".join(run.warnings)
    assert Hit.objects.filter(run=run, reading="not read").count() == 1


def test_a_run_within_its_budgets_says_nothing_of_them(topic: Topic, providers: Providers):
    cast.set_up(providers, 1)
    providers.model = FakeLanguageModel(cast.PLAN, cast.report(1))
    limit(topic, max_tokens=100_000, max_money=Decimal(1), max_minutes=5, max_pages=5)

    run = cast.carried_out(cast.started(topic))

    assert (run.status, run.warnings) == ("succeeded", [])
    assert run.tokens == sum(c.prompt_tokens + c.completion_tokens for c in ModelCall.objects.all())
