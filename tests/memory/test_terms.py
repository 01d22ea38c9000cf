"""Terms of a text: what is quicker for plain lines says what the one pattern says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.recall import terms

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
