"""Planning the queries: by the model with what is known, else by templates."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from memory.models import ModelCall, Topic, TopicFact
from research.models import Run, TopicSettings
from research.services.runs.context.inputs import MAX_QUERY_LENGTH, since
from research.services.runs.context.run_context import RunContext
from research.services.runs.steps.planning import MAX_QUERIES
from tests.research import cast
from tests.research.conftest import Providers

RunOf = Callable[[Topic], Run]


def planned(topic: Topic, providers: Providers, *answers: Any, **settings: Any) -> RunContext:
    TopicSettings.objects.filter(topic=topic).update(**settings)
    topic.refresh_from_db()
    providers.model = cast.model(*answers) if answers else None
    return cast.through(cast.work_of(topic), "plan")


@pytest.mark.requirement("R31", "R33", "R35")
def test_a_first_run_is_planned_without_memory_in_the_prompt(topic: Topic, providers: Providers):
    work = planned(topic, providers, cast.PLAN)

    assert work.output("plan") == {"queries": cast.PLAN["queries"], "by": "model"}
    prompt = providers.model.history[0].prompt  # type: ignore[union-attr]
    assert "Topic: Solid-state batteries" in prompt
    assert "first run" in prompt
    assert "already known" not in prompt


def test_a_fact_marked_sensitive_is_in_no_prompt(topic: Topic, providers: Providers, run_of: RunOf):
    cast.set_up(providers, 1)
    run_of(topic)
    TopicFact.objects.filter(topic=topic).update(sensitivity="sensitive")

    planned(topic, providers, cast.PLAN)

    prompt = providers.model.history[0].prompt  # type: ignore[union-attr]
    assert "from 1 earlier run" in prompt
    assert "Known facts" not in prompt


def test_of_a_topic_marked_sensitive_no_model_is_told(
    topic: Topic, providers: Providers, run_of: RunOf
):
    Topic.objects.filter(pk=topic.pk).update(sensitivity="sensitive")
    cast.set_up(providers, 1)
    providers.model = cast.model(cast.PLAN)

    run = run_of(topic)

    assert run.status == "succeeded" and run.report.is_extractive
    assert providers.model.history == [] and not ModelCall.objects.exists()
    assert any("no model is used" in warning for warning in run.warnings)


@pytest.mark.requirement("R33", "R34", "R50")
def test_a_second_run_is_planned_with_what_is_known_and_when_it_was_checked(
    topic: Topic, providers: Providers, run_of: RunOf
):
    cast.set_up(providers, 1)
    run_of(topic)

    planned(topic, providers, cast.PLAN)

    prompt = providers.model.history[0].prompt  # type: ignore[union-attr]
    today = timezone.localdate().isoformat()
    assert f"Search for news and changes since {today}" in prompt
    assert "from 1 earlier run, last checked on" in prompt
    assert f"1. {cast.sentence(1)}" in prompt or f"2. {cast.sentence(1)}" in prompt


def test_the_prompt_carries_what_the_topic_is_set_to(topic: Topic, providers: Providers):
    planned(
        topic,
        providers,
        cast.PLAN,
        objective="Who builds <plants> & why",
        focus="cost",
        languages=["de"],
        time_frame="month",
        allow_domains=["a.example"],
    )

    prompt = providers.model.history[0].prompt  # type: ignore[union-attr]
    for words in ("Who builds <plants> & why", "Focus: cost", "or in: de", "a.example"):
        assert words in prompt
    assert "Time frame: the last month" in prompt


@pytest.mark.requirement("R45", "R46")
@pytest.mark.parametrize(
    "nonsense",
    [
        "I would search for batteries.",
        '{"queries": ["half of a list',
        {"query": "one"},
        {"queries": []},
        {"queries": [1, 2]},
        {"queries": [["nested"]]},
        {"queries": ["", "  ", "!!!"]},
        "",
        "I cannot help with that.",
        "我会搜索固态电池。",
        "x" * 5_000_000,
    ],
)
def test_a_plan_that_is_none_gives_the_three_queries_and_a_warning(
    topic: Topic, providers: Providers, nonsense: Any
):
    work = planned(topic, providers, nonsense)

    queries = work.output("plan")["queries"]
    year = str(timezone.localdate().year)
    assert work.output("plan")["by"] == "fallback"
    assert queries[0] == "Solid-state batteries"
    assert year in queries[1] and "news" in queries[1]
    assert "comparison" in queries[2]
    assert work.run.warnings[0].startswith("The model couldn’t plan")


@pytest.mark.requirement("R45")
@pytest.mark.parametrize("failure", [ProviderUnavailable("busy"), ProviderRejected("wrong key")])
def test_a_model_that_fails_gives_the_three_queries(
    topic: Topic, providers: Providers, failure: Exception
):
    work = planned(topic, providers, failure)

    assert len(work.output("plan")["queries"]) == 3
    assert str(failure) in work.run.warnings[0]
    assert work.run.model_calls == 1


@pytest.mark.parametrize(
    "answer",
    [
        '["one", "two"]',
        '```json\n{"queries": ["one", "two"]}\n```',
        'Here you are: {"queries": ["one", "two"]} Good luck!',
        {"queries": [" one ", "two", "ONE", "", "two\n"]},
        {"queries": ["o\x00ne", "two"]},
    ],
)
def test_a_plan_is_imported_whatever_dress_it_comes(
    topic: Topic, providers: Providers, answer: Any
):
    work = planned(topic, providers, answer)

    queries = work.output("plan")["queries"]
    assert [query.casefold() for query in queries] == ["one", "two"]
    assert work.run.warnings == []


def test_few_and_short_queries_are_asked_however_many_are_planned(
    topic: Topic, providers: Providers
):
    work = planned(topic, providers, {"queries": [f"{n} " + "word " * 200 for n in range(50)]})

    queries = work.output("plan")["queries"]
    assert len(queries) == MAX_QUERIES
    assert all(len(query) <= MAX_QUERY_LENGTH for query in queries)


@pytest.mark.requirement("R50")
def test_without_a_model_templates_plan_and_a_rerun_asks_for_other_things(
    topic: Topic, providers: Providers, run_of: RunOf
):
    cast.set_up(providers, 1)
    first = run_of(topic).steps.get(name="plan").output

    second = planned(topic, providers).output("plan")

    assert (first["by"], second["by"]) == ("facets", "facets")
    assert 3 <= len(first["queries"]) <= MAX_QUERIES
    assert first["queries"] != second["queries"]


@pytest.mark.requirement("R6")
def test_loading_says_that_there_is_none_yet(topic: Topic, providers: Providers):
    work = planned(topic, providers)

    step = work.run.steps.get(name="load_memory")
    assert step.output == {"memory": None, "problem": ""}
    assert step.detail == "none yet (baseline)"


def test_the_call_is_recorded_under_the_run_that_asked(topic: Topic, providers: Providers):
    work = planned(topic, providers, cast.PLAN)

    call = ModelCall.objects.get()
    step = work.run.steps.get(name="plan")
    assert (call.purpose, call.source) == ("plan", work.run.source)
    assert step.prompt_tokens == call.prompt_tokens > 0


@pytest.mark.parametrize(
    ("frame", "days"), [("any", None), ("day", 1), ("week", 7), ("month", 31), ("year", 366)]
)
def test_a_time_frame_begins_that_many_days_ago(frame: str, days: int | None):
    expected = timezone.localdate() - timedelta(days=days) if days else None

    assert since(TopicSettings(time_frame=frame)) == expected
