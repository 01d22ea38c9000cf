"""Which finished work gets a reflection: the seed's boundaries."""

from __future__ import annotations

import pytest

from memory.agents.reflection import length_of, why_not, why_not_talk

LONG, SHORT = "x" * 500, "x" * 499


@pytest.mark.requirement("R170")
@pytest.mark.parametrize(
    ("iterations", "actions", "result", "is_worth"),
    [
        (1, 1, SHORT, False),
        (0, 1, SHORT, False),
        (1, 1, LONG, True),
        (1, 2, SHORT, True),
        (2, 1, SHORT, True),
    ],
)
def test_little_work_with_a_short_result_is_not_reflected_on(
    iterations: int, actions: int, result: str, is_worth: bool
):
    assert (why_not(iterations, actions, False, result) == "") is is_worth


@pytest.mark.requirement("R171")
@pytest.mark.parametrize(
    ("iterations", "actions", "is_worth"),
    [(0, 0, False), (1, 0, False), (2, 0, True), (1, 1, True)],
)
def test_pure_talk_without_a_call_is_not_reflected_on_however_long(
    iterations: int, actions: int, is_worth: bool
):
    assert (why_not(iterations, actions, False, LONG * 10) == "") is is_worth


@pytest.mark.requirement("R172")
@pytest.mark.parametrize(
    ("iterations", "read_only", "result", "is_worth"),
    [
        (2, True, SHORT, False),
        (2, True, LONG, True),
        (3, True, SHORT, True),
        (2, False, SHORT, True),
        (1, True, SHORT, False),
    ],
)
def test_a_look_up_in_few_steps_with_a_short_result_is_not_reflected_on(
    iterations: int, read_only: bool, result: str, is_worth: bool
):
    assert (why_not(iterations, 5, read_only, result) == "") is is_worth


@pytest.mark.requirement("R173")
def test_all_else_is_reflected_on_and_no_reason_is_given():
    assert why_not(3, 9, True, "short") == ""


@pytest.mark.requirement("R173")
@pytest.mark.parametrize(
    ("result", "length"),
    [("x" * 500, 500), (None, 0), ({"text": "x" * 488}, 500), ("记" * 250, 500), ("", 0)],
)
def test_a_plain_text_is_measured_as_it_is_and_other_results_as_json(result: object, length: int):
    assert length_of(result) == length
    assert (why_not(1, 1, False, result) == "") is (length >= 500)


@pytest.mark.requirement("R170")
def test_why_not_is_reported_with_its_figures():
    assert "499 characters (under 500)" in why_not(1, 1, True, SHORT)


@pytest.mark.requirement("R174")
@pytest.mark.parametrize(
    ("messages", "by_user", "is_worth"), [(6, 2, True), (5, 2, False), (6, 1, False), (20, 9, True)]
)
def test_a_conversation_has_a_gate_of_its_own(messages: int, by_user: int, is_worth: bool):
    assert (why_not_talk(messages, by_user) == "") is is_worth
