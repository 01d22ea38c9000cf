"""Merging notes by hand: a proposal is edited and confirmed, the originals stay, and it can be undone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import Note
from memory.services.notes.saving import edit_note
from memory.services.search.recall import recall
from tests.pages.record_cast import HTMX, note, text_of
from tests.undo import undo_of, undone

PAGE = reverse("memory:notes-merge")


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def two(alice: Any) -> list[Note]:
    """Two notes to merge."""
    return [note(alice, "Fares are stale.", tags=["air"]), note(alice, "Ask the airline.")]


def ids(notes: list[Note]) -> dict[str, Any]:
    sent: dict[str, Any] = {"ids": [str(one.pk) for one in notes]}
    return sent | {f"version-{one.pk}": one.version for one in notes}


def test_the_page_proposes_the_texts_one_after_the_other(browser: Client, two: Any) -> None:
    html = browser.get(PAGE, {"ids": [one.pk for one in two]}).content.decode()
    assert "Fares are stale.\n\nAsk the airline.</textarea>" in html


def test_ids_can_be_in_one_word(browser: Client, two: Any) -> None:
    response = browser.get(PAGE, {"ids": ",".join(str(one.pk) for one in two)})
    assert len(response.context["notes"]) == 2


@pytest.mark.requirement("R198")
def test_what_was_edited_is_what_stands_and_undo_brings_the_originals_back(
    browser: Client, alice: Any, two: Any
) -> None:
    sent = ids(two) | {"content": "Stale fares: ask the airline."}
    html = browser.post(PAGE, sent, follow=True)
    made = Note.objects.for_user(alice).get(content="Stale fares: ask the airline.")
    assert [hit.id for hit in recall(alice, "stale fares")] == [made.pk]
    undone(browser, html)
    assert Note.objects.for_user(alice).active().filter(pk__in=[one.pk for one in two]).count() == 2
    assert made.pk not in {hit.id for hit in recall(alice, "stale fares")}


def test_without_a_model_none_is_offered(browser: Client, two: Any) -> None:
    html = browser.get(PAGE, {"ids": [one.pk for one in two]}).content.decode()
    assert "Draft with the model" not in html


def test_a_proposal_changes_nothing(browser: Client, alice: Any, two: Any) -> None:
    response = browser.post(PAGE, ids(two) | {"content": "x", "propose": "1"}, headers=HTMX)
    assert "Fares are stale. Ask the airline." in text_of(response)
    assert Note.objects.for_user(alice).active().filter(pk__in=[one.pk for one in two]).count() == 2


@pytest.mark.parametrize("content", ["", "   ", "é" * 40_000])
def test_a_text_that_cannot_be_kept_is_explained(browser: Client, two: Any, content: str) -> None:
    response = browser.post(PAGE, ids(two) | {"content": content}, headers=HTMX)
    assert response.status_code == 200
    assert "form-errors" in response.content.decode()


def test_a_note_that_changed_in_the_meantime_is_reported_and_the_text_is_kept(
    browser: Client, alice: Any, two: Any
) -> None:
    sent = ids(two) | {"content": "What I typed."}
    edit_note(two[0], by=alice.actor, content="Fares are fresh.")
    html = text_of(browser.post(PAGE, sent))
    assert "What I typed.</textarea>" in html
    assert "Fares are fresh." in html
    assert 'value="2"' in html


@pytest.mark.parametrize("asked", ["", "ids=x", "ids=%00", "ids=1,2,3"])
def test_without_two_notes_the_page_says_how_to_choose_them(browser: Client, asked: str) -> None:
    assert "Select at least 2 notes" in text_of(browser.get(f"{PAGE}?{asked}"))


def test_one_superseded_in_the_meantime_is_refused_with_a_reason(
    browser: Client, alice: Any, two: Any
) -> None:
    sent = ids(two) | {"content": "Both."}
    browser.post(PAGE, sent)
    again = sent | {f"version-{one.pk}": Note.objects.get(pk=one.pk).version for one in two}
    assert "was replaced" in text_of(browser.post(PAGE, again))


def test_what_is_anothers_is_neither_shown_nor_merged(
    client_of: Callable[[Any], Client], bob: Any, two: Any
) -> None:
    stranger = client_of(bob)
    assert "Fares are stale" not in text_of(stranger.get(PAGE, {"ids": [o.pk for o in two]}))
    assert "This note doesn’t exist" in text_of(
        stranger.post(PAGE, ids([*two, note(bob), note(bob, "B")]) | {"content": "Mine."})
    )
    assert stranger.post(undo_of("unmerge", two[0].pk)).status_code == 404


def test_there_is_nothing_to_take_back_of_a_note_that_replaced_none(
    browser: Client, two: Any
) -> None:
    response = browser.post(undo_of("unmerge", two[0].pk))
    assert response.status_code == 409


def test_the_page_takes_a_fixed_number_of_queries(
    browser: Client, alice: Any, django_assert_max_num_queries: Any
) -> None:
    many = [note(alice, f"Fare {number}.").pk for number in range(20)]
    with django_assert_max_num_queries(8):
        browser.get(PAGE, {"ids": many})
