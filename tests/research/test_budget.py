"""Budgets of a run and of a month."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from beacon_site.providers.llm.base import Usage
from memory.models import ModelCall, Topic
from memory.services.llm import spending
from memory.services.llm.asking import BudgetReached, check_month
from research.models import Run, Step, TopicSettings
from research.services.budgets.budget import DEFAULTS, Budget, RunMeter, budget_for
from tests.providers.fakes import FAKE_PROFILE, FakeLanguageModel
from tests.research import cast
from tests.research.conftest import Providers


@pytest.fixture
def run(topic: Topic) -> Run:
    held = Run.objects.claim(cast.started(topic).pk, worker="test")
    assert held is not None
    return held


def spend(owner: Any, **fields: Any) -> ModelCall:
    call: ModelCall = ModelCall.objects.create(owner=owner, purpose="x", source="x", **fields)
    return call


def test_a_topic_without_limits_of_its_own_has_the_depths(run: Run):
    assert budget_for(TopicSettings(), run.depth) == DEFAULTS["quick"]


def test_a_topics_own_limits_come_first(run: Run):
    own = TopicSettings(max_tokens=7, max_pages=8, max_minutes=9, max_money=Decimal(0))

    assert budget_for(own, run.depth) == Budget(tokens=7, pages=8, minutes=9, money=Decimal(0))


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        (Budget(tokens=30, pages=1, minutes=9), "limit of 30 tokens (30 used)"),
        (
            Budget(tokens=99, pages=1, minutes=9, money=Decimal("0.02")),
            "$0.02 ($0.0200 used)",
        ),
    ],
)
def test_a_meter_says_which_limit_is_reached(run: Run, budget: Budget, says: str):
    meter = RunMeter(run, budget)
    meter.check()

    meter.count(Usage(10, 20), Decimal("0.02"))

    with pytest.raises(BudgetReached) as reached:
        meter.check()
    assert says in str(reached.value)


def test_what_a_call_costs_is_counted_on_the_run_and_on_its_step(run: Run):
    meter = RunMeter(run, DEFAULTS["quick"])
    meter.step = Step.objects.create(run=run, name="plan")

    meter.count(Usage(10, 20), Decimal("0.02"))
    meter.count(Usage(1, 2), Decimal("0.01"))

    for row in (Run.objects.get(pk=run.pk), run, Step.objects.get()):
        assert (row.prompt_tokens, row.completion_tokens, row.money) == (11, 22, Decimal("0.03"))
    assert Run.objects.get(pk=run.pk).model_calls == 2


def test_the_month_counts_from_the_first_and_each_person_alone(alice: Any, bob: Any):
    spend(alice, prompt_tokens=5, completion_tokens=6, money=Decimal("0.5"))
    spend(bob, prompt_tokens=500)
    old = spend(alice, prompt_tokens=900)
    ModelCall.objects.filter(pk=old.pk).update(created=timezone.now() - timedelta(days=32))

    spent = spending.spent_this_month(alice)
    assert (spent.tokens, spent.money, spent.unpriced) == (11, Decimal("0.5"), 0)


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"monthly_tokens": 11}, "monthly limit of 11 tokens has been reached"),
        ({"monthly_money": Decimal("0.5")}, "monthly limit of $0.5 has been reached"),
    ],
)
def test_a_month_that_is_used_up_says_so(alice: Any, limits: dict[str, Any], says: str):
    for name, value in limits.items():
        setattr(alice, name, value)
    check_month(alice)
    spend(alice, prompt_tokens=5, completion_tokens=6, money=Decimal("0.5"))

    with pytest.raises(BudgetReached, match="monthly limit") as reached:
        check_month(alice)
    assert says in str(reached.value)


# --- an unknown price -----------------------------------------------------------------------------


def unpriced_call(run: Run, meter: RunMeter) -> None:
    ModelCall.objects.create(
        owner=run.topic.owner, purpose="plan", source=run.source, model="m1", money=None
    )
    meter.count(Usage(10, 20), None)


def test_a_call_of_unknown_price_counts_its_tokens_and_itself(run: Run):
    meter = RunMeter(run, DEFAULTS["quick"])
    meter.step = Step.objects.create(run=run, name="plan")

    unpriced_call(run, meter)

    for row in (Run.objects.get(pk=run.pk), run, Step.objects.get()):
        assert (row.prompt_tokens, row.money, row.unpriced_calls) == (10, 0, 1)
    assert run.warnings == []


def test_a_limit_of_money_that_cannot_be_kept_is_explained_once_and_the_run_continues(run: Run):
    meter = RunMeter(run, Budget(tokens=99, pages=1, minutes=9, money=Decimal(1)))

    unpriced_call(run, meter)
    unpriced_call(run, meter)

    meter.check()
    (warning,) = Run.objects.get(pk=run.pk).warnings
    assert "the price of m1 isn’t set" in warning
    assert "99 tokens" in warning


def test_the_months_limit_of_money_is_warned_of_too(run: Run):
    run.topic.owner.monthly_money = Decimal(5)

    unpriced_call(run, RunMeter(run, DEFAULTS["quick"]))

    assert "The cost limit can’t be enforced" in run.warnings[0]


def test_the_limit_of_tokens_still_ends_a_run_whose_price_is_unknown(run: Run):
    meter = RunMeter(run, Budget(tokens=30, pages=1, minutes=9, money=Decimal(1)))

    unpriced_call(run, meter)

    with pytest.raises(BudgetReached, match="30 tokens"):
        meter.check()


def test_a_whole_run_at_an_unknown_price_ends_with_its_report_and_one_warning(
    topic: Topic, providers: Providers
):
    TopicSettings.objects.filter(topic=topic).update(max_money=Decimal("0.01"))
    cast.set_up(providers, 1, 2)
    unpriced = replace(FAKE_PROFILE, price_in=None, price_out=None)
    providers.model = FakeLanguageModel(cast.PLAN, cast.report(1, 2), profile=unpriced)

    run = cast.carried_out(cast.started(Topic.objects.get(pk=topic.pk)))

    assert (run.status, run.money, run.unpriced_calls) == ("succeeded", 0, 2)
    assert list(ModelCall.objects.values_list("money", flat=True)) == [None, None]
    assert sum("The cost limit can’t be enforced" in told for told in run.warnings) == 1
    assert {step.unpriced_calls for step in run.steps.filter(prompt_tokens__gt=0)} == {1}
