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


@pytest.mark.parametrize(
    "sentence",
    [
        "The shop sells goods from {} to 17.",
        "The cinema shows movies from {}:00 to 18:00.",
        "The golf course is open from {} to 17.",
        "The goats are in the yard from {} to 15.",
        "The museum has extended opening hours from {} to 17.",
        "The museum is open in the fall from {} to 17.",
        "The hotel rents double rooms from {} to 120 euros.",
        "Les portes sont ouvertes tous les jours de {} à 17.",
        "El mirador de la planta baja abre de {} a 17.",
    ],
)
def test_the_start_of_a_range_is_no_former_value(sentence: str):
    assert kind(sentence.format(10), sentence.format(9)) == "changed"


@pytest.mark.parametrize(
    ("new", "before"),
    [
        (
            "OpenAI raised the daily limit for OpenAPI calls from 40 to 50.",
            "OpenAI raised the daily limit for OpenAPI calls to 50.",
        ),
        (
            "The deadline for entries has moved from 14:00 to 15:00.",
            "The deadline for entries is 15:00.",
        ),
        (
            "The fee for new members is going up from 20 to 30 euros.",
            "The fee for new members is 30 euros.",
        ),
        (
            "Le délai moyen de livraison des commandes passe de 5 jours à 3 jours.",
            "Le délai moyen de livraison des commandes est de 3 jours.",
        ),
        (
            "El plazo de entrega se ha reducido de 5 días a 3 días.",
            "El plazo de entrega es de 3 días.",
        ),
        ("这款电芯的循环寿命从800次提高到1100次。", "这款电芯的循环寿命为1100次。"),
    ],
)
def test_the_value_before_a_change_is_not_compared(new: str, before: str):
    assert kind(new, before) == "confirmed"
    assert kind(before, new) == "confirmed"


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
