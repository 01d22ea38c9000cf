"""Queries without a model: breadth first, then what is new."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.claims.selection import Reading
from research.finding.facets import facet_queries, fallback_queries, phrases

NOW = date(2026, 11, 21)
LAST = datetime(2026, 11, 14, 9, tzinfo=UTC)


def reading(text: str, number: int = 1) -> Reading:
    return Reading(number, f"https://a.example/{number}", "", "a.example", text)


@pytest.mark.requirement("R50")
def test_a_fresh_plan_goes_for_breadth():
    queries = facet_queries("AI agents", now=NOW)
    assert queries == [
        "AI agents latest November 2026",
        "AI agents release announcement 2026",
        "AI agents research study 2026",
        "AI agents criticism problems",
        "AI agents numbers statistics 2026",
    ]


@pytest.mark.requirement("R50")
def test_a_rerun_asks_for_what_is_new_since_the_last_date_and_for_unseen_phrases():
    queries = facet_queries("AI agents", now=NOW, last_run_at=LAST, phrases=["Ledger Lab"])
    assert queries[0] == "AI agents news since 2026-11-14"
    assert "AI agents Ledger Lab" in queries
    assert not set(queries) & set(facet_queries("AI agents", now=NOW))


def test_the_focus_or_else_the_objective_is_asked_for():
    assert "AI agents prices" in facet_queries("AI agents", focus="prices. And more", now=NOW)
    assert "AI agents costs" in facet_queries("AI agents", objective="costs", now=NOW)


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("固态电池", "最新进展 2026年11月"),
        ("量子コンピュータ", "最新 2026年11月"),
        ("양자 컴퓨터", "최신 2026년 11월"),
    ],
)
def test_a_topic_in_another_script_is_asked_for_in_its_language(topic: str, words: str):
    assert facet_queries(topic, now=NOW)[0] == f"{topic} {words}"


@given(st.text(max_size=600), st.text(max_size=600), st.booleans())
def test_queries_are_few_distinct_and_short(topic: str, focus: str, again: bool):
    last = LAST if again else None
    queries = facet_queries(topic, focus=focus, now=NOW, last_run_at=last, phrases=[focus, "X 1"])
    assert 1 <= len(queries) <= 6
    assert len(set(queries)) == len(queries)
    assert all(0 < len(query) <= 400 for query in queries)


def test_braces_in_a_topic_are_left_alone():
    assert facet_queries("a {year} b {x}", now=NOW)[0] == "a {year} b {x} latest November 2026"


@pytest.mark.requirement("R45")
def test_the_fallback_is_the_seeds_three_queries():
    assert fallback_queries("AI  agents", NOW) == [
        "AI agents",
        "AI agents 2026 news",
        "AI agents comparison",
    ]


def test_phrases_are_names_that_neither_topic_nor_facts_hold():
    pages = [
        reading("Acme met Ledger Lab in May. The Bureau of Standards wrote io_method 2 down."),
        reading("The plans of Ledger Lab for Acme Turbo 5 are known.", 2),
    ]
    found = phrases(pages, "Acme", ["Acme Turbo 5 is known."])
    assert found[0] == "Ledger Lab"
    assert "Bureau of Standards" in found
    assert "Acme Turbo 5" not in found


def test_chinese_phrases_are_quoted_or_repeated():
    text = "“星河计划”已经启动。蓝岭材料公布数据。蓝岭材料扩产。专家看好蓝岭材料。"
    found = phrases([reading(text)], "固态电池")
    assert "星河计划" in found and "蓝岭材料" in found
