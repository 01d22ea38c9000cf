"""How the keyword rule reads an intent, and which sentences it selects."""

from __future__ import annotations

import pytest

from research.services.intent.weighing import read, verdict

ENTRANTS = "Only tell me if prices or a new entrant"
PRICE = "Cells now cost 83 euros per kilowatt hour."
RIVAL = "Northwind enters the market with a pouch cell."
LINE = "A pilot line in Graz made 5,400 cells."
COURT = "A court in Munich ruled against the maker."
MONEY = "Kyoto Cells raised $40 million in a Series B round."
CEO = "The chief executive officer resigned."


def told(intent: str, sentence: str, **more: str) -> bool:
    return verdict(read(intent, about="Solid-state batteries"), sentence, **more).tell  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("intent", "yes", "no"),
    [
        (ENTRANTS, [PRICE, RIVAL], [LINE, COURT, CEO, MONEY]),
        ("prices", [PRICE], [MONEY, LINE]),
        ("Tell me when a law or a lawsuit comes up", [COURT], [PRICE, LINE]),
        ("funding rounds", [MONEY], [PRICE, LINE]),
        ("Graz", [LINE], [PRICE, COURT]),
        ("anything about Munich or Graz", [LINE, COURT], [PRICE]),
        ("prices of Northwind", ["Northwind sells cells at 70 euros."], [PRICE, RIVAL]),
        ("no news about lawsuits", [PRICE, LINE], [COURT]),
        ("nothing but prices", [PRICE], [LINE, COURT]),
        ("Prices, but not funding", [PRICE], [MONEY, COURT]),
        ("Nothing unless prices change", [PRICE], [LINE]),
        ("Please don't tell me about hiring or layoffs.", [PRICE, LINE], [CEO]),
        ("价格", ["电池价格下降了一半"], [LINE]),
        ("Preise", [PRICE], [LINE]),
    ],
)
def test_an_intent_shows_what_it_names_and_withholds_the_rest(
    intent: str, yes: list[str], no: list[str]
):
    assert [told(intent, sentence) for sentence in yes] == [True] * len(yes)
    assert [told(intent, sentence) for sentence in no] == [False] * len(no)


@pytest.mark.parametrize(
    "intent", ["", "Only tell me important news", "!!!", "solid-state batteries"]
)
def test_an_intent_that_names_nothing_asks_for_nothing_that_the_rule_knows(intent: str):
    assert not read(intent, about="Solid-state batteries")


def test_what_is_withheld_has_a_reason_that_names_what_was_asked():
    found = verdict(read(ENTRANTS), LINE)

    assert found.by == "rule"
    assert "price" in found.why
    assert "new entrant" in found.why


def test_a_contradiction_is_told_to_anyone_who_asks_for_contradictions():
    asked = "only contradictions"

    assert told(asked, LINE, status="contradicted")
    assert not told(asked, LINE, status="new")


def test_such_things_as_were_requested_too_are_reported():
    found = verdict(read("prices"), "A court in Graz ruled for the maker.", examples=[COURT])

    assert found.tell
    assert "what you asked for" in found.why
    assert not verdict(read("prices"), LINE, examples=[COURT]).tell


def test_a_very_long_intent_is_read_in_a_moment():
    assert read("prices of cells, " * 600 + "not " * 500)


def test_said_a_thousand_times_it_is_requested_once():
    asked = read("Only tell me of prices, Toyota or a price. " * 200, about="Batteries")

    assert len(asked.wanted) == len(set(asked.wanted)) < 5
