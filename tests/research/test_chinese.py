"""A Chinese topic over Chinese articles: facts, and a delta of what changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beacon_site.net.fetch import WebPage
from beacon_site.providers.search.base import SearchHit
from beacon_site.providers.search.sample import Article, read_article
from memory.models import TopicFact
from research.models import DeltaItem, Run
from research.services.runs.execution import starting
from tests import kept_users
from tests.providers.fakes import FakeFetcher, FakeSearch
from tests.research.conftest import Providers, carry_out, scripted_providers

FOLDER = Path(__file__).parent.parent / "data" / "chinese"


def batch(number: int) -> list[Article]:
    return [read_article(path, number) for path in sorted((FOLDER / f"batch{number}").glob("*.md"))]


def set_up(providers: Providers, *batches: int) -> None:
    found = [article for number in batches for article in batch(number)]
    providers.search = FakeSearch(
        [SearchHit(url=a.url, title=a.title, snippet=a.snippet) for a in found]
    )
    providers.pages = FakeFetcher(
        {a.url: WebPage(a.url, a.url, a.title, a.text, published_at=a.published_at) for a in found}
    )


@pytest.fixture(scope="module")
def stored(stored_once: Any) -> tuple[list[int], list[str]]:
    """The keys of three runs, and what the last two searched for."""
    with stored_once(), scripted_providers() as providers:
        alice = kept_users.copied("alice")
        topic = starting.create_topic(owner=alice, title="固态电池", by=alice.actor)
        set_up(providers, 1)
        first = carry_out(topic)
        set_up(providers, 1, 2)
        runs = [first, carry_out(topic), carry_out(topic)]
    return [run.pk for run in runs], providers.search.asked


@pytest.fixture
def runs(stored: tuple[list[int], list[str]], db: None) -> list[Run]:
    return [Run.objects.get(pk=key) for key in stored[0]]


@pytest.mark.requirement("R5", "R18", "R22")
def test_the_first_run_finds_facts_in_chinese(runs: list[Run]):
    facts = TopicFact.objects.filter(first_run=1)

    assert (runs[0].status, runs[0].is_baseline, runs[0].new_count) == ("succeeded", True, 5)
    assert facts.count() >= 4
    assert any("0.2吉瓦时" in fact.text for fact in facts)
    assert all(fact.url and fact.text.endswith("。") for fact in facts)


@pytest.mark.requirement("R36", "R45")
def test_it_is_requested_in_its_own_language(stored: tuple[list[int], list[str]]):
    _runs, asked = stored
    assert asked
    assert all("固态电池" in query for query in asked)


@pytest.mark.requirement("R39", "R41", "R49")
def test_the_second_run_shows_what_changed(runs: list[Run]):
    second = runs[1]
    items = DeltaItem.objects.filter(run=second)

    assert (second.status, second.new_count, second.known_count) == ("succeeded", 3, 5)
    changed = [item for item in items if item.status == "changed"]
    assert changed
    assert all(item.previous_text and item.citations for item in changed)
    listed = " ".join(item.sentence for item in items if item.status in DeltaItem.LISTED)
    assert any(figure in listed for figure in ("405", "1吉瓦时", "6.9", "200"))
    assert second.report.delta.startswith("- **")


@pytest.mark.requirement("R42")
def test_the_third_run_finds_nothing_new(runs: list[Run]):
    third = runs[2]

    assert (third.status, third.new_count, third.known_count) == ("succeeded", 0, 8)
    assert third.report.is_quiet
    assert third.report.delta.startswith("Nothing new since")


@pytest.mark.requirement("R24", "R25")
def test_the_summary_is_a_sentence_not_a_heading(runs: list[Run]):
    summary = runs[0].report.summary

    assert "。" in summary
    assert not summary.startswith("#")
