"""Linking a sentence to a fact: which fact it's about, and how it relates to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon_site.providers.llm.adapters import MiniLmEmbedder
from beacon_site.text.values import Amount, amounts
from research.claims.linking import Comparison, DatedSentence, weights

CHECKED, TODAY = date(2026, 3, 2), date(2026, 4, 10)
STAFF = "Kupferwerk Halden employs 140 people at its shredding line in Magdeburg."
PLANT = "Norlith's plant in Skellefte can process 25,000 tonnes of used batteries a year."
NICKEL = "Norlith recovered 93 percent of the nickel in its 2025 trial campaign."
FACTS = [STAFF, PLANT, NICKEL]


def one_for_each_text(texts: Sequence[str]) -> list[list[float]]:
    """Embed without meaning: a text is only near itself."""
    made = []
    for text in texts:
        found = [float(byte) - 128 for byte in sha256(text.casefold().encode()).digest()[:12]]
        length = math.hypot(*found)
        made.append([value / length for value in found])
    return made


def judged(sentence: str, *facts: str) -> tuple[str, int]:
    known = [DatedSentence(fact, CHECKED) for fact in facts or FACTS]
    verdict = Comparison(known, [DatedSentence(sentence, TODAY)], "Battery recycling").judge(0)
    return verdict.status, verdict.place


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("25,000 tonnes", Amount(25e9, "g")),
        ("25 kilotonnes", Amount(25e9, "g")),
        ("twenty-five thousand tonnes", Amount(25e9, "g")),
        ("€210m", Amount(210e6, "eur")),
        ("8.5 million euros", Amount(8.5e6, "eur")),
        ("eight and a half million euros", Amount(8.5e6, "eur")),
        ("42'000'000 francs", Amount(42e6, "chf")),
        ("186亿元", Amount(186e8, "cny")),
        ("271 cents", Amount(2.71, "usd")),
        ("16 m", Amount(16, "m")),
        ("42.000 Fahrgäste", Amount(42_000, "fahrgäste")),
        ("48 000 voyageurs", Amount(48_000, "voyageur")),
        ("120 megawatt hours", Amount(120e6, "wh")),
        ("4.3 MWh", Amount(4.3e6, "wh")),
        ("24 square kilometres", Amount(24e6, "m2")),
        ("2,400 hectares", Amount(24e6, "m2")),
        ("nine cubic metres", Amount(9_000, "l")),
        ("52 miles", Amount(83_685.9, "m")),
        ("two and a half hours", Amount(2.5, "hour")),
        ("one in five pupils", Amount(20, "pupil")),
        ("half of", Amount(50, "%")),
    ],
)
def test_an_amount_is_one_however_it_is_written(text: str, amount: Amount):
    found = amounts(text.casefold())[0]

    assert found.is_near(amount)
    assert text == "half of" or found.unit == amount.unit


@pytest.mark.parametrize(
    ("sentence", "status", "place"),
    [
        (STAFF, "confirmed", 0),
        (
            "The plant in Skellefte can process 25 kilotonnes of used batteries a year.",
            "confirmed",
            1,
        ),
        ("Kupferwerk Halden now employs 185 people at its line in Magdeburg.", "changed", 0),
        (STAFF.replace("140", "185"), "changed", 0),
        (
            "An audit puts the nickel recovered in Norlith's 2025 campaign at 81 percent, not 93 percent.",
            "contradicted",
            2,
        ),
        ("The city of Linz opens a museum for trams in May.", "new", -1),
        ("Does anybody know a good place for lunch around here?", "noise", -1),
    ],
)
def test_a_sentence_is_reported_by_the_fact_it_speaks_of(sentence: str, status: str, place: int):
    assert judged(sentence) == (status, place)


def test_another_value_for_the_same_time_contradicts_and_without_a_time_it_is_a_change():
    dated = "The line made 12,000 cells in May 2026."

    assert judged(dated.replace("12,000", "15,000"), dated)[0] == "contradicted"
    assert judged("The line has 15 workers.", "The line has 12 workers.")[0] == "changed"


def test_a_move_from_a_value_changes_no_fact_with_another_value_of_that_kind():
    known = [
        "Orders over 75 euros ship free within Austria.",
        "Resellers receive a discount of 15 percent on all 1 kg bags.",
        "price-list, Ethiopia Yirgacheffe, 250 g: Price EUR 10.40; In stock yes; Valid from 2026-09-01",
        "price-list, Colombia Huila, 1 kg: Price EUR 31.00; In stock yes; Valid from 2026-09-01",
        "price-list, Guatemala Antigua, 250 g: Price EUR 10.90; In stock yes; Valid from 2026-12-01",
    ]
    news = [
        "From 1 January 2027, coffee prices rise by 4 percent.",
        "The minimum order for resellers falls from 5 kg to 3 kg.",
        "The last roasting day of the year is 22 December.",
    ]
    title = "Bergkaffee news, 30 November 2026"
    found = [
        DatedSentence(text, TODAY, before=before, title=title)
        for before, text in zip(["", *news], news, strict=False)
    ]
    facts = [DatedSentence(fact, TODAY) for fact in known]

    verdicts = Comparison(
        facts, found, "Coffee prices at Bergkaffee", embed=MiniLmEmbedder().embed
    ).verdicts()

    assert [verdict.status for verdict in verdicts] == ["new", "new", "new"]


def test_what_an_earlier_sentence_told_as_new_is_a_repetition():
    first, again = (
        "A second plant is to follow near Tarragona in 2028.",
        "A second plant is to follow in Tarragona in 2028.",
    )
    comparison = Comparison(
        [DatedSentence(STAFF, CHECKED)], [DatedSentence(first, TODAY), DatedSentence(again, TODAY)]
    )

    assert comparison.judge(0).status == "new"
    assert comparison.judge(1, [0]).place == 1


def test_without_a_known_fact_everything_is_new_or_no_fact():
    verdict = Comparison([], [DatedSentence(PLANT, TODAY)]).judge(0)

    assert (verdict.status, verdict.place) == ("new", -1)


def test_vectors_are_a_second_opinion_and_change_nothing_of_the_form():
    vectors = Comparison(
        [DatedSentence(STAFF, CHECKED)], [DatedSentence(PLANT, TODAY)], embed=one_for_each_text
    )

    assert vectors.judge(0).status in {"new", "confirmed", "changed", "contradicted", "noise"}


@given(st.text(max_size=120), st.lists(st.text(max_size=120), max_size=4))
@settings(max_examples=100, deadline=None)
def test_any_text_can_be_judged(sentence: str, facts: list[str]):
    comparison = Comparison([DatedSentence(fact) for fact in facts], [DatedSentence(sentence)])
    verdict = comparison.judge(0)

    assert -1 <= verdict.place < len(facts)
    assert comparison.judge(0) == verdict


def test_what_shares_no_word_and_no_meaning_contradicts_nothing():
    """Seen in the sample topic: an upgrade's terms “contradicted” the day on which a support ends."""
    ends = DatedSentence(
        "PostgreSQL 13 will stop receiving fixes on 13 November 2025.", date(2025, 8, 20)
    )
    upgrade = DatedSentence(
        "A cluster without checksums cannot be upgraded by pg_upgrade into one that has them, so the new"
        " cluster must be made with --no-data-checksums, or checksums must be enabled on the old one first.",
        date(2025, 9, 4),
    )
    comparison = Comparison([ends], [upgrade], "PostgreSQL releases", embed=MiniLmEmbedder().embed)

    assert comparison.judge(0).status == "new"


@pytest.mark.parametrize("embed", [None, one_for_each_text])
def test_what_is_told_of_another_version_changes_nothing_of_this_one(embed):
    ended = "PostgreSQL 12 reached its end of life on 21 November 2024, with 12.22 as its last minor release."
    next_ended = "PostgreSQL 13 reached its end of life on 13 November 2025, with 13.23 as its last minor release."
    found = [DatedSentence(next_ended, TODAY), DatedSentence(ended.replace("21", "22"), TODAY)]

    told = Comparison([DatedSentence(ended, CHECKED)], found, "PostgreSQL", embed).verdicts()

    assert [one.status for one in told] == ["new", "changed"]


LATEST = (
    "The latest minor releases of PostgreSQL are 16.4, 15.8 and 14.13, published on 8 August 2024."
)
NEWEST = "The newest version for production is now PostgreSQL 17, with 17.0 as its first release."


@pytest.mark.parametrize("embed", [None, one_for_each_text], ids=["words", "vectors"])
@pytest.mark.parametrize(
    ("sentence", "status", "place"),
    [
        (
            "The latest minor releases of PostgreSQL are 18.1, 17.7, 16.11 and 15.15, published on 13 November 2025.",
            "changed",
            0,
        ),
        (
            "The newest version for production is now PostgreSQL 18, with 18.0 as its first release.",
            "changed",
            1,
        ),
    ],
)
def test_what_only_one_thing_can_be_is_replaced_by_the_next_in_the_same_words(
    sentence: str, status: str, place: int, embed
):
    known = [DatedSentence(fact, date(2024, 10, 1)) for fact in (LATEST, NEWEST)]

    verdict = Comparison(
        known, [DatedSentence(sentence, TODAY)], "PostgreSQL releases", embed
    ).judge(0)

    assert (verdict.status, verdict.place) == (status, place)


def test_an_older_page_does_not_put_the_newest_back():
    known = [DatedSentence(NEWEST, date(2024, 10, 1))]
    told = DatedSentence(NEWEST.replace("17", "16"), date(2023, 10, 1))

    verdict = Comparison(known, [told], "PostgreSQL releases").judge(0)
    later = Comparison(known, [DatedSentence(told.text, TODAY)], "PostgreSQL releases").judge(0)

    assert later.status == "changed"
    assert verdict.status == "new"


BETA = "The first beta of QuarryDB 9 came on 8 May 2025, with the final release expected in autumn."


def test_a_plan_that_has_come_about_is_a_change():
    released = (
        "QuarryDB 9 was released in its final form on 25 September 2025 after the first beta."
    )

    assert judged(released, BETA) == ("changed", 0)
    assert judged("Once QuarryDB 9 is released, 8 goes out of support.", BETA)[0] == "new"


@pytest.mark.parametrize(
    "sentence",
    [
        NICKEL.replace("93", "88").replace("nickel", "cobalt"),
        NICKEL.replace("93", "88").replace("2025", "2021"),
        NICKEL.replace("Norlith", "Rival Sudlith").replace("93", "88"),
    ],
    ids=["noun", "year", "name"],
)
def test_another_thing_in_the_same_words_is_new(sentence: str):
    assert judged(sentence)[0] == "new"


def test_every_feature_of_a_pair_and_a_sentence_has_a_weight():
    comparison = Comparison(
        [DatedSentence(STAFF), DatedSentence(PLANT)],
        [DatedSentence(NICKEL)],
        "Batteries",
        one_for_each_text,
    )
    pairs, fitted = comparison.pairs(0), weights(with_vectors=True)

    assert {*pairs[0][1], "bias"} == set(fitted["link"])
    assert {*comparison.relation_features(2, 0, pairs[0][1]), "bias"} == set(fitted["same"])
    assert {*comparison.signs(0), "bias"} == set(fitted["noise"])
