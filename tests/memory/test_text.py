"""What is done to text at the boundary, and how its length is counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_site.text.cleaning import (
    around_difference,
    citation_numbers,
    clean,
    flat,
    in_brief,
    is_visible,
    match_key,
    one_line,
    plain,
    shorten,
    width,
    without_citations,
)


def test_what_postgres_cannot_hold_is_removed_and_said_so():
    assert clean("a\x00b\ud800c") == ("abc", True)
    assert clean("abc\n中") == ("abc\n中", False)


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_cleaned_text_can_be_stored(text: str):
    cleaned, _changed = clean(text)
    assert "\x00" not in cleaned
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    assert clean(cleaned) == (cleaned, False)


@pytest.mark.requirement("R22")
def test_east_asian_wide_characters_count_as_two():
    assert width("abc") == 3
    assert width("固态电池") == 8
    assert width("Ａ1。") == 5
    assert width("カナ한글") == 8


@given(st.text(), st.text())
def test_width_adds_up(left: str, right: str):
    assert width(left + right) == width(left) + width(right)


@given(st.text())
def test_one_line_has_no_breaks_and_is_stable(text: str):
    line = one_line(text)
    assert len(line.split("\n")) == 1 and line == line.strip()
    assert one_line(line) == line


@given(st.text(max_size=200), st.integers(min_value=2, max_value=80))
def test_shortened_text_keeps_its_limit(text: str, limit: int):
    short = shorten(text, limit)
    assert len(short) <= limit
    assert short == one_line(text) or short.endswith("…")


def test_shortened_text_is_cut_at_a_word():
    assert shorten("The project published the final version", 20) == "The project…"


@pytest.mark.requirement("R21")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("- **Acme** raised 40 million", "Acme raised 40 million"),
        ("* item", "item"),
        ("1. first", "first"),
        ("  2) second", "second"),
        ("• bullet", "bullet"),
        ("## Heading", "Heading"),
        ("> quoted", "quoted"),
        ("- [ ] open task", "open task"),
        ("- [x] done task", "done task"),
        ("__bold__ and *slanted* and `code`", "bold and slanted and code"),
        ("***both***", "both"),
        ("[1] https://a.example", "https://a.example"),
        ("[text](https://a.example/x_(y)) more", "text more"),
        ("![alt](a.png) more", "alt more"),
        (
            "the name snake_case_name and 2 * 3 * 4 stay",
            "the name snake_case_name and 2 * 3 * 4 stay",
        ),
        ("the file __init__.py stays", "the file __init__.py stays"),
        ("~~gone~~ here", "gone here"),
        ("_slanted_ and __all__.", "slanted and all."),
        ("_private and _other stay", "_private and _other stay"),
    ],
)
def test_a_line_of_markdown_becomes_plain(line: str, expected: str):
    assert plain(line) == expected


@pytest.mark.requirement("R21")
@given(st.text(max_size=100))
def test_plain_text_is_one_line_and_stays_plain(text: str):
    assert plain(plain(plain(text))) == plain(plain(text))
    assert "\n" not in plain(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("## What to compare\n\nHosts by **price**.", "What to compare · Hosts by price."),
        ("Take:\n- one\n- two\n\nThen go.", "Take: one · two · Then go."),
        ("A line that\nis wrapped\n\n- [x] done", "A line that is wrapped · done"),
        ("价格。\n\n建议", "价格。 建议"),
        ("#\n\n   \n", "#"),
        ("", ""),
    ],
)
def test_blocks_of_markdown_are_parted_in_one_line(text: str, line: str):
    assert flat(text) == line


def test_a_brief_holds_no_marks_and_keeps_its_limit():
    assert in_brief("# Soul\n\n1. **Understand.** " + "Say it. " * 90, 40).startswith(
        "Soul · Under"
    )
    assert len(in_brief("# Soul\n\n" + "words " * 900, 120)) <= 120


def test_citations_are_read_and_taken_out():
    text = "Acme grew [2] and fell [11][2]; see [3](https://a.example)."
    assert citation_numbers(text) == [2, 11]
    assert without_citations(text) == "Acme grew and fell; see [3](https://a.example)."


def test_two_writings_of_one_sentence_have_one_key():
    assert match_key("- **Version 18.1** is out! [3]") == match_key("version 18.1 is out")
    assert match_key("ﬁnal　Ｖersion") == "final version"


@given(st.text(max_size=100))
def test_a_key_is_its_own_key(text: str):
    key = match_key(text)
    assert key == one_line(key)
    assert all(char.isalnum() or char == " " for char in key)


def test_controls_that_a_terminal_obeys_are_removed_and_bidi_marks_stay():
    assert clean("a\x1b[31mred\x07\x9b") == ("a[31mred", True)
    assert clean("one\x0ctwo\tthree\r\n") == ("one\ntwo\tthree\r\n", False)
    assert clean("\u200fשלום\u200e") == ("\u200fשלום\u200e", False)


@pytest.mark.parametrize("text", ["", " \t", "\u200b\u200f", "\u3164", "\u2060\ufeff", "\u0301"])
def test_what_no_one_can_see_isnt_a_title(text: str):
    assert not is_visible(text)
    assert is_visible(text + "é")


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("The newest release is 17.6.", "The newest release is 18.1.", None),
        ("The depot in Osaka now closes at five.", "The depot in Osaka now closes at six.", None),
        (
            "The latest minor releases of PostgreSQL are 17.6.",
            "The latest minor releases of PostgreSQL are 18.1.",
            ("… of PostgreSQL are 17.6.", "… of PostgreSQL are 18.1."),
        ),
    ],
)
def test_two_texts_are_shown_from_before_they_differ(one, other, shown):
    assert around_difference(one, other) == (shown or (one, other))
