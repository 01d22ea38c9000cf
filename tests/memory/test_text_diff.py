"""Two texts as one diff."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon_site.text import diff as text_diff
from beacon_site.text.diff import Row, diff, folded, plain_diff, word_pieces

LINES = st.lists(st.sampled_from(["", "a\n", "b\n", "the same words here\n", "x y", "\n", "\r\n"]))
TEXTS = st.one_of(st.text(), LINES.map("".join))


def kinds(rows: list[Row]) -> list[str]:
    return [row.kind for row in rows]


def told(rows: list[Row]) -> list[tuple[str, str]]:
    return [(piece.kind, piece.text) for row in rows for piece in row.pieces]


@given(TEXTS, TEXTS)
def test_the_rows_give_back_both_texts_to_the_letter(old: str, new: str):
    rows = diff(old, new)

    assert text_diff.before(rows) == old
    assert text_diff.after(rows) == new


@given(TEXTS, TEXTS)
def test_line_numbers_rise_by_one_on_either_side(old: str, new: str):
    rows = diff(old, new)

    for side in ("old", "new"):
        numbers = [getattr(row, side) for row in rows if getattr(row, side)]
        assert numbers == list(range(1, len(numbers) + 1))


@given(TEXTS)
def test_a_text_does_not_differ_from_itself(text: str):
    assert set(kinds(diff(text, text))) <= {"same"}


@given(TEXTS, TEXTS)
def test_folding_hides_unchanged_lines_alone(old: str, new: str):
    rows = diff(old, new)

    def changes(shown: list[Row]) -> list[Row]:
        return [row for row in shown if row.kind not in ("same", "gap")]

    assert changes(folded(rows)) == changes(rows)


def test_a_changed_word_is_marked_inside_its_line():
    rows = diff("Support ends in November 2025.\n", "Support ends in November 2026.\n")

    assert kinds(rows) == ["changed"]
    assert ("old", "2025") in told(rows) and ("new", "2026") in told(rows)


def test_lines_with_little_in_common_are_removed_and_added():
    rows = diff("One thing was so.\n", "Quite another came instead here.\n")

    assert kinds(rows) == ["removed", "added"]


def test_a_line_put_in_between_leaves_its_neighbors_alone():
    rows = diff("first line\nlast line\n", "first line\nnew between\nlast line\n")

    assert kinds(rows) == ["same", "added", "same"]


def test_a_changed_line_finds_its_old_self_among_new_ones():
    rows = diff("cells cost 90 euros\n", "quite unlike\ncells cost 95 euros\n")

    assert kinds(rows) == ["added", "changed"]


def test_neighboring_changes_are_reported_as_one():
    pieces = word_pieces("It was made in early May here.", "It was made in late June here.")

    assert [(p.kind, p.text) for p in pieces if p.kind != "same"] == [
        ("old", "early May"),
        ("new", "late June"),
    ]


def test_chinese_is_compared_character_by_character():
    pieces = word_pieces("每公斤四百瓦时。", "每公斤五百瓦时。")

    assert [(p.kind, p.text) for p in pieces if p.kind != "same"] == [("old", "四"), ("new", "五")]


def test_a_line_break_that_alone_changed_can_be_seen():
    (row,) = diff("the end", "the end\n")

    assert [piece.shown for piece in row.pieces] == ["the end", "↵"]


def test_unchanged_lines_far_from_a_change_become_a_gap_that_counts_them():
    same = [f"line {n}\n" for n in range(10)]
    rows = folded(diff("".join(same), "".join([*same[:5], "put in\n", *same[5:]])))

    assert kinds(rows) == ["gap", "same", "added", "same", "gap"]
    assert [row.hidden for row in rows if row.kind == "gap"] == [4, 4]


def test_one_line_is_not_worth_a_gap():
    assert kinds(folded(diff("a\nb\nc\n", "a\nb\nc\nd\n"))) == ["gap", "same", "added"]
    assert kinds(folded(diff("a\nb\n", "a\nb\nd\n"))) == ["same", "same", "added"]


@given(TEXTS, TEXTS)
def test_two_columns_hold_every_row_once_on_its_side(old: str, new: str):
    rows = diff(old, new)
    columns = text_diff.sided(rows)

    left = [one for one, _other in columns if one is not None]
    right = [other for _one, other in columns if other is not None]
    assert left == [row for row in rows if row.kind != "added"]
    assert right == [row for row in rows if row.kind != "removed"]


def test_what_was_removed_is_next_to_what_came_in_its_place():
    rows = diff("One thing was so.\nStill.\n", "Quite another came here.\nStill.\n")

    assert [[one and one.kind for one in pair] for pair in text_diff.sided(rows)] == [
        ["removed", "added"],
        ["same", "same"],
    ]


def _scribble(letters: str, lines: int) -> str:
    return "".join(random.choice(letters) + "\n" for _ in range(lines))


def _prose(words: int) -> str:
    return " ".join(f"w{random.randrange(3000)}" for _ in range(words)) + "\n\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("".join(_prose(60) for _ in range(40)), "".join(_prose(60) for _ in range(40))),
        (_scribble("ab", 30_000), _scribble("ab", 30_000)),
        ("a\n" * 20_000, _scribble("ab", 20_000)),
        (_prose(12_000), _prose(12_000)),
        (_prose(3_900), _prose(3_900)),
        ("[" * 60_000, "][" * 30_000),
    ],
    ids=["rewritten", "two letters", "nearly alike", "a long line", "a longish line", "signs"],
)
def test_texts_made_to_be_slow_take_no_second(old: str, new: str):
    began = time.thread_time()  # of this thread: others may be busy

    rows = diff(old, new)

    assert time.thread_time() - began < 2  # measured: at most 0.3 s
    assert (text_diff.before(rows), text_diff.after(rows)) == (old, new)


def test_an_empty_line_that_came_or_went_whole_needs_no_sign_for_its_break():
    rows = diff("a\n", "a\n\nb\n")

    assert [row.is_empty_line for row in rows] == [False, True, False]


def test_a_plain_diff_has_no_marks():
    old = "## Hosts\n\n- Compare by **cost**\n- [Docs](https://example.org)\n"
    rows = plain_diff(old, old.replace("cost", "price"))

    assert text_diff.before(rows) == "Hosts\n\n• Compare by cost\n• Docs\n"
    assert text_diff.after(rows) == "Hosts\n\n• Compare by price\n• Docs\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a **b**\n", "a b\n"),
        ("[a](https://a.example)\nb\n", "[a](https://b.example)\nc\n"),
        ("```\n*a*\n```\n", "```\na\n```\n"),
    ],
)
def test_a_plain_diff_hides_no_change(old: str, new: str):
    rows = plain_diff(old, new)

    assert (text_diff.before(rows), text_diff.after(rows)) == (old, new)
