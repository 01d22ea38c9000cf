"""A quote has one exact position in the stored text, despite different formatting."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.claims.quoting import NormalizedText, around, fold

STORED = (
    "The line opened in May.\nIt makes “good” cells – 12,000 a month. **Bold move** of ﬁve "
    "mil\u00adlion cafe\u0301s. It costs 1.5 euros. 固体电池的价格下降了百分之十二。ＡＢＣ test run"
)


@pytest.mark.parametrize(
    ("quote", "stands"),
    [
        ('it makes "good" cells - 12,000 a month', "It makes “good” cells – 12,000 a month"),
        ("opened in  May. It makes", "opened in May.\nIt makes"),
        ("five million cafés.", "ﬁve mil\u00adlion cafe\u0301s."),
        ("bold move of five", "Bold move** of ﬁve"),
        ("固体电池的价格下降", "固体电池的价格下降"),
        ("abc TEST run", "ＡＢＣ test run"),
    ],
)
def test_the_exact_stored_words_of_a_quote_are_found(quote: str, stands: str):
    span = NormalizedText(STORED).find(quote)

    assert span is not None
    assert STORED[span] == stands.replace("opened in May", "opened in May")


@pytest.mark.parametrize(
    "quote",
    ["It costs 1", "cells – 12,00", "t makes “good” cells", "It costs 1.5 dollars", "May.", "  "],
)
def test_half_a_word_or_number_and_a_short_quote_prove_nothing(quote: str):
    assert NormalizedText("Once. It costs 1.5 euros. " + STORED).find(quote) is None


@given(st.text(min_size=12, max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_what_was_cut_from_a_text_is_found_at_a_place_that_says_the_same(
    quote: str, before: str, behind: str
):
    stored = f"{before} {quote} {behind}"

    span = NormalizedText(stored).find(quote)

    if span is not None:
        assert fold(stored[span]) == fold(quote)
    elif len(" ".join(quote.split())) >= 12 and quote.isalpha():
        raise AssertionError(quote)


def test_the_words_around_a_quote_are_cut_between_words():
    stored = "word " * 100 + "the quoted words stand here " + "more " * 100
    span = NormalizedText(stored).find("the quoted words stand here")

    assert span is not None
    before, behind = around(stored, span)
    assert before.startswith("…word ")
    assert behind.endswith(" more…")


def test_a_page_of_the_largest_size_is_previewed_in_little_time():
    stored = ("Größe – “Wort”, 固体电池的价格。cafe\u0301 plain words here.\n" * 6000)[:200_000]
    began = time.monotonic()

    assert NormalizedText(stored).find("words that stand nowhere") is None
    assert time.monotonic() - began < 5
