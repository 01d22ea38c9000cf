"""Views of a content item: contents, length, and rejected parameters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.models.errors import InvalidValue
from memory.services.content.transforms import TRANSFORMS, transform

LINES = "".join(f"line {n} of a table\n" for n in range(1, 101))
PROSE = (
    "Heat pumps move heat instead of making it. A heat pump gives three units of heat for one of "
    "power. The weather was mild. Heat pumps need larger radiators than a boiler of the same heat. "
    "Somebody had lunch."
)

pytestmark = pytest.mark.requirement("R114")


@pytest.mark.parametrize(
    ("asked", "begins", "shown"),
    [
        ({"name": "full"}, "line 1 of", "1,892 of 1,892 characters shown"),
        ({"name": "first_n", "n": 6}, "line 1", "6 of 1,892 characters shown"),
        ({"name": "last_n", "n": 6}, "table\n", "6 of 1,892 characters shown"),
        ({"name": "first_n", "n": 2, "unit": "lines"}, "line 1 of a table\nline 2", "2 of 100 lines"),
        ({"name": "last_n", "n": 1, "unit": "lines"}, "line 100 of", "1 of 100 lines shown"),
        ({"name": "excerpt"}, "line 1 of", "500 of 1,892 characters"),
        ({"name": "excerpt", "q": "line 50", "n": 8}, "", "8 of 1,892 characters"),
        ({"name": "excerpt", "q": "LINE 50", "n": 3, "unit": "lines"}, "line 49 of", "3 of 100"),
        ({"name": "filtered", "q": "table 77"}, "line 77 of a table", "18 of 1,892"),
        ({"name": "filtered", "q": "“line 7”", "unit": "lines", "n": 2}, "line 7 of", "1 of 100"),
        ({"name": "filtered", "q": "absent"}, "", "0 of 1,892 characters shown"),
    ],
)  # fmt: skip
def test_each_shows_its_part_and_says_of_how_much(asked: Any, begins: str, shown: str):
    view = transform(LINES, **asked)

    assert view.text.startswith(begins)
    assert view.description().startswith(shown)


def test_a_summary_is_sentences_of_the_text_in_their_order():
    view = transform(PROSE, "summary", n=2, unit="lines")

    first, second = view.text.split("\n")
    assert PROSE.index(first) < PROSE.index(second)
    assert "lunch" not in view.text and "weather" not in view.text
    assert transform(PROSE, "summary", n=60).shown <= 60


@pytest.mark.parametrize(
    ("q", "found"),
    [
        ("row 5", ["row 5: fünf"]),
        ("FÜN", ["row 5: fünf"]),
        ("ünf", []),
        ("snake", ["row 7: see_snake_case"]),
        ("京都", ["row 8: 東京都に住む"]),
        ("“row 7” case", ["row 7: see_snake_case"]),
        ('"see row"', []),
    ],
)
def test_words_are_found_as_they_begin_and_numbers_as_they_are(q: str, found: list[str]):
    text = "row 5: fünf\nrow 51: one\nrow 7: see_snake_case\nrow 8: 東京都に住む"

    assert transform(text, "filtered", q=q).text == "\n".join(found)


def test_of_a_very_long_line_only_what_stands_round_the_words_is_shown():
    text = "word " * 20_000 + "the key is 4711 " + "word " * 20_000

    view = transform(text, "filtered", q="key 4711")

    assert "the key is 4711" in view.text and view.shown < 600


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"name": "shorter"}, "no transform “shorter”. Choose one of: full, excerpt"),
        ({"name": None}, "no transform"),
        ({"name": "first_n", "n": -1}, "whole number from 1 to 8,388,608, not “-1”"),
        ({"name": "first_n", "n": 10**9}, "not “1000000000”"),
        ({"name": "first_n", "n": "ten"}, "whole number"),
        ({"name": "first_n", "n": True}, "whole number"),
        ({"name": "first_n", "n": 2.0}, "whole number"),
        ({"name": "full", "n": 5}, "leave out n"),
        ({"name": "full", "q": "words"}, "doesn’t use q"),
        ({"name": "filtered"}, "needs q"),
        ({"name": "filtered", "q": 7}, "must be a string"),
        ({"name": "filtered", "q": "q" * 401}, "at most 400"),
        ({"name": "first_n", "unit": "bytes"}, "no unit “bytes”. Choose one of: characters, lines"),
    ],
)
def test_what_is_not_known_is_refused_and_says_what_to_do(asked: Any, says: str):
    with pytest.raises(InvalidValue, match=says):
        transform(LINES, **asked)


@given(
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=400),
    st.sampled_from(sorted(TRANSFORMS)),
    st.sampled_from(["characters", "lines"]),
    st.integers(1, 500),
    st.sampled_from(["a", "1 2", '"', "(", "a “b", "\\"]),
)
def test_any_text_is_shown_within_what_was_requested(
    text: str, name: str, unit: str, n: int, q: str
):
    takes = TRANSFORMS[name]

    view = transform(
        text, name, n=n if takes.takes_n else None, q=q if takes.takes_q else "", unit=unit
    )

    assert 0 <= view.shown <= view.of
    if takes.takes_n and unit == "characters":
        assert len(view.text) <= n
    if name in ("first_n", "last_n"):
        assert view.text in text


@pytest.mark.timeout(20, func_only=True)
@pytest.mark.parametrize(("q", "found"), [("a zz", "zz"), ("a b zz", "a b a b zz")])
def test_a_word_that_stands_a_million_times_in_one_line_is_looked_up_at_once(q: str, found: str):
    text = " ".join([f"{q.removesuffix(' zz')} "] * 1_000_000) + "zz"

    view = transform(text, "filtered", q=q)

    assert view.text.replace("  ", " ").endswith(found)
    assert view.shown < 1_000
