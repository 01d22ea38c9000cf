"""Shortened queries for services that require every word."""

from __future__ import annotations

from datetime import date

import pytest

from beacon_site.providers.search.answers import keywords, phrase
from research.services.runs.steps.planning import facet_queries


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("postgres logical replication news 2026", ["postgres", "logical", "replication"]),
        ("What is the latest on solid-state batteries?", ["solid-state", "batteries"]),
        ("pgvector changes since 2026-11-01", ["pgvector"]),
        ("C++ and C# vs. AT&T, llama.cpp", ["C++", "C#", "AT&T", "llama.cpp"]),
        ('"logical replication" in Postgres 19', ["logical replication", "Postgres", "19"]),
        ("“vector database” March 2026", ["vector database"]),
        ("The Long March of May", ["Long", "March", "May"]),
        ("SQLite update on 4 March 2026", ["SQLite"]),
        ("intitle:secret -draft !wow a|b", ["intitle", "secret", "draft", "wow", "b"]),
        ("CVE-2026-1234 in 2026", ["CVE-2026-1234"]),
        ("Rust rust RUST", ["Rust"]),
        ("Rust tokio rust", ["Rust", "tokio"]),
        ('an "unclosed quote', ["unclosed", "quote"]),
        ("固态电池 最新进展 2026年11月", ["固态电池"]),
        ("전고체 배터리 뉴스 2026년 11월 이후", ["전고체", "배터리"]),
        ("latest news", ["latest", "news"]),
        ("?!", []),
        ("", []),
    ],
)
def test_what_a_query_is_about_is_left(query, words):
    assert keywords(query) == words


def test_words_of_the_topic_itself_always_stay():
    asked = "World Cup 2026 news November 2026"

    assert keywords(asked, about="World Cup 2026") == ["World", "Cup", "2026"]
    assert keywords("news media criticism", about="News media") == ["news", "media"]


@pytest.mark.parametrize(
    ("query", "language", "words"),
    [
        ("Was gibt es Neues bei Wärmepumpen seit März 2026", "de", ["Wärmepumpen"]),
        ("dernières nouvelles sur le train de nuit en décembre 2026", "fr", ["train", "nuit"]),
        ("noticias sobre la sequía en España 2026", "es-MX", ["sequía", "España"]),
        ("die casting news", "en", ["die", "casting"]),
        ("Mars 2026 rover", "en", ["Mars", "rover"]),
    ],
)
def test_words_that_say_nothing_are_those_of_the_topics_languages(query, language, words):
    assert keywords(query, languages=(language,)) == words


def test_a_long_query_keeps_its_first_words():
    assert len(keywords(" ".join(f"word{number}" for number in range(50)))) == 8


@pytest.mark.parametrize("last_run", [None, date(2026, 11, 2)])
@pytest.mark.parametrize("topic", ["Tidal power", "潮汐发电", "潮力発電", "조력 발전"])
def test_every_template_of_the_planner_comes_down_to_its_topic(topic, last_run):
    queries = facet_queries(topic, now=date(2026, 11, 22), last_run_at=last_run)

    assert {" ".join(keywords(query, about=topic)) for query in queries} == {topic}


@pytest.mark.parametrize(("term", "words"), [("solid-state", "solid state"), ("C++", "C")])
def test_a_phrase_has_no_operators(term, words):
    assert phrase(term) == words
