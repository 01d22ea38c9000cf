"""The vectors of a comparison: what a sentence holds of a fact, word by word."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from research.comparing.relating import Told
from research.comparing.vectors import Vectors
from tests.research.test_relating import one_for_each_word

FACT = "Norlith shredded batteries in Skellefte"


def figures(sentence: str, before: str = "") -> dict[str, float]:
    return Vectors([Told(FACT), Told(sentence, before=before)], 1, one_for_each_word).figures(1, 0)


def test_every_word_of_a_fact_is_found_where_the_sentence_says_the_same():
    same = figures(FACT)

    assert same["words_held"] == pytest.approx(1, abs=0.01)
    assert same["words_lost"] == same["words_strange"] == 0


def test_words_that_the_fact_does_not_have_are_strange_and_its_own_are_still_held():
    longer = figures(f"{FACT} yesterday despite heavy snowfall")

    assert longer["words_held"] == pytest.approx(1, abs=0.01)
    assert longer["words_known"] < longer["words_held"]
    assert longer["words_strangest"] < longer["words_rarest"]


def test_a_word_that_stands_in_the_sentence_before_is_found_around():
    later = figures("It shredded batteries", before="Norlith has a plant in Skellefte.")

    assert later["words_around"] > later["words_held"]


@pytest.mark.parametrize("sentence", ["", "…", "的"])
def test_a_sentence_without_a_word_has_figures_none_the_less(sentence: str):
    found = figures(sentence)
    assert found
    assert all(math.isfinite(value) for value in found.values())


def test_of_two_sentences_of_one_page_the_nearer_is_ahead_of_the_other():
    told = [Told(FACT), Told(FACT, title="News"), Told("Rain fell in Oslo", title="News")]

    def whole_words(texts):
        return [
            replace(read, whole=[1.0, 0.0] if text.endswith("Skellefte") else [0.6, 0.8])
            for text, read in zip(texts, one_for_each_word(texts), strict=True)
        ]

    vectors = Vectors(told, 1, whole_words)

    assert vectors.figures(1, 0)["ahead_on_page"] == pytest.approx(0.4)
    assert vectors.figures(2, 0)["ahead_on_page"] == pytest.approx(-0.4)
    assert vectors.figures(1, 0)["centred"] == pytest.approx(0.4)


def test_a_sentence_alone_on_its_page_is_ahead_of_none():
    assert figures(FACT)["ahead_on_page"] == 0
