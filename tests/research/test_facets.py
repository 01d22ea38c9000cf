"""Queries without a model: breadth first, then what is new."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.services.runs.steps.planning import (
    facet_queries,
    fallback_queries,
    kind_of,
    query_language,
)

NOW = date(2026, 11, 21)
LAST = datetime(2026, 11, 14, 9, tzinfo=UTC)


@pytest.mark.requirement("R50")
def test_a_fresh_plan_goes_for_breadth():
    assert facet_queries("AI agents", now=NOW) == [
        "AI agents",
        "AI agents latest November 2026",
        "AI agents announcement 2026",
        "AI agents report study 2026",
        "AI agents numbers statistics 2026",
    ]


@pytest.mark.requirement("R50")
def test_a_rerun_asks_for_what_is_new_since_the_last_date():
    queries = facet_queries("AI agents", now=NOW, last_run_at=LAST)

    assert queries[:2] == ["AI agents news since 2026-11-14", "AI agents changes November 2026"]
    assert not set(queries) & set(facet_queries("AI agents", now=NOW))


def test_the_short_parts_of_the_focus_are_requested():
    focus = "prices, lifetime in cold weather. And everything else that an owner of one should know"
    queries = facet_queries("Heat pumps", focus=focus, now=NOW)

    assert "Heat pumps prices" in queries and "Heat pumps lifetime in cold weather" in queries
    assert not [query for query in queries if "everything" in query]
    assert "AI agents costs" in facet_queries("AI agents", objective="costs", now=NOW)


# 32 topics as people type them: what kind each is, in what language it is asked for, and words of one query.
TYPED = [
    ("How much does a heat pump cost?", "prices", "en", "heat pump cost comparison 2026"),
    (
        "Why are swifts leaving the old town?",
        "place",
        "en",
        "swifts leaving the old town plans 2026",
    ),
    ("why do cats purr", "question", "en", "cats purr study 2026"),
    ("Attacks on AI agents", "general", "en", "latest November 2026"),
    ("Quantum-safe encryption", "science", "en", "latest research 2026"),
    ("Node.js end of life dates", "software", "en", "security fixes 2026"),
    ("Lantern OS releases", "software", "en", "Lantern OS releases notes changelog"),
    ("EU AI Act", "law", "en", "effective date"),
    ("Harbour Fees Regulation", "law", "en", "court ruling 2026"),
    ("terms of service of photo sites", "law", "en", "changes 2026"),
    ("Model prices per token", "prices", "en", "comparison 2026"),
    ("WCAG 3", "standard", "en", "new version draft"),
    ("ISO 27001", "standard", "en", "status 2026"),
    ("Proposals for time zones in calendars", "standard", "en", "adoption implementations 2026"),
    ("Tram extension in Bern", "place", "en", "council decision 2026"),
    ("Women in ski jumping", "general", "en", "announcement 2026"),
    ("World Cup 2026 squads", "event", "en", "dates schedule"),
    ("Wolves and farmers", "general", "en", "numbers statistics 2026"),
    ("Infektionsschutzgesetz", "law", "de", "Inkrafttreten"),
    ("Elektronische Patientenakte", "general", "de", "Ankündigung 2026"),
    ("Klimawandel", "science", "de", "neue Studie 2026"),
    ("Gewerkschaft Streik", "general", "de", "aktuell November 2026"),
    ("Strompreise für Haushalte", "prices", "de", "Preisänderung November 2026"),
    ("Wann öffnet die neue Brücke?", "question", "de", "aktuell November 2026"),
    ("prix de l'électricité", "prices", "fr", "prévisions 2026"),
    ("Code du travail", "law", "fr", "entrée en vigueur"),
    ("Cambio climático", "science", "es", "nuevo estudio 2026"),
    ("elecciones en la región", "event", "es", "encuestas clasificación 2026"),
    ("固态电池", "science", "zh", "最新进展 2026年11月"),
    ("个人信息保护法", "law", "zh", "施行日期"),
    ("量子コンピュータ", "science", "ja", "最新研究 2026年"),
    ("전기요금 가격", "prices", "ko", "비교 2026년"),
]


@pytest.mark.parametrize(("topic", "kind", "language", "words"), TYPED)
def test_the_facets_fit_the_kind_of_topic_in_its_language(topic, kind, language, words):
    queries = facet_queries(topic, now=NOW)

    assert (kind_of(topic), query_language(topic)) == (kind, language)
    assert queries[0] == topic and 4 <= len(queries) <= 6
    assert any(words in query for query in queries)


@pytest.mark.parametrize(("topic", "_kind", "language", "_words"), TYPED)
def test_a_rerun_asks_for_news_first_whatever_the_topic(topic, _kind, language, _words):
    queries = facet_queries(topic, now=NOW, last_run_at=LAST)

    assert "2026-11-14" in queries[0]
    assert 3 <= len(queries) <= 6
    assert not set(queries) & set(facet_queries(topic, now=NOW))


def test_the_setting_and_then_the_facts_say_in_what_language_to_ask():
    facts = ["Der Stadtrat hat die Verlängerung der Linie bis zum Flughafen beschlossen."] * 4

    assert query_language("Tram", ["fr-CA"]) == "fr"
    assert query_language("Tram", known=facts) == "de"
    assert query_language("Tram") == "en"
    assert query_language("固态电池", ["en"]) == "zh"


def test_a_language_without_templates_gets_no_words_of_another():
    queries = facet_queries("Ceny prądu", languages=["pl"], now=NOW)

    assert queries == ["Ceny prądu", "Ceny prądu 2026", "Ceny prądu 2026-11"]


def test_words_that_the_topic_says_already_are_not_repeated():
    queries = facet_queries("Firmware releases, latest", now=NOW)

    assert all(query.casefold().split().count("latest") < 2 for query in queries)


@given(st.text(max_size=600), st.text(max_size=600), st.booleans())
def test_queries_are_few_distinct_and_short(topic: str, focus: str, again: bool):
    last = LAST if again else None
    queries = facet_queries(topic, focus=focus, now=NOW, last_run_at=last)
    assert 1 <= len(queries) <= 6
    assert len(set(queries)) == len(queries)
    assert all(0 < len(query) <= 400 for query in queries)


def test_braces_in_a_topic_are_left_alone():
    assert facet_queries("a {year} b {x}", now=NOW)[1] == "a {year} b {x} latest November 2026"


@pytest.mark.requirement("R45")
def test_the_fallback_is_the_seeds_three_queries():
    assert fallback_queries("AI  agents", NOW) == [
        "AI agents",
        "AI agents 2026 news",
        "AI agents comparison",
    ]
