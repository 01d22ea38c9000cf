"""A run from end to end on scripted services: baseline, delta, nothing new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.providers.search.base import SearchHit
from memory.models import SeenUrl, Topic, TopicFact
from research.models import DeltaItem, Run
from tests.providers.fakes import FakeLanguageModel
from tests.research import cast
from tests.research.conftest import Providers

RunOf = Callable[[Topic], Run]

ONE = (
    "Solid-state batteries in brief\n\n"
    "Solid-state batteries reached an energy density of 410 Wh/kg in a pilot line in March 2026. "
    "The pilot line of solid-state batteries in Kyoto produced 12,000 cells during its first month."
)
TWO = (
    "New pilot line\n\n"
    "A second pilot line for solid-state batteries opened in Lyon on 4 May 2026 with 300 workers. "
    "Its owner expects solid-state batteries to cost 90 euros per kilowatt hour by 2029."
)


def hit(n: int, text: str = "") -> SearchHit:
    return SearchHit(url=f"https://site{n}.example/page", title=f"Page {n}", snippet=text)


@pytest.fixture
def two_runs(topic: Topic, providers: Providers, run_of: RunOf) -> tuple[Run, Run]:
    providers.search.__init__([hit(1)])  # type: ignore[misc]
    providers.pages.pages = {"https://site1.example/page": ONE, "https://site2.example/page": TWO}
    first = run_of(topic)
    providers.search.__init__([hit(1), hit(2)])  # type: ignore[misc]
    return first, run_of(topic)


@pytest.mark.requirement("R6", "R26", "R40")
def test_the_first_run_is_a_baseline_without_a_delta_section(two_runs: tuple[Run, Run]):
    first, _second = two_runs

    assert (first.status, first.number, first.is_baseline) == ("succeeded", 1, True)
    assert first.report.delta == ""
    assert "410 Wh/kg" in first.report.body


@pytest.mark.requirement("R37", "R39", "R41", "R49", "R57", "R230")
def test_the_second_run_reports_only_what_is_new(two_runs: tuple[Run, Run]):
    _first, second = two_runs

    assert (second.number, second.new_count, second.known_count) == (2, 1, 1)
    assert second.report.delta_heading == "What Changed Since Last Week"
    assert "Lyon" in second.report.delta
    assert "410 Wh/kg" not in second.report.delta


def test_the_steps_store_what_their_types_say(two_runs: tuple[Run, Run]):
    assert [cast.untyped_outputs(run) for run in two_runs] == [{}, {}]


@pytest.mark.requirement("R42")
def test_nothing_new_is_explained_plainly_and_the_run_still_counts(
    topic: Topic, providers: Providers, run_of: RunOf, two_runs: tuple[Run, Run]
):
    third = run_of(topic)

    assert (third.status, third.number) == ("succeeded", 3)
    assert third.report.is_quiet
    assert third.report.delta.startswith("Nothing new since")
    assert TopicFact.objects.filter(topic=topic).current().count() >= 2


@pytest.mark.requirement("R13", "R43")
def test_every_returned_url_is_seen_from_then_on(topic: Topic, two_runs: tuple[Run, Run]):
    urls = set(SeenUrl.objects.filter(topic=topic).values_list("url", flat=True))

    assert urls == {"https://site1.example/page", "https://site2.example/page"}


@pytest.mark.requirement("R30")
def test_all_four_kinds_of_the_seed_s_memory_are_there(topic: Topic, two_runs: tuple[Run, Run]):
    _first, second = two_runs

    assert second.steps.exclude(output={}).count() >= 6  # short-term: step outputs
    assert topic.seen_urls.count() == 2  # structured: seen URLs
    assert topic.facts.current().count() >= 3  # semantic: facts
    assert topic.summary  # episodic: the last report in a paragraph


@pytest.mark.requirement("R48")
def test_citation_n_is_source_n(two_runs: tuple[Run, Run]):
    _first, second = two_runs
    source = second.report.sources[0]

    assert (source["n"], source["domain"]) == (1, "site2.example")
    assert DeltaItem.objects.filter(run=second, status="new")[0].citations == [1]


@pytest.mark.requirement("R33", "R38")
def test_the_memory_enters_the_planning_and_the_writing_prompt(
    topic: Topic, providers: Providers, run_of: RunOf, two_runs: tuple[Run, Run]
):
    providers.search.__init__([hit(3)])  # type: ignore[misc]
    providers.pages.pages["https://site3.example/page"] = TWO.replace("Lyon", "Graz")
    providers.model = FakeLanguageModel(
        {"queries": ["solid-state batteries news"]},
        {"summary": "A line opened.", "body": "A line opened in Graz [1].", "findings": []},
        default={"relations": []},
    )

    run_of(topic)

    plan, write = (asked.prompt for asked in providers.model.history[:2])
    assert "410 Wh/kg" in plan
    assert "410 Wh/kg" in write
    assert "DELTA report" in write


@pytest.mark.requirement("R45", "R46")
@pytest.mark.parametrize("nonsense", ["not json at all", {"wrong": 1}, "[1, 2", ""])
def test_a_planner_that_answers_nonsense_gives_the_three_queries(
    topic: Topic, providers: Providers, run_of: RunOf, nonsense: Any
):
    providers.search.__init__([hit(1)])  # type: ignore[misc]
    providers.model = FakeLanguageModel(nonsense, default={"body": "Text of a report [1]."})

    run = run_of(topic)

    asked = run.steps.get(name="plan").output["queries"]
    assert len(asked) == 3
    assert asked[0] == "Solid-state batteries"
    assert "news" in asked[1]
    assert "comparison" in asked[2]


@pytest.mark.requirement("R47")
def test_a_failing_query_is_tried_three_times_and_fails_no_run(
    topic: Topic, providers: Providers, run_of: RunOf
):
    providers.model = FakeLanguageModel({"queries": ["a1"]}, default={"body": "Text [1]."})
    providers.search.enqueue(*[ProviderUnavailable("down")] * 2, [hit(1)])
    providers.pages.pages = {"https://site1.example/page": ONE}

    run = run_of(topic)

    assert run.number == 1
    assert providers.search.asked == ["a1"] * 3


@pytest.mark.requirement("R47")
def test_an_empty_answer_is_not_requested_again(topic: Topic, providers: Providers, run_of: RunOf):
    providers.model = FakeLanguageModel({"queries": ["a1"]})

    run = run_of(topic)

    assert providers.search.asked == ["a1"]
    assert run.status == "succeeded"


def test_where_every_search_is_refused_the_run_fails_and_says_why(
    topic: Topic, providers: Providers, run_of: RunOf
):
    providers.search.search = lambda query, options: (_ for _ in ()).throw(  # type: ignore[method-assign]
        ProviderRejected("the key is wrong")
    )

    run = run_of(topic)

    assert (run.status, run.number) == ("failed", None)
    assert "the key is wrong" in run.error
    assert topic.seen_urls.count() == 0  # type: ignore[attr-defined]


def test_where_every_search_is_down_the_run_waits_and_is_tried_again(
    topic: Topic, providers: Providers, run_of: RunOf
):
    providers.search.search = lambda query, options: (_ for _ in ()).throw(  # type: ignore[method-assign]
        ProviderUnavailable("no network")
    )

    run = run_of(topic)

    assert (run.status, run.tries) == ("queued", 1)
    assert "no network" in run.error
