"""Every sentence of a report names its source: what is new, and what was known before."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from beacon_site.text.cleaning import plain
from memory.models import Topic, TopicFact, User
from memory.models.actors import Actor
from research.models import DeltaItem, Report, Run, TopicSettings
from research.services.runs.execution import starting
from research.services.runs.reporting.sentences import bare_sentence, sentences_of
from tests.research import cast
from tests.research.conftest import Providers

RunOf = Callable[[Topic], Run]


# A memo's head, a gap that it names, and what the run checked.
ABOUT = ("To: ", "The sources don’t say what this means")
CHECKED = re.compile(
    r"\d+ (?:known pages? (?:was|were) checked again|facts? (?:is|are|was|were)n?’?t? )|No known pages"
)


def without_source(report: Report) -> list[str]:
    """Return the sentences without a source, except for those about the report itself."""
    lines = report.body.split("\n")
    own = [line for line in lines if re.fullmatch(r"(- )?\*[^*]+\*|>.*", line)]
    about = {bare_sentence(plain(line)) for line in own}
    numbers = {source["n"] for source in report.sources}
    return [
        one.text
        for one in sentences_of(report)
        if not numbers.intersection(one.citations)
        and one.text not in about
        and not one.text.startswith(ABOUT)
        and not CHECKED.match(one.text)
    ]


def items_without_source(report: Report) -> list[str]:
    numbers = {source["n"] for source in report.sources}
    items = DeltaItem.objects.filter(run=report.run_id)
    return [one.sentence for one in items if not numbers.intersection(one.citations)]


def test_every_sentence_of_the_samples_reports_has_a_source(alice: User, run_of: RunOf):
    topic = starting.create_sample_topic(alice, by=alice.actor)

    reports = [run_of(topic).report for _turn in range(4)]

    assert [without_source(one) for one in reports] == [[], [], [], []]
    assert [items_without_source(one) for one in reports] == [[], [], [], []]


@pytest.mark.parametrize("style", TopicSettings.Style.values)
@pytest.mark.parametrize(
    "found", [[[1, 2], [3, 4], [5]], [[1, 2], [1, 2], [1, 2]], [[1, 2], [], [3]]]
)
def test_every_sentence_of_a_scripted_topic_has_a_source(
    topic: Topic, providers: Providers, run_of: RunOf, style: str, found: list[list[int]]
):
    topic.settings.report_style = style
    topic.settings.save(update_fields=["report_style"])
    reports = []
    for numbers in found:
        cast.set_up(providers, *numbers)
        reports.append(run_of(topic).report)

    assert [without_source(one) for one in reports] == [[], [], []]
    assert [items_without_source(one) for one in reports] == [[], [], []]


@pytest.fixture
def known(topic: Topic, providers: Providers, run_of: RunOf) -> Topic:
    """A topic with a baseline of page 1."""
    cast.set_up(providers, 1)
    run_of(topic)
    return topic


def test_a_known_fact_cites_its_source_and_says_when_it_was_last_confirmed(
    known: Topic, providers: Providers, run_of: RunOf
):
    cast.set_up(providers, 1)
    first = run_of(known).report

    source = next(one for one in first.sources if one["link"] == cast.url(1))
    # Its page was read again and still holds it.
    assert f"{cast.sentence(1)} [{source['n']}] *(confirmed once, on " in first.body
    assert source["state"] == "known" and source["title"] == "Cells from Lyon"
    assert f"[Cells from Lyon]({cast.url(1)})" in first.as_markdown()

    providers.search = cast.FakeSearch([cast.hit(1), cast.hit(2)])
    providers.pages = cast.FakeFetcher({cast.url(2): cast.page(1), cast.url(1): cast.page(1)})
    assert "*(confirmed 2 times, last on " in run_of(known).report.body


def test_a_source_that_was_not_read_again_counts_once_as_cited(
    known: Topic, providers: Providers, run_of: RunOf
):
    cast.set_up(providers, 1)
    providers.pages.pages.clear()
    assert not run_of(known).hits.exclude(cited_as=None).exists()


def test_a_fact_that_a_person_added_names_the_person(
    known: Topic, providers: Providers, run_of: RunOf
):
    words = "The plant in Graz belongs to a family firm."
    TopicFact.objects.add(known, words, by=Actor.person(known.owner))

    cast.set_up(providers)
    body: Any = run_of(known).report.body

    assert f"{words} *(added by " in body
