"""Trying extraction: nothing is stored before a person selects it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import Observation, User
from memory.services.observations.extraction import MAX, MAX_LINE_LENGTH
from memory.services.observations.saving import write_observation
from tests.pages.record_cast import text_of
from tests.research.factories import make_topic
from tests.undo import undone

EXTRACT = reverse("memory:extract")
FACT = "The night train to Vienna costs 89 euros in the winter timetable."
LESSON = "We learned that seats must be booked at least six weeks ahead."
TEXT = f"{FACT} {LESSON} How are you?"


@pytest.fixture
def browser(client_of: Callable[[Any], Client], alice: User) -> Client:
    return client_of(alice)


def sent(*items: tuple[str, str, bool], **more: str) -> dict[str, str]:
    data = {"do": "save", "text": TEXT} | more
    for n, (content, category, is_kept) in enumerate(items):
        data |= {f"content-{n}": content, f"category-{n}": category}
        data |= {f"keep-{n}": "1"} if is_kept else {}
    return data


@pytest.mark.requirement("R378")
def test_it_shows_what_would_be_stored_and_stores_nothing(browser: Client, alice: User) -> None:
    page = browser.post(EXTRACT, {"do": "find", "text": TEXT})

    shown = text_of(page)
    assert [(one["content"], one["category"], one["is_kept"]) for one in page.context["items"]] == [
        (FACT, "finding", True),
        (LESSON, "lesson", True),
    ]
    assert shown.count(" checked") == 2
    assert TEXT in shown  # and the text stays
    assert not Observation.objects.exists()


@pytest.mark.requirement("R378")
def test_what_is_selected_is_stored_as_corrected_and_undo_takes_it_back(
    browser: Client, alice: User
) -> None:
    topic = make_topic(alice)
    items = [(FACT, "insight", True), (LESSON, "lesson", False), ("My own line.", "finding", True)]

    page = browser.post(EXTRACT, sent(*items, topic=topic.slug), follow=True)

    rows = Observation.objects.for_user(alice).live()
    stored = sorted(rows.values_list("content", "category", "topic_id", "trust", "source"))
    assert stored == [
        ("My own line.", "finding", topic.pk, "owner", "human:alice"),
        (FACT, "insight", topic.pk, "owner", "human:alice"),
    ]
    assert "Saved 2 observations." in text_of(page)
    undone(browser, page)
    assert not rows.exists()


def test_undo_leaves_what_changed_since_then(browser: Client, alice: User) -> None:
    page = browser.post(EXTRACT, sent((FACT, "finding", True)), follow=True)
    Observation.objects.for_user(alice).get().change(by=alice.actor, content="Corrected.")

    refused = undone(browser, page)

    assert refused.status_code == 409
    assert "nothing left to undo" in text_of(refused)
    assert Observation.objects.for_user(alice).live().exists()


def test_what_is_known_is_named_and_not_selected(browser: Client, alice: User) -> None:
    known = write_observation(alice, "finding", FACT, by=alice.actor)

    page = browser.post(EXTRACT, {"do": "find", "text": TEXT}, headers=HTMX_HEADERS)

    assert [one["is_kept"] for one in page.context["items"]] == [False, True]
    assert f'Already stored: <a href="{known.get_absolute_url()}"' in text_of(page)
    assert "<html" not in text_of(page)


HTMX_HEADERS = {"HX-Request": "true"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"do": "find", "text": "Too short."}, "Enter at least 50 characters"),
        (sent((FACT, "finding", False)), "Select at least one observation"),
        (sent((FACT, "rumour", True)), "rumour"),
        (sent(("x" * 200_000, "finding", True)), "65,536"),
        (sent(("My key is sk-ant-api03-" + "a1B2" * 24, "finding", True)), "secret"),
    ],
)
def test_what_cannot_be_stored_is_explained_and_nothing_typed_is_lost(
    browser: Client, data: dict[str, str], words: str
) -> None:
    page = browser.post(EXTRACT, data)

    assert page.status_code == 200
    assert words in text_of(page)
    assert data["text"] in text_of(page)
    assert all(value in page.content.decode() for name, value in data.items() if "content" in name)
    assert not Observation.objects.exists()


def test_a_long_text_is_cut_and_that_is_explained(browser: Client) -> None:
    page = browser.post(EXTRACT, {"do": "find", "text": f"{FACT} " * (MAX // len(FACT) + 1)})

    assert "searched only part of the text" in text_of(page)
    assert len(page.context["items"]) == 1
    assert len(FACT) < MAX_LINE_LENGTH


def test_another_persons_topic_is_not_used(browser: Client, alice: User, bob: User) -> None:
    topic = make_topic(bob)

    browser.post(EXTRACT, sent((FACT, "finding", True), topic=topic.slug))

    assert Observation.objects.for_user(alice).get().topic is None
