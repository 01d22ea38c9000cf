"""Terms of a text: what is quicker for plain lines says what the one pattern says."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon_site.text import terms
from beacon_site.text.cleaning import normal_form

SIGNS = st.text(st.sampled_from(list("ab1.2'’+#_ \n\t-C\u0301é終端ก\r")), max_size=40)


@pytest.mark.requirement("R75")
@settings(max_examples=300, deadline=None, derandomize=True)
@given(text=SIGNS | st.text(max_size=40))
def test_a_plain_line_gives_the_terms_that_the_pattern_gives(text: str):
    # A letter of another script makes its line none of the plain ones, and adds one term.
    by_pattern = terms.search_terms("\n".join(f"{line} й" for line in text.split("\n")))
    assert [term for term in by_pattern if term != "й"] == [
        term for term in terms.search_terms(text) if term != "й"
    ]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(text=SIGNS, language=st.sampled_from(["en", "de"]))
def test_a_plain_query_gives_the_terms_that_the_pattern_gives(text: str, language: str):
    # A letter of another script makes the query none of the plain ones, and adds one term.
    ignored = {"й", *terms.STOP_WORDS}
    by_pattern = terms.query_terms(f"{text} й", language)
    assert [term for term in by_pattern if term not in ignored] == [
        term for term in terms.query_terms(text, language) if term not in ignored
    ]


def test_characters_that_are_not_folded_would_not_change():
    characters = filter(terms._FOLDED_ALREADY.fullmatch, map(chr, range(0x3000, 0xD7FF)))
    assert all(terms.folded(one) == one for one in characters)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("C++ and C# but x++y", ["c++", "and", "c#", "but", "x", "y"]),
        ("version 17.2 of 17.2x, don't", ["version", "17.2", "of", "17", "2x", "don't"]),
        ("snake_case\nnext'\nline", ["snake", "case", "next", "line"]),
    ],
)
def test_signs_of_names_and_numbers_stay(text: str, found: list[str]):
    assert terms.search_terms(text) == found


@pytest.mark.timeout(60)
@pytest.mark.parametrize("accents", ["\u0351", "\u0351\u0316", "\u0301\u0e48"])
@pytest.mark.parametrize("end", ["", "!", "a", "+"])
def test_accents_piled_on_a_letter_take_no_longer_than_other_text(accents: str, end: str):
    # Forty of them kept the pattern looking for days, in whatever a page or a person wrote.
    text = f"Rain z{accents * 30_000}{end} stops."

    assert terms.query_terms(text)[0] == "rain"
    assert terms.search_terms(text)[-1] == "stop"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC"])
def test_a_normal_form_sorts_no_more_than_thirty_accents_of_a_letter(form: Any):
    piled = normal_form("e" + "\u0316\u0301" * 400_000 + " café ﬁ", form)

    assert len(piled) < 50
    assert piled.endswith(unicodedata.normalize(form, " café ﬁ"))
    assert normal_form("é" * 40 + "e\u0301\u0316", form) == unicodedata.normalize(
        form, "é" * 40 + "e\u0301\u0316"
    )
