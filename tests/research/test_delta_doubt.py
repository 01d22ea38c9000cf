"""An uncertain change removes no fact; a change found twice is reported once, with its sources."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from memory.models import Conflict, Topic, TopicFact
from memory.services.topic_memory import KnownFact
from research.claims.linking import Comparison, Verdict
from research.models import DeltaItem, Run
from research.services.runs.reporting import delta
from research.services.runs.reporting.delta import Change, Statement, compare
from research.services.runs.reporting.merged_deltas import as_markdown
from tests.research import cast
from tests.research.conftest import Providers

OLD = "The pilot line in Kyoto makes 12,000 cells a month."
NEW = OLD.replace("12,000", "15,000")
KNOWN = KnownFact(
    "1", OLD, "https://cells.example/a", "Cells", date(2026, 3, 2), quote="12,000 cells leave it"
)
SOURCE = {"n": 1, "link": "https://news.example/b", "domain": "news.example", "published_at": None}


def judging(share: float) -> Callable[..., Verdict]:
    return lambda *_args: Verdict("changed", 0, share)


@pytest.mark.parametrize(("share", "unsure"), [(0.5, True), (delta.SURE, False)])
def test_only_a_sure_change_gives_the_old_fact_up(monkeypatch: Any, share: float, unsure: bool):
    monkeypatch.setattr(Comparison, "judge", judging(share))

    change = compare([Statement(NEW)], [KNOWN])[0][0]

    assert (change.status, change.needs_review) == ("changed", unsure)
    assert change.replaces == ("" if unsure else "1")


def test_two_sources_that_tell_the_same_change_are_one_item_with_both():
    again = Statement("Now " + NEW[0].lower() + NEW[1:], (2,))

    changes, _dropped = compare([Statement(NEW, (1,)), again], [KNOWN])

    assert [(c.status, c.citations) for c in changes] == [("changed", [1, 2])]


def test_where_two_sources_tell_two_newer_values_the_old_fact_stays():
    changes, _dropped = compare(
        [Statement(NEW), Statement(OLD.replace("12,000", "19,000"))], [KNOWN]
    )

    assert [(c.status, c.needs_review) for c in changes] == [("changed", True)] * 2


def test_the_old_sentence_keeps_where_it_stood():
    change = compare([Statement(NEW)], [KNOWN])[0][0]

    assert change.previous_source == {
        "link": "https://cells.example/a",
        "title": "Cells",
        "domain": "cells.example",
        "published_at": "2026-03-02",
        "quote": "12,000 cells leave it",
    }
    assert compare([Statement(NEW)], [KnownFact("1", OLD)])[0][0].previous_source == {}


def test_in_markdown_each_sentence_has_its_source_day_and_words():
    change = Change("changed", NEW, [1], "15,000 a month", "1", OLD, needs_review=True)
    change.previous_source = delta.source_of(KNOWN)

    assert as_markdown([change], quiet="", sources=[SOURCE]) == (
        f"- **Changed, needs review:** {NEW} [1] "
        "([news.example](https://news.example/b): “15,000 a month”)\n"
        f"  before: {OLD} "
        "([cells.example](https://cells.example/a), 2026-03-02: “12,000 cells leave it”)"
    )


@pytest.mark.parametrize("address", ["javascript:alert(1)", "beacon-sample:a", ""])
def test_in_markdown_only_web_addresses_become_links(address: str):
    source = SOURCE | {"link": address}

    assert "](" not in as_markdown([Change("new", NEW, [1])], quiet="", sources=[source])


def test_after_an_unsure_change_both_facts_stand_and_the_item_says_so(
    topic: Topic, providers: Providers, run_of: Callable[[Topic], Run], monkeypatch: Any
):
    cast.set_up(providers, 1)
    run_of(topic)
    cast.set_up(providers, 1, 2)
    providers.pages.pages[cast.url(2)] = cast.page(1).replace("4,400", "9,900")
    monkeypatch.setattr(Comparison, "judge", judging(0.5))

    run = run_of(topic)

    current = TopicFact.objects.filter(topic=topic).current().values_list("text", flat=True)
    assert cast.sentence(1) in current
    assert any("9,900" in text for text in current)
    item = DeltaItem.objects.filter(run=run, status="changed").first()
    assert item is not None and item.needs_review
    assert item.previous_source["link"] == cast.url(1)
    assert f"before: {cast.sentence(1)}" in run.report.delta
    assert cast.sentence(1) not in run.report.body


def test_what_does_not_go_together_is_in_conflicts_once_and_neither_wins(
    topic: Topic, providers: Providers, run_of: Callable[[Topic], Run]
):
    cast.set_up(providers, 1)
    run_of(topic)
    cast.set_up(providers, 1, 2)
    providers.pages.pages[cast.url(2)] = cast.page(1).replace("4,400", "9,900")

    run = run_of(topic)
    cast.set_up(providers, 1, 2, 3)
    providers.pages.pages[cast.url(2)] = cast.page(1).replace("4,400", "9,900")
    run_of(topic)

    conflict = Conflict.objects.get(owner=topic.owner, kind="contradiction")
    left, right = (TopicFact.objects.get(pk=k) for k in (conflict.left_id, conflict.right_id))
    assert "4,400" in left.text and "9,900" in right.text
    assert (left.state, right.state, conflict.state) == ("current", "current", "open")
    assert conflict.source == run.source
