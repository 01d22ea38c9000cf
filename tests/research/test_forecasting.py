"""A run's estimate, and whether it fits into the month."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from beacon_site.providers.llm.base import LlmProfile
from memory.models import Activity, ModelCall, Topic
from research.models import Run, Step, TopicSettings
from research.services.budgets import forecasting
from research.services.budgets.forecasting import forecast_of
from research.services.runs.execution.starting import create_topic
from research.services.schedules import scheduling
from tests.research.factories import make_run

PRICED = LlmProfile("http://m", "m", price_in=Decimal(1), price_out=Decimal(2))


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The site's model is priced, until a test says otherwise."""
    site: dict[str, Any] = {"profile": PRICED}
    monkeypatch.setattr("memory.services.llm.connections.llm_profile", lambda: site["profile"])
    monkeypatch.setattr("beacon_site.celery.send", lambda *args, **kwargs: True)
    return site


def past(topic: Topic, prompt: int, answer: int = 0, *, minutes: int = 2, asked: int = 3) -> Run:
    run = make_run(topic)
    began = timezone.now() - timedelta(minutes=minutes)
    Run.objects.filter(pk=run.pk).update(started_at=began, finished_at=timezone.now())
    money = Decimal(prompt + 2 * answer) / 1_000_000
    spent = {"prompt_tokens": prompt, "completion_tokens": answer, "money": money}
    ModelCall.objects.create(
        owner=topic.owner, topic=topic, purpose="x", source=run.source, **spent
    )
    Step.objects.create(run=run, name="search", counts={"queries": asked})
    return run


def test_it_goes_by_the_topics_own_runs_of_that_depth(topic: Topic):
    past(topic, 1_000, 500, minutes=2, asked=3)
    past(topic, 3_000, 500, minutes=4, asked=6)

    found = forecast_of(topic)

    assert (found.basis, found.runs) == ("topic", 2)
    assert (found.tokens, found.minutes, found.searches) == ((1_500, 3_500), (2, 4), (3, 6))
    assert found.money == (Decimal("0.002"), Decimal("0.004"))
    assert found.basis_words == "based on this topic’s last 2 quick runs"
    assert found.words == "$0.0020–$0.0040, 1,500–3,500 tokens, 2–4 min, 3–6 searches"


def test_a_topic_without_runs_goes_by_the_others(topic: Topic, alice: Any):
    past(create_topic(owner=alice, title="Another", by=alice.actor), 1_000)

    assert forecast_of(topic).basis_words == "based on your last quick run of another topic"


def test_without_any_run_it_says_that_it_goes_by_what_is_usual(topic: Topic, bob: Any):
    past(create_topic(owner=bob, title="Bob's own", by=bob.actor), 1_000)

    assert "you haven’t run one yet" in forecast_of(topic).basis_words
    assert "you haven’t run one yet" in forecast_of(topic, "deep").basis_words


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        (LlmProfile("http://m", "m"), "price unknown"),
        (LlmProfile("http://m", "m", price_in=Decimal(0), price_out=Decimal(0)), "free (the"),
        (None, "free (no model)"),
    ],
)
def test_an_unknown_price_is_never_nothing(
    topic: Topic, model: dict[str, Any], profile: LlmProfile | None, says: str
):
    model["profile"] = profile

    assert forecast_of(topic).words.startswith(says)
    assert forecast_of(topic).times(4).startswith(says)


def test_it_never_passes_the_runs_own_limits(topic: Topic):
    TopicSettings.objects.filter(topic=topic).update(max_tokens=2_000, max_money=Decimal("0.01"))
    topic = Topic.objects.get(pk=topic.pk)
    past(topic, 90_000)

    found = forecast_of(topic)

    assert found.tokens == (2_000, 2_000)
    assert found.money == (Decimal("0.01"), Decimal("0.01"))


def test_runs_that_were_written_without_a_model_say_nothing_of_its_cost(topic: Topic):
    make_run(topic)

    assert forecast_of(topic).basis == "usual"


def test_many_topics_are_a_few_queries(
    topic: Topic, alice: Any, django_assert_max_num_queries: Any
):
    topics = [create_topic(owner=alice, title=f"T {n}", by=alice.actor) for n in range(4)]
    for one in topics:
        past(one, 100)
    found = list(Topic.objects.for_user(alice).select_related("settings"))

    with django_assert_max_num_queries(5):
        assert len(forecasting.forecasts_of(alice, found)) == 5


# --- whether it fits ------------------------------------------------------------------------------


def due(topic: Topic, **settings: Any) -> list[Run]:
    TopicSettings.objects.filter(topic=topic).update(**settings)
    scheduling.set_schedule(topic, by=topic.owner.actor, preset="daily", time_zone="UTC")
    return scheduling.start_due(topic.schedule.next_run_at + timedelta(seconds=1))


@pytest.fixture
def dear(topic: Topic) -> Topic:
    """A topic whose run took 10,000 tokens, one cent."""
    past(topic, 10_000)
    return Topic.objects.get(pk=topic.pk)


@pytest.mark.parametrize(
    "limits", [{"month_tokens": 15_000}, {"month_money": Decimal("0.01")}, {"month_tokens": 0}]
)
def test_a_scheduled_run_that_would_not_fit_is_skipped_and_the_log_says_why(
    dear: Topic, limits: dict[str, Any]
):
    assert due(dear, **limits) == []

    line = Activity.objects.get(kind="schedule-skipped")
    assert "left this month" in line.detail["why"]
    assert line.is_warning


def test_or_it_runs_smaller_where_its_owner_chose_so(dear: Topic):
    (run,) = due(dear, month_tokens=15_000, over_limit="smaller", depth="deep")

    assert (run.depth, run.settings["reading"], run.settings["max_tokens"]) == (
        "quick", "skim", 5_000,
    )  # fmt: skip
    assert "This run was smaller than usual" in run.warnings[0]


def test_the_accounts_own_month_counts_too(dear: Topic, alice: Any):
    alice.monthly_tokens = 12_000
    alice.save(update_fields=["monthly_tokens"])

    assert due(dear, month_tokens=900_000) == []


def test_what_fits_runs_as_usual(dear: Topic):
    (run,) = due(dear, month_tokens=900_000, month_money=Decimal(5))

    assert run.warnings == []


def test_without_a_model_everything_fits(dear: Topic, model: dict[str, Any]):
    model["profile"] = None

    assert len(due(dear, month_tokens=1)) == 1


def test_a_price_that_is_not_known_keeps_no_run_back(dear: Topic, model: dict[str, Any]):
    model["profile"] = LlmProfile("http://m", "m")

    assert not forecasting.why_not(
        forecast_of(dear), forecasting.MonthLimits(money=Decimal("0.0001"))
    )
