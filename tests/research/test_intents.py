"""A run filters changes by the topic's intent, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from beacon_site.net.errors import ProviderUnavailable
from memory.models import ModelCall, Note, Observation, Topic, TopicFact
from research.models import DeltaItem, Run, Step
from research.services.runs.execution import pipeline
from tests.research import cast
from tests.research.conftest import Providers

RunOf = Callable[[Topic], Run]
PRICES = "Only tell me about prices"


def asked(topic: Topic, **fields: Any) -> None:
    type(topic.settings).objects.filter(topic=topic).update(**fields)


def items(run: Run, **wanted: Any) -> list[DeltaItem]:
    return list(run.delta_items.filter(status="new", **wanted))


def withheld(run: Run) -> list[str]:
    return [item.sentence for item in items(run) if item.hidden_reason]


def judged(*tells: bool, **more: Any) -> dict[str, Any]:
    rows = [{"item": n, "tell": tell, "why": f"why {n}"} for n, tell in enumerate(tells, start=1)]
    return {"judgements": rows} | more


def test_without_an_intent_everything_is_reported_and_no_one_judges(
    topic: Topic, once: Run, run_of: RunOf
):
    run = run_of(topic)

    assert withheld(run) == []
    assert not run.steps.filter(name="judge").exists()


def test_the_rule_withholds_what_was_not_asked_for_and_keeps_why_and_by_what(
    topic: Topic, once: Run, run_of: RunOf
):
    asked(topic, intent=PRICES)
    run = run_of(topic)

    [hidden] = items(run, sentence=cast.sentence(2))
    assert "price" in hidden.hidden_reason
    assert hidden.judged_by == "rule"
    assert any("euros" in item.sentence for item in items(run, hidden_reason=""))
    assert cast.sentence(2) not in run.report.delta


def test_what_is_withheld_is_remembered_all_the_same(topic: Topic, once: Run, run_of: RunOf):
    asked(topic, intent=PRICES)
    run = run_of(topic)

    assert TopicFact.objects.filter(topic=topic, text=cast.sentence(2)).current().exists()
    followed(run, "extract")
    assert Observation.objects.filter(owner=topic.owner, content=cast.sentence(2)).exists()
    followed(run, "summarise")
    assert "Graz" in Note.objects.get(owner=topic.owner, source=run.source).content


def followed(run: Run, name: str) -> None:
    step = run.steps.get(is_follow_up=True, name=name)
    Step.objects.filter(pk=step.pk).update(not_before=Now() - timedelta(seconds=1))
    pipeline.run_follow_up(step.pk)


def test_a_run_of_which_everything_is_withheld_is_quiet_and_says_so(
    topic: Topic, once: Run, run_of: RunOf
):
    asked(topic, intent="Only lawsuits")
    run = run_of(topic)

    assert run.report.is_quiet
    assert "Nothing matches your filter. 2 other changes" in run.report.delta


def test_a_model_judges_by_the_intent_and_its_reason_is_kept(
    topic: Topic, providers: Providers, once: Run, run_of: RunOf
):
    asked(topic, intent=PRICES)
    providers.model = cast.model(cast.PLAN, cast.report(2), judged(False))
    run = run_of(topic)

    [item] = items(run)
    assert (item.hidden_reason, item.judged_by) == ("why 1", "model")
    prompt = providers.model.history[2].messages
    assert PRICES in prompt[0].content
    assert cast.sentence(2) in prompt[1].content


@pytest.mark.parametrize(
    "answer",
    [ProviderUnavailable("the model is down"), "I will not.", {"judgements": "no"}],
    ids=["down", "prose", "nonsense"],
)
def test_a_judge_that_fails_withholds_nothing_and_the_run_says_so(
    topic: Topic, providers: Providers, once: Run, run_of: RunOf, answer: Any
):
    asked(topic, intent=PRICES)
    providers.model = cast.model(cast.PLAN, cast.report(2), *[answer] * 4)
    run = run_of(topic)

    assert withheld(run) == []
    assert any(warning.startswith("No filter was applied") for warning in run.warnings)


def test_what_the_model_leaves_out_is_reported_and_counted(
    topic: Topic, providers: Providers, once: Run, run_of: RunOf
):
    asked(topic, intent=PRICES)
    providers.model = cast.model(
        cast.PLAN, cast.report(2), {"judgements": [{"item": 9, "tell": 0}]}
    )
    run = run_of(topic)

    assert withheld(run) == []
    assert any("didn’t judge 1 change" in warning for warning in run.warnings)


def test_an_intent_that_the_rule_cannot_read_shows_everything_and_says_so(
    topic: Topic, once: Run, run_of: RunOf
):
    asked(topic, intent="Only what is important to me")
    run = run_of(topic)

    assert withheld(run) == []
    assert any("the filter needs keywords" in warning for warning in run.warnings)


def test_a_first_run_has_nothing_to_withhold(topic: Topic, providers: Providers, run_of: RunOf):
    asked(topic, intent="Only lawsuits")
    cast.set_up(providers, 1)
    run = run_of(topic)

    assert run.status == "succeeded"
    assert cast.sentence(1) in run.report.body


def test_what_muted_sources_alone_say_is_remembered_and_not_announced(
    topic: Topic, once: Run, run_of: RunOf
):
    asked(topic, mute_places=["site2.example"])
    run = run_of(topic)

    assert cast.sentence(2) in withheld(run)
    assert {item.judged_by for item in items(run)} == {"muted"}
    assert TopicFact.objects.filter(topic=topic, text=cast.sentence(2)).current().exists()


def test_a_killed_judge_is_not_asked_twice(topic: Topic, providers: Providers, once: Run):
    asked(topic, intent=PRICES)
    providers.model = cast.model(cast.PLAN, cast.report(2), judged(False))
    run = cast.started(topic)
    with cast.killed_after("judge"):
        cast.carried_out(run)
    cast.lose_lease(run)
    run = cast.carried_out(run)

    assert withheld(run) == [cast.sentence(2)]
    assert [call.purpose for call in run_calls(run)].count("judge") == 1


def run_calls(run: Run) -> list[Any]:
    return list(ModelCall.objects.filter(source=run.source))
