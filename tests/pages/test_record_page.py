"""The page of one note or observation: origin, uses and replacement history."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from django.test import Client

from memory.models import Note, Use
from memory.services.notes.saving import edit_note, supersede
from tests.pages.record_cast import HTMX, days, note, observation, text_of
from tests.research.factories import make_fact, make_run, make_topic

PANEL = {**HTMX, "HX-Target": "record-panel"}


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


def test_the_page_lays_the_words_out_and_lets_no_markup_through(
    browser: Client, alice: Any
) -> None:
    one = note(alice, "Fares are **stale**. <script>alert(1)</script>")
    html = browser.get(one.get_absolute_url()).content.decode()
    assert "<strong>stale</strong>" in html
    assert "<script>alert(1)" not in html


def test_it_says_why_it_is_remembered_in_words(browser: Client, alice: Any) -> None:
    run = make_run(make_topic(alice, "Fares"))
    one = note(alice, source=run.source, trust="external", evidence=["https://example.org/fares"])
    html = text_of(browser.get(one.get_absolute_url()))
    assert "Run #1 of “Fares”" in html
    assert "This text is external" in html
    assert "example.org/fares" in html


def test_it_says_where_it_was_used_with_a_link(browser: Client, alice: Any) -> None:
    run = make_run(make_topic(alice, "Fares"))
    one = note(alice)
    Use.objects.create(owner=alice, record_type="note", record_id=one.pk, place=run.source)
    html = text_of(browser.get(one.get_absolute_url()))
    assert f'/topics/fares/runs/{run.pk}/">Run #1 of “Fares”</a>' in html


def test_without_a_run_an_origin_is_still_told(browser: Client, alice: Any) -> None:
    one = observation(alice, source="run:999:heuristic")
    html = text_of(browser.get(one.get_absolute_url()))
    assert "Run 999 (deleted), without a model" in html


def test_a_finding_names_its_page_site_quote_and_the_state_of_its_fact(
    browser: Client, alice: Any
) -> None:
    topic = make_topic(alice, "Fares")
    run = make_run(topic)
    fact = make_fact(
        topic, "The fare is 3 euros in 2026.", run, url="https://www.fares.example/new",
        source_title="New fares", quote="A ticket costs 3 euros.", published_at=date(2025, 11, 14),
    )  # fmt: skip
    one = observation(alice, fact.text, source=run.source, topic=topic)
    page = text_of(browser.get(one.get_absolute_url()))
    assert 'href="https://www.fares.example/new"' in page and "New fares" in page
    assert "<bdi>fares.example</bdi>" in page and "14 Nov 2025" in page
    assert "“A ticket costs 3 euros.”" in page and ">current</a>" in page

    fact.strike(by=alice.actor)

    assert ">marked as wrong</a>" in text_of(browser.get(one.get_absolute_url()))


@pytest.mark.parametrize(
    ("expires", "said"),
    [(None, "kept until deleted"), (12, "expires in 12 days"), (-1, "This record has expired")],
)
@pytest.mark.requirement("R192")
def test_it_says_how_long_it_is_kept(
    browser: Client, alice: Any, expires: float | None, said: str
) -> None:
    one = note(alice, expires_at=days(expires) if expires else None)
    assert said in text_of(browser.get(one.get_absolute_url()))


@pytest.mark.requirement("R200")
def test_the_chain_leads_from_the_first_note_to_the_one_that_stands(
    browser: Client, alice: Any
) -> None:
    first = note(alice, "Fares are stale.")
    second = supersede(first, "Fares are fresh.", by=alice.actor)
    third = supersede(second, "Fares are gone.", by=alice.actor)
    html = text_of(browser.get(first.get_absolute_url()))
    assert "A newer note replaced this one." in html
    for one in (second, third):
        assert f'href="{one.get_absolute_url()}">{one}</a>' in html


def test_two_observations_that_say_almost_the_same_name_each_other(
    browser: Client, alice: Any
) -> None:
    older = observation(alice, "A cell costs 89 dollars.")
    newer = observation(alice, "A cell costs 89 dollars!", near_duplicate_of=older)
    assert newer.get_absolute_url() in text_of(browser.get(older.get_absolute_url()))
    assert older.get_absolute_url() in text_of(browser.get(newer.get_absolute_url()))


def test_a_trashed_one_says_so_and_offers_the_way_back(browser: Client, alice: Any) -> None:
    one = note(alice)
    one.trash(by=alice.actor)
    html = text_of(browser.get(one.get_absolute_url()))
    assert "This record is in Trash." in html
    assert f"/records/note/{one.pk}/restore/" in html


def test_over_htmx_a_list_gets_the_panel_alone(browser: Client, alice: Any) -> None:
    html = browser.get(note(alice).get_absolute_url(), headers=PANEL).content.decode()
    assert html.split("#}")[-1].lstrip().startswith('<section id="record-panel"')


@pytest.mark.parametrize("make", [note, observation])
def test_what_is_anothers_is_not_there(
    client_of: Callable[[Any], Client], alice: Any, bob: Any, make: Any
) -> None:
    page = make(alice).get_absolute_url()
    assert client_of(bob).get(page).status_code == 404
    assert client_of(bob).get(page + "history/").status_code == 404


def test_the_page_takes_a_fixed_number_of_queries(
    browser: Client, alice: Any, django_assert_max_num_queries: Any
) -> None:
    run = make_run(make_topic(alice, "Fares"))
    one = note(alice, source=run.source, topic=run.topic)
    for number in range(12):
        edit_note(one, by=alice.actor, content=f"Fares of day {number}.")
        one = supersede(one, f"Fares, newer, {number}.", by=alice.actor)
        place = f"run:{number}"
        Use.objects.create(owner=alice, record_type="note", record_id=one.pk, place=place)
    with django_assert_max_num_queries(21):
        browser.get(one.get_absolute_url())
    with django_assert_max_num_queries(21):
        browser.get(Note.objects.earliest("created").get_absolute_url())
