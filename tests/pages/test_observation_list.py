"""The list of observations; what it shares with the notes' is tested there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memory.models.actors import Actor
from memory.services.observations.saving import write_observation
from memory.services.search import bm25
from tests.pages.record_cast import HTMX, observation, text_of

URL = "/observations/"
ClientOf = Callable[[Any], Client]


@pytest.fixture
def browser(client_of: ClientOf, alice: Any) -> Client:
    return client_of(alice)


@pytest.mark.requirement("R63")
def test_it_shows_words_category_source_and_when(browser: Client, alice: Any):
    made = observation(alice, category="lesson", tags=["cells"], trust="external")

    page = text_of(browser.get(URL))

    for words in (
        "A cell costs 89 dollars.",
        "lesson",
        "run 1 (deleted)",
        "cells",
        "external",
    ):
        assert words in page
    assert f'datetime="{made.created:%Y-%m-%d}' in page


def test_where_nothing_was_written_there_is_nothing_to_narrow(browser: Client):
    empty = browser.get(URL).content.decode()
    narrowed = browser.get(f"{URL}?q=cells").content.decode()

    assert "No observations yet" in empty and 'id="records-q"' not in empty
    assert 'id="records-q"' in narrowed


def test_over_htmx_the_list_alone_is_answered(browser: Client, alice: Any):
    observation(alice)

    page = text_of(browser.get(URL, headers=HTMX))

    assert page.startswith('<section id="records"')
    assert "<html" not in page


@pytest.mark.requirement("R232")
def test_a_stranger_sees_none_of_it(client_of: ClientOf, alice: Any, bob: Any):
    made = observation(alice)

    assert "A cell" not in text_of(client_of(bob).get(URL))
    assert client_of(bob).get(f"/records/observation/{made.pk}/inline/").status_code == 404
    assert Client().get(URL)["Location"].startswith("/sign-in/")


@pytest.mark.parametrize("query", ["q=%00", "q=category:poem", "q=kind:rule", "sort=expires"])
def test_an_address_that_makes_no_sense_shows_a_list_all_the_same(browser: Client, query: str):
    assert browser.get(f"{URL}?{query}").status_code == 200


def test_its_number_of_queries_is_fixed(
    browser: Client, alice: Any, django_assert_max_num_queries: Any
):
    older = observation(alice, "The first of many")
    for number in range(55):
        observation(alice, f"Observation {number}", near_duplicate_of=older)
    browser.get(URL)

    with django_assert_max_num_queries(13):
        browser.get(URL)
    with django_assert_max_num_queries(13):
        browser.get(f"{URL}?q=observation+category:finding")


def test_a_category_narrows_and_isnt_a_word(browser: Client, alice: Any):
    observation(alice)
    observation(alice, "Ask twice.", category="lesson")

    assert "A cell" not in text_of(browser.get(f"{URL}?q=category:lesson"))
    assert "Ask twice." not in text_of(browser.get(f"{URL}?q=lesson"))


def test_near_duplicates_are_shown_as_such(browser: Client, alice: Any):
    older = observation(alice)
    observation(alice, "A cell costs 89 dollars now.", near_duplicate_of=older)

    page = text_of(browser.get(URL))

    assert "near-duplicate of an older record" in page
    assert "+1 similar<" in page
    assert page.index("+1 similar<") < page.index("A cell costs 89 dollars now.")  # folded below it
    assert "A cell costs 89 dollars now." in text_of(browser.get(f"{URL}?q=is:duplicate"))


def test_the_fold_of_near_duplicates_comes_before_other_marks(browser: Client, alice: Any):
    # The style sheet shows only the first two marks of a row, on phones only the first.
    older = observation(alice, pinned=True, lock="agent")
    observation(alice, "A cell costs 89 dollars now.", near_duplicate_of=older)

    page = text_of(browser.get(URL))

    assert page.index("alike-fold") < page.index("memory-pin")


def test_in_a_search_the_best_match_stays_where_it_is(browser: Client, alice: Any):
    older = observation(alice, "A cell of the second kind and of the third costs 90 dollars.")
    observation(alice, "A cell costs 89 dollars.", near_duplicate_of=older)

    page = text_of(browser.get(f"{URL}?q=89+dollars"))

    assert "alike-fold" not in page


@pytest.mark.requirement("R83")
def test_a_person_corrects_one_in_its_row_and_it_is_found_by_the_new_words(
    browser: Client, alice: Any
):
    made = observation(alice)

    typed = {"content": "A cell costs 80 euros.", "tags": "", "version": 1}
    page = text_of(browser.post(f"/records/observation/{made.pk}/inline/", typed, headers=HTMX))

    made.refresh_from_db()
    assert "A cell costs 80 euros." in page
    assert made.version == 2
    assert [key for key, _score in bm25.search(alice, "observation", "euros")] == [made.pk]
    assert bm25.search(alice, "observation", "dollars") == []


def test_without_observations_the_page_names_the_next_step(browser: Client):
    assert "No observations yet" in text_of(browser.get(URL))


def test_of_what_names_a_source_of_its_own_the_row_says_which_agent_wrote_it(
    browser: Client, alice: Any
):
    for name, source in (("claude", "GOAL:inventory"), ("cursor", "agent:cursor")):
        write_observation(
            alice, "finding", f"{name} counted the servers.", by=Actor("agent", name), source=source
        )

    rows = {row.label: row for row in browser.get(URL).context["rows"]}

    assert rows["claude counted the servers."].writer == "The agent “claude”"
    assert rows["cursor counted the servers."].writer == "The agent “cursor”"
