"""Confirmed, changed or new: comparing a sentence with earlier ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon_site.text.values import numbers
from benchmarks.matching import crowded, judge, measure
from research.claims.matching import match


def kind(new: str, *previous: str) -> str | None:
    found = match(new, previous)
    return found.kind if found else None


@pytest.mark.parametrize(
    ("new", "before"),
    [
        (
            "Version 13 reached its end of life in November 2025.",
            "Version 13 receives fixes until November 2025.",
        ),
        ("Version 18.1 is the current release.", "Version 18.0 is the current release."),
        (
            "The vaccine does not protect against the new variant.",
            "The vaccine protects against the new variant.",
        ),
        (
            "The minimum order for delivery falls from 5 kg to 3 kg.",
            "The minimum order for delivery is 5 kg.",
        ),
        (
            "Minimum order weight for delivery 5 kg",
            "The minimum order weight for delivery falls from 5 kg to 3 kg.",
        ),
        (
            "The trial of new accounts lasts 30 days instead of 14 days.",
            "The trial of new accounts lasts 14 days.",
        ),
        (
            "Die Mindestmenge für die Lieferung sinkt von 5 kg auf 3 kg.",
            "Die Mindestmenge für die Lieferung beträgt 5 kg.",
        ),
        ("第二批电芯的循环寿命提高到1100次。", "目前电芯的循环寿命为800次。"),
        ("新版本已于2026年5月发布。", "新版本将于2026年5月发布。"),
    ],
)
def test_another_number_date_state_or_negation_is_a_change(new: str, before: str):
    assert kind(new, before) == "changed"


@pytest.mark.parametrize(
    ("new", "before"),
    [
        (
            "PostgreSQL 17 will be supported until 8 November 2029 [3].",
            "PostgreSQL 17 will be supported until 8 November 2029.",
        ),
        (
            "The minimum order for delivery is now 3 kg.",
            "The minimum order for delivery falls from 5 kg to 3 kg.",
        ),
        ("The museum is open from 9 to 17.", "The museum opens from 9 to 17."),
        ("The plant employs 1,200 people.", "The plant employs 1200 people."),
        ("Prices fell by 20% in May 2024.", "Prices fell by 20 percent in May 2024."),
        ("2025年出货量为7.8吉瓦时。", "2025年出货量为7.8吉瓦时。"),
    ],
)
def test_the_same_numbers_in_nearly_the_same_words_are_a_confirmation(new: str, before: str):
    assert kind(new, before) == "confirmed"


@pytest.mark.parametrize(
    ("new", "before"),
    [
        (
            "Version 18 will be supported until 14 November 2030.",
            "Version 17 will be supported until 8 November 2029.",
        ),
        (
            "Unemployment in Germany fell to 6.1 percent.",
            "Unemployment in Spain fell to 10.4 percent.",
        ),
        ("2026年国内固态电池出货量将达到13吉瓦时。", "2025年国内固态电池出货量为7.8吉瓦时。"),
        ("The bridge opened in May.", "Copper prices rose by 9 percent in 2024."),
    ],
)
def test_another_subject_is_new(new: str, before: str):
    assert kind(new, before) is None


def test_nothing_known_makes_everything_new():
    assert match("Version 18 was released.", []) is None
    assert match("", ["Version 18 was released."]) is None


def test_a_confirmation_wins_over_a_change():
    found = match(
        "Version 18.1 is the current release.",
        ["Version 18.0 is the current release.", "Version 18.1 is the current release."],
    )
    assert found is not None
    assert (found.index, found.kind, found.score) == (1, "confirmed", 100.0)


def test_numbers_have_one_spelling():
    assert numbers("13 November 2025") == numbers("November 13, 2025") == numbers("2025-11-13")
    assert numbers("2025年11月13日") == numbers("13 November 2025")
    assert numbers("31 percent of 1,024") == numbers("31% of 1024") == {"31", "1024"}


def test_the_labelled_pairs_are_distinguished():
    table = measure(judge())
    assert table["changed"][0] >= 0.95 and table["changed"][1] >= 0.85
    assert table["confirmed"][0] >= 0.95 and table["confirmed"][1] >= 0.9
    assert crowded() >= 0.8


@given(st.text(max_size=120), st.lists(st.text(max_size=120), max_size=4))
@settings(max_examples=150, deadline=None)
def test_any_text_can_be_matched(sentence: str, previous: list[str]):
    found = match(sentence, previous)
    assert found is None or 0 <= found.index < len(previous)
    assert match(sentence, previous) == found
