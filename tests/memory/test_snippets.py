"""The passage that answers best, and the marks on its words."""

from __future__ import annotations

import time

import pytest

from memory.services.search.snippets import answering, marked, nearness, passage

LONG = "filler " * 500 + "the price of lithium cells fell in May " + "filler " * 500


def test_the_passage_is_where_most_of_the_words_are() -> None:
    text = "lithium " + LONG
    found = passage(text, "lithium prices falling in may", length=120)
    assert "price of lithium cells fell in May" in found
    assert found.startswith("…")
    assert found.endswith("…")
    assert len(found) < 160


def test_without_a_word_of_the_query_it_is_the_beginning() -> None:
    assert passage("One. Two.", "nothing", length=100) == "One. Two."


def test_a_text_that_fits_is_the_passage_from_its_beginning() -> None:
    text = "PostgreSQL 13 reached its end of life on 13 November 2025."
    assert passage(text, "when was the end of life", length=100) == text


def test_a_number_counts_next_to_the_word_that_it_belongs_to() -> None:
    texts = [
        "The year 2026 will see the end of PostgreSQL 14, whose support stops on 12 November 2026.",
        "PostgreSQL 12 is scheduled to reach its end of life on 14 November 2024.",
        "PostgreSQL 13 reached its end of life on 13 November 2025.",
        "The harbor is closed.",
    ]
    asked = answering(texts, "When does PostgreSQL 14 reach its end of life?")
    assert asked[0] == max(asked) and asked[3] == 0
    assert asked[0] > asked[1] > 0.3


def test_a_word_that_every_text_has_counts_little() -> None:
    texts = ["Beacon is open.", "Beacon has an archive.", "Beacon has an archive and a mirror."]
    low, middle, high = answering(texts, "the Beacon mirror")
    assert low == middle < 0.2 and high == 1.0
    assert answering(texts, "nothing of that") == [0.0, 0.0, 0.0] and answering([], "x") == []


@pytest.mark.parametrize(
    ("text", "query", "html"),
    [
        ("Running <b> tests", "test", "Running &lt;b&gt; <mark>tests</mark>"),
        ("Cafés & cafe", "café", "<mark>Cafés</mark> &amp; <mark>cafe</mark>"),
        ("Happy skies", "happiness sky", "<mark>Happy</mark> <mark>skies</mark>"),
        ("C and C++", "c++", "C and <mark>C++</mark>"),
        ("固态电池", "态电池", "固<mark>态电</mark><mark>池</mark>"),
        ("contest", "test", "contest"),
        ("a < b", "", "a &lt; b"),
    ],
)
def test_words_are_marked_by_their_stem(text: str, query: str, html: str) -> None:
    assert marked(text, query) == html


def test_words_are_marked_by_the_stem_of_their_own_language() -> None:
    text = "Die Preise der Batterien fallen."
    assert marked(text, "Batterie Preis", "de") == (
        "Die <mark>Preise</mark> der <mark>Batterien</mark> fallen."
    )
    assert "Batterien" in passage("Vieles andere. " * 100 + text, "Batterie", 60, "de")


def test_a_long_text_costs_little() -> None:
    started = time.process_time()
    passage("words of all kinds, " * 10_000 + "needle", "kind needle")
    assert time.process_time() - started < 0.5


def test_words_count_as_near_that_the_title_and_one_passage_hold() -> None:
    assert nearness("Batteries", "The price of lithium cells fell.", "lithium batteries") == 1.0
    assert (
        nearness("", f"lithium {LONG.replace('lithium', 'other')} prices", "lithium price") == 0.5
    )
    assert nearness("", "Nothing of the kind.", "lithium batteries") == 0.0


def test_a_passage_that_begins_inside_an_emphasis_shows_no_lone_mark():
    text = f"{'Fares rise. ' * 30}*(found on 24 Nov, not confirmed since)* Seats to Osaka are few."

    assert "since) Seats to Osaka" in passage(text, "Osaka")
    assert "A* search" in passage(f"{'Fares rise. ' * 30}An A* search finds Osaka.", "Osaka")
