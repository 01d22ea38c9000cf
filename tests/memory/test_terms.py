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
def test_lines_give_the_same_terms_as_the_whole_text(text: str):
    whole = [(found.group(), found.lastgroup) for found in terms._TERM.finditer(text)]
    assert [(found.group(), found.lastgroup) for found in terms._matches(text)] == whole


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
