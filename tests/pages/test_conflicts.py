"""Conflicts: both sides, what differs, and each way to resolve it."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from memory.models import Conflict, Note, TopicFact, User
from memory.services.notes import saving as notes
from memory.services.observations.saving import write_observation
from research.pages import inbox
from tests.memory.conflict_cast import NEW, OLD, facts, noted, observations, texts, two_notes
from tests.pages.record_cast import text_of
from tests.undo import undo_of

pytestmark = pytest.mark.django_db
DESK = reverse("research:inbox")


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


def resolve(browser: Client, one: Conflict, how: str, **more: Any) -> Any:
    sent = {"how": how, "left_version": 1, "right_version": 1, **more}
    return browser.post(reverse("memory:conflict-resolve", args=[one.pk]), sent)


def test_it_shows_both_sides_with_what_differs_and_where_they_come_from(
    browser: Client, alice: User
):
    facts(alice)
    page = browser.get(DESK).content.decode()

    assert "<del>89</del>" in page
    assert "<ins>74</ins>" in page
    assert 'href="https://cells.example/prices"' in page
    assert "Batteries" in page
    assert browser.get("/").context["to_decide"] == 1


def test_a_stranger_finds_nothing(alice: User, bob: User, client_of: Callable[[User], Client]):
    one = two_notes(alice)
    theirs = client_of(bob)

    assert theirs.get(one.get_absolute_url()).status_code == 404
    assert resolve(theirs, one, "left").status_code == 404
    assert Conflict.objects.open().count() == 1


def test_undo_brings_it_back(browser: Client, alice: User):
    one = two_notes(alice)
    resolve(browser, one, "right")
    assert texts(alice)["notes"] == [NEW]

    one.refresh_from_db()
    assert one.resolved_at is not None
    assert "<bdi>you</bdi>" in browser.get(one.get_absolute_url()).content.decode()
    browser.post(undo_of("conflicts-resolved", one.resolved_at.isoformat()))
    assert texts(alice)["notes"] == [NEW, OLD]


def test_a_side_that_changed_is_shown_again_and_what_was_typed_stays(browser: Client, alice: User):
    one = two_notes(alice)
    notes.edit_note(Note.objects.get(pk=one.right_id), content="Another price.", by=alice.actor)
    page = resolve(browser, one, "merged", text="My own words of both.").content.decode()

    assert "was changed after you opened" in page
    assert "My own words of both." in page
    assert "Another price." in page
    assert texts(alice)["notes"] == [OLD, "Another price."]


def test_a_merge_that_cannot_be_stored_keeps_what_was_typed(browser: Client, alice: User):
    page = resolve(browser, facts(alice), "merged", text="Too short").content.decode()

    assert "at least" in page
    assert "Too short" in page
    assert TopicFact.objects.current().count() == 2


@pytest.mark.parametrize(
    "sent",
    [
        {"how": "explode"},
        {"how": ""},
        {"how": "left", "left_version": "x" * 50},
        {"how": "left", "left_version": "²"},
        {"how": "left", "right_version": "99"},
    ],
)
def test_what_makes_no_sense_resolves_nothing(browser: Client, alice: User, sent: dict[str, str]):
    one = two_notes(alice)
    assert resolve(browser, one, sent.pop("how"), **sent).status_code == 200
    assert Conflict.objects.open().count() == 1


def test_resolved_in_another_window_what_was_typed_is_shown(browser: Client, alice: User):
    one = two_notes(alice)
    resolve(browser, one, "left")
    assert (
        "This text hasn’t been saved"
        in resolve(browser, one, "merged", text="Mine.").content.decode()
    )


def test_if_a_side_has_expired_what_was_typed_is_shown(browser: Client, alice: User):
    one = two_notes(alice)
    Note.objects.filter(pk=one.left_id).update(expires_at=timezone.now())
    page = resolve(browser, one, "merged", text="Both, in my words.")
    assert "Both, in my words." in page.content.decode()
    assert "no longer exists" in page.content.decode()


def test_the_list_is_narrowed_to_a_topic(browser: Client, alice: User):
    one = facts(alice)
    two_notes(alice, "near-duplicate")

    (group,) = browser.get(f"{DESK}?topic={one.topic_ids[0]}").context["groups"]
    assert [item.key for item in group["items"]] == [str(one.pk)]


def test_the_selected_or_all_of_a_filter_are_kept_both(browser: Client, alice: User):
    one, two = two_notes(alice), observations(alice)
    browser.post(reverse("memory:conflicts-bulk"), {"conflict": [str(one.pk), "nonsense"]})
    assert list(Conflict.objects.open()) == [two]
    browser.post(reverse("memory:conflicts-bulk") + "?kind=near-duplicate", {"all": "1"})
    assert list(Conflict.objects.open()) == [two]
    browser.post(reverse("memory:conflicts-bulk"), {"all": "1"})
    assert not Conflict.objects.open().exists()


def test_all_that_match_a_typed_filter_are_kept_both_and_no_others(
    browser: Client, alice: User, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(inbox, "PAGE", 1)
    two_notes(alice), observations(alice)
    other = two_notes(alice, "near-duplicate")

    page = text_of(browser.get(f"{DESK}?show=conflict&q=conflicts:contradiction"))
    assert "All matching conflicts" in page
    browser.post(_bulk_action(page), {"all": "1"})

    assert list(Conflict.objects.open()) == [other]


def _bulk_action(page: str) -> str:
    found = re.search(r'<form id="bulk" method="post" action="([^"]+)"', page)
    assert found is not None
    return unescape(found[1])


def test_look_now_finds_near_duplicates(browser: Client, alice: User):
    for end in ("", " indeed"):
        text = f"The supplier ships cells by sea from the port of Kobe{end}."
        notes.write_note(alice, "log", text, by=alice.actor)
    told = browser.post(reverse("memory:conflicts-scan"), follow=True).content.decode()
    assert "1 pair found." in told
    assert "Near-duplicate" in told


def test_its_queries_do_not_grow_with_its_rows(
    browser: Client, alice: User, django_assert_max_num_queries: DjangoAssertNumQueries
):
    facts(alice)
    for _each in range(4):
        two_notes(alice)
        observations_of(alice, _each)
    browser.get(DESK)
    with django_assert_max_num_queries(20):
        browser.get(f"{DESK}?show=conflict")
    with django_assert_max_num_queries(12):
        browser.get(Conflict.objects.open()[0].get_absolute_url())


def observations_of(owner: User, number: int) -> Conflict:
    left, right = (
        write_observation(owner, "finding", f"{text} {number}", by=owner.actor, source="run:9")
        for text in (OLD, NEW)
    )
    return noted(owner, left, right)
