"""Agents → Permissions: how good each writer was, and the review rules that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.models import Note, Proposal, ReviewLevel, Trust, User
from memory.models.actors import Actor
from memory.services.review import proposals as reviewing
from memory.services.review import trust
from memory.services.review.proposals import set_levels
from tests.memory.review_cast import AGENT, held, proposed_file, proposed_note
from tests.pages.record_cast import text_of
from tests.undo import undone

PAGE = reverse("memory:review-levels")
WRITER = reverse("memory:writer-level")
NOTES = {"writer": str(AGENT), "kind": "note", "level": "accept"}


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Suggest rules after 5 decisions, which takes less time than 20."""
    monkeypatch.setattr(trust, "MIN_DECIDED", 5)


def accepted(owner: User, number: int, *, days_ago: int = 0) -> None:
    """Let the owner accept so many notes of an agent, the first ones some days ago."""
    at = timezone.now() - timedelta(days=days_ago)
    for each in range(number):
        proposal = proposed_note(owner, f"Fares rise on day {each}, {days_ago}.")
        reviewing.accept(proposal, by=owner.actor, at=at)


def record(browser: Client, kind: str = "note") -> Any:
    return next(one for one in browser.get(PAGE).context["records"] if one.kind == kind)


def test_each_writer_has_its_record(browser: Client, alice: User):
    accepted(alice, 4)
    edited = proposed_note(alice, "Fares rise on Mondays.")
    reviewing.accept(edited, by=alice.actor, after={"content": "Fares rise on Sundays."})
    reviewing.reject(proposed_note(alice, "Buy now."), by=alice.actor)
    proposed_note(alice, "It waits.")
    proposed_file(alice, "- a line")
    results = Proposal.objects.exclude(result_id=None).order_by("created")
    first, second = (Note.objects.get(pk=one.result_id) for one in results[:2])
    first.trash(by=alice.actor)
    second.change(by=alice.actor, content="Fares fall.")

    one = record(browser)

    assert (one.name, one.accepted, one.edited) == ("desk", 4, 1)
    assert (one.rejected, one.waiting, one.wrong, one.right) == (1, 1, 2, 2)
    assert record(browser, "file").waiting == 1
    assert "desk" in text_of(browser.get(PAGE))


def test_a_note_that_was_restored_or_only_pinned_is_not_wrong(browser: Client, alice: User):
    accepted(alice, 2)
    trashed, pinned = Note.objects.filter(kind="log")
    pinned.change(by=alice.actor, pinned=True)
    trashed.change(by=AGENT, content="Fares rise on workdays.")

    assert record(browser).wrong == 0


def test_after_two_weeks_and_enough_decisions_a_rule_is_suggested(browser: Client, alice: User):
    accepted(alice, trust.MIN_DECIDED, days_ago=15)
    accepted(alice, 1)

    page = browser.get(PAGE)

    assert (
        "21 of 21 notes from desk were correct. Save this agent’s future notes without approval?"
        in text_of(page)
    )


@pytest.mark.parametrize(("number", "days"), [(19, 15), (21, 13)])
def test_too_few_decisions_or_days_suggest_nothing(
    browser: Client, alice: User, number: int, days: int
):
    accepted(alice, number, days_ago=days)
    assert not record(browser).is_suggested


def test_a_writer_that_is_often_wrong_is_not_suggested(
    browser: Client, alice: User, few_are_enough: None
):
    accepted(alice, 5, days_ago=15)
    assert record(browser).is_suggested
    reviewing.reject(proposed_note(alice, "Buy now."), by=alice.actor)
    assert not record(browser).is_suggested


@pytest.mark.requirement("R265")
def test_one_button_changes_the_rule_of_that_writer_alone(
    browser: Client, alice: User, few_are_enough: None
):
    accepted(alice, 6, days_ago=15)
    assert "Save this agent’s future notes without approval?" in text_of(browser.get(PAGE))
    set_levels(alice, {"default": "hold all"}, by=alice.actor)

    page = browser.post(WRITER, NOTES, follow=True)

    assert "Notes by desk now are saved immediately." in text_of(page)
    assert held(alice) == ""
    assert held(alice, by=Actor("agent", "cursor"))
    assert held(alice, "observation")
    assert held(alice, trust=Trust.QUARANTINED)
    assert "Save this agent’s future notes without approval?" not in text_of(browser.get(PAGE))
    undone(browser, page)
    assert held(alice)
    assert not ReviewLevel.objects.exclude(writer="").exists()


def test_an_exception_is_listed_and_can_be_removed(browser: Client, alice: User):
    accepted(alice, 1)
    browser.post(WRITER, NOTES)
    assert "Notes are saved immediately" in text_of(browser.get(PAGE))

    page = browser.post(WRITER, {**NOTES, "level": ""}, follow=True)

    assert "Notes by desk follow the general rules again." in text_of(page)
    assert not ReviewLevel.objects.exists()


def test_over_htmx_the_page_is_swapped_in_place(browser: Client, alice: User):
    accepted(alice, 1)
    html = browser.post(WRITER, NOTES, headers={"HX-Request": "true"}).content.decode()
    assert html.lstrip().startswith('<div id="review_levels"')
    assert "now are saved immediately" in html


@pytest.mark.parametrize(
    "sent",
    [
        {**NOTES, "writer": "human:alice"},
        {**NOTES, "writer": "agent:nobody"},
        {**NOTES, "writer": ""},
        {**NOTES, "kind": "everything"},
        {**NOTES, "level": "always"},
        {},
    ],
)
def test_a_rule_that_cannot_be_is_refused(browser: Client, alice: User, sent: dict[str, str]):
    accepted(alice, 1)
    assert browser.post(WRITER, sent).status_code in (404, 409)
    assert not ReviewLevel.objects.exists()


def test_a_stranger_neither_sees_nor_sets(
    alice: User, bob: User, client_of: Callable[[User], Client]
):
    accepted(alice, 1)
    stranger = client_of(bob)
    assert "desk" not in text_of(stranger.get(PAGE))
    assert stranger.post(WRITER, NOTES).status_code == 404


def test_the_number_of_queries_does_not_grow_with_writers(
    browser: Client, alice: User, django_assert_max_num_queries: Any
):
    for number in range(12):
        Proposal.objects.create(
            owner=alice, actor=f"agent:{number}", record_type="note", after={"kind": "log"}
        )
        set_levels(alice, {"note": "accept"}, by=alice.actor, writer=f"agent:{number}")
    with django_assert_max_num_queries(14):
        browser.get(PAGE)
