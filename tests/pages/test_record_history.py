"""The history of one record: each change in words, any two versions, and its pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memory.services.notes.saving import edit_note, pin
from memory.services.records.history import compare, history_of
from tests.pages.record_cast import HTMX, note, observation, text_of


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def edited(alice: Any) -> Any:
    """A note with three versions."""
    one = note(alice, "Fares are stale.\nAsk twice.", tags=["air"])
    edit_note(one, by=alice.actor, content="Fares are fresh.\nAsk twice.", why="they were renewed")
    edit_note(one, by=alice.actor, tags=["desk"], confidence=0.5)
    return one


def history(record: Any) -> str:
    return f"{record.get_absolute_url()}history/"


def test_it_says_who_changed_what_when_and_why(browser: Client, edited: Any) -> None:
    html = text_of(browser.get(history(edited)))
    assert "they were renewed" in html
    assert "Text changed" in html
    assert "added the tag “desk”, removed the tag “air”" in html
    assert "confidence changed from 1.0 to 0.5" in html.lower()
    assert "stale</del>" in html


def test_any_two_versions_are_held_against_each_other(browser: Client, edited: Any) -> None:
    html = text_of(browser.get(history(edited), {"from": "3", "to": "1"}))
    assert "Version 1 compared with version 3" in html
    assert "fresh</ins>" in html
    assert "added the tag “desk”, removed the tag “air”" in html


def test_lines_can_be_seen_instead_of_words(browser: Client, edited: Any) -> None:
    html = text_of(browser.get(history(edited), {"from": "1", "to": "2", "view": "lines"}))
    assert 'class="line removed"' in html


def test_what_is_alike_is_said_to_be(browser: Client, edited: Any) -> None:
    assert "Both versions have the same text" in text_of(
        browser.get(history(edited), {"from": "2", "to": "2"})
    )


@pytest.mark.parametrize(
    "asked", ["from=0&to=9", "from=x&to=1", "from=1", "to=99999999999", "cursor=x"]
)
def test_versions_that_there_never_were_are_no_error(
    browser: Client, edited: Any, asked: str
) -> None:
    response = browser.get(f"{history(edited)}?{asked}")
    assert response.status_code == 200
    assert response.context["comparison"] is None


def test_over_htmx_the_comparison_alone_is_answered(browser: Client, edited: Any) -> None:
    headers = {**HTMX, "HX-Target": "record-compare"}
    response = browser.get(history(edited), {"from": "1", "to": "2"}, headers=headers)
    assert response.content.decode().split("#}")[-1].lstrip().startswith('<section id="record-com')


def test_an_edit_that_only_pins_is_reported_in_words(alice: Any) -> None:
    one = note(alice)
    pin(one, by=alice.actor)
    assert history_of(one).rows[0].said == ["pinned"]


def test_a_comparison_shows_only_what_differs(alice: Any, edited: Any) -> None:
    assert compare(edited, 1, 2)["said"] == []
    assert compare(edited, 2, 3)["has_same_words"]


def test_a_long_history_comes_in_parts(browser: Client, alice: Any) -> None:
    one = note(alice)
    for number in range(40):
        edit_note(one, by=alice.actor, content=f"Fares of day {number}.")
    response = browser.get(history(one))
    assert response.context["next_cursor"]
    rest = browser.get(history(one), {"cursor": response.context["next_cursor"]})
    assert rest.context["changes"][-1].said == ["created"]


def test_large_texts_that_changed_on_every_line_stay_a_page(browser: Client, alice: Any) -> None:
    one = note(alice, "\n".join(f"line {number}" for number in range(5000)))
    for word in ("row", "verse", "stave"):
        edit_note(one, by=alice.actor, content=one.content.replace(one.content[:4].strip(), word))
    response = browser.get(history(one), {"from": "1", "to": "2", "show": "all"})
    assert len(response.content) < 2_500_000
    html = text_of(response)
    assert "This change is too long to show in full here:" in html
    assert "more lines aren’t shown" in html


def test_a_stranger_sees_no_history(
    client_of: Callable[[Any], Client], bob: Any, edited: Any
) -> None:
    assert client_of(bob).get(history(edited)).status_code == 404


def test_the_history_takes_a_fixed_number_of_queries(
    browser: Client, alice: Any, django_assert_max_num_queries: Any
) -> None:
    one = observation(alice)
    for number in range(30):
        one.change(by=alice.actor, content=f"A cell costs {number} dollars.")
    with django_assert_max_num_queries(12):
        browser.get(history(one), {"from": "1", "to": "9"})
