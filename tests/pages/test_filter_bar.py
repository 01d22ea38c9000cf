"""The filter bar of lists: typed filters, chips, days, operators, and URLs."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from django.http import QueryDict
from django.template.loader import render_to_string
from django.test import Client

from beacon_site.text.dates import day_typed
from memory.pages.shared import filter_bar
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar

TODAY = date(2026, 11, 26)  # a Thursday
SHOW = Facet("show", "Status", [Choice("archived", "Archived", 2), Choice("gone", "Gone", 0)])
TRUST = Facet(
    "trust", "Trust", [Choice("owner", "you"), Choice("agent", "agent")], operator="trust"
)


def bar(query: str, *facets: Facet, **more: Any) -> FilterBar:
    asked = filter_bar.read(QueryDict(query), facets)
    return FilterBar(
        "/list/", "list", asked, label="Search", placeholder="Words", facets=facets, **more
    )


def chips(of: FilterBar) -> list[tuple[str, str]]:
    return [(label, value) for label, value, *_rest in of.chips]


@pytest.mark.parametrize(
    ("typed", "day"),
    [
        ("23 Nov 2026", date(2026, 11, 23)),
        ("23 november 2026", date(2026, 11, 23)),
        ("3.2.2026", date(2026, 2, 3)),
        ("2026-02-03", date(2026, 2, 3)),
        ("today", TODAY),
        ("yesterday", date(2026, 11, 25)),
        ("week", date(2026, 11, 23)),
        ("month", date(2026, 11, 1)),
        ("year", date(2026, 1, 1)),
        ("31 Foo 2026", None),
        ("31 June 2026", None),
        ("0 Nov 2026", None),
        ("\x00", None),
        ("", None),
        ("99999999999999999999", None),
    ],
)
def test_a_day_is_read_as_people_write_it(typed: str, day: date | None):
    assert day_typed(typed, TODAY) == day


def test_a_choice_is_a_chip_whose_link_removes_it():
    made = bar("q=roof&show=archived&cursor=abc", SHOW)

    assert chips(made) == [("status", "Archived")]
    assert made.chips[0][2] == "/list/?q=roof"
    assert made.clear_url == "/list/"
    assert made.state == "q=roof&show=archived"


@pytest.mark.parametrize("typed", ["status:archived", "show:Archived", 'status:"archived"'])
def test_a_typed_filter_becomes_a_chip(typed: str):
    made = bar(f"q=old+{typed}+roof", SHOW)

    assert made.words == "old roof"
    assert chips(made) == [("status", "Archived")]


@pytest.mark.parametrize(
    "typed", ["status:nothing", "https://a.example/", "12:30", "-status:archived"]
)
def test_words_that_only_look_like_filters_stay_words(typed: str):
    assert bar(f"q={typed}", SHOW).words == typed
    assert chips(bar(f"q={typed}", SHOW)) == []


def test_an_unknown_value_sets_no_chip():
    assert chips(bar("show=%00&from=%00&to=x", SHOW, filter_bar.day_facet())) == []


def test_a_period_is_a_word_or_a_day():
    days = filter_bar.day_facet()

    assert chips(bar("from=week", days)) == [("when", "this week")]
    assert chips(bar("since=1+Oct+2026&from=week", days)) == [("since", "1 Oct 2026")]
    assert chips(bar("q=since:2026-10-01", days)) == [("since", "1 Oct 2026")]
    assert chips(bar("to=3+Oct+2026", days)) == [("until", "3 Oct 2026")]
    assert bar("since=1+Oct+2026", days).state == "from=2026-10-01"


def test_what_is_not_a_day_is_reported_and_ignored():
    made = bar("since=31+Foo", filter_bar.day_facet())

    assert made.problems and "31 Foo" in made.problems[0]
    assert chips(made) == [] and "not-a-day" not in made.state


def test_operators_of_the_search_are_chips():
    made = bar("q=kind:rule+-tag:old+battery+trust:owner", TRUST, has_operators=True)

    assert made.words == "battery"
    assert chips(made) == [("kind", "rule"), ("not tag", "old"), ("trust", "you")]
    assert made.chips[0][2] == "/list/?q=-tag%3Aold+trust%3Aowner+battery"
    assert made.operators == "kind:rule -tag:old"


def test_a_choice_for_an_operator_is_kept_in_the_words():
    form = "ops=kind:rule&trust=agent&q=battery"

    made = bar(form, TRUST, has_operators=True)

    assert made.text == "trust:agent kind:rule battery"
    assert chips(bar("ops=kind:rule&q=battery", TRUST, has_operators=True)) == [("kind", "rule")]


def test_choices_without_rows_are_not_offered_unless_chosen():
    offered = [one.value for one in bar("", SHOW).groups[0]["choices"]]

    assert offered == ["archived"]
    assert "gone" in [one.value for one in bar("show=gone", SHOW).groups[0]["choices"]]


def test_the_form_keeps_what_isnt_its_own_and_shows_no_markup():
    html = render_to_string("_filter_bar.html", {"bar": bar("order=%3Cb%3E&q=%3Ci%3E", SHOW)})

    assert 'name="order" value="&lt;b&gt;"' in html
    assert "<i>" not in html and "<b>&lt;" not in html


@pytest.mark.parametrize(
    "path",
    [
        "topics", "reports", "memory", "files", "library", "activity", "trash", "agents/folders",
        "notes", "content", "schedule",
    ],
)  # fmt: skip
def test_every_list_takes_any_query(client: Client, alice: Any, path: str):
    client.force_login(alice)
    for query in (
        "?q=%00&from=%00&since=99",
        "?show=x&type=x&sort=x&ops=kind:%22",
        "?q=" + "a:b " * 200,
    ):
        assert client.get(f"/{path}/{query}").status_code == 200
