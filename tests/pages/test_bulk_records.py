"""Bulk actions on selected or all matching records, on the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client

from memory.models import BulkAction, Note
from memory.pages.records import bulk
from tests.pages.record_cast import HTMX, days, note, observation, text_of
from tests.undo import undo_of, undone

URL = "/records/notes/bulk/"
ClientOf = Callable[[Any], Client]


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr("beacon_site.celery.send", lambda *args, **kwargs: found.append(args))
    return found


@pytest.fixture
def browser(client_of: ClientOf, alice: Any) -> Client:
    Note.objects.for_user(alice).delete()
    return client_of(alice)


def said(answer: Any) -> list[Any]:
    return list(get_messages(answer.wsgi_request))


def test_the_selected_are_changed_and_the_filters_stay(browser: Client, alice: Any):
    first, second = note(alice, "One"), note(alice, "Two")

    answer = browser.post(f"{URL}?q=kind%3Alog&sort=oldest", {"record": first.pk, "act": "pin"})

    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.pinned, second.pinned) == (True, False)
    assert answer["Location"] == "/notes/?q=kind%3Alog&sort=oldest"
    assert str(said(answer)[0]) == "Pinned 1 record."


@pytest.mark.parametrize(
    ("act", "more"),
    [("pin", {}), ("tag", {"tag": "x"}), ("untag", {"tag": "old"}), ("trash", {}),
     ("lock", {"lock": "append-only"}), ("unpin", {}), ("unlock", {})],
)  # fmt: skip
def test_every_act_is_undone_by_its_toast(
    browser: Client, alice: Any, act: str, more: dict[str, str]
):
    lock = "read-only" if act == "unlock" else "open"
    made = note(alice, tags=["old"], pinned=act == "unpin", lock=lock)
    fields = ("tags", "pinned", "lock", "trashed_at")
    before = made.snapshot(*fields)
    answer = browser.post(URL, {"record": made.pk, "act": act, **more}, follow=True)
    made.refresh_from_db()
    assert made.snapshot(*fields) != before

    undone(browser, answer)

    made.refresh_from_db()
    assert made.snapshot(*fields) == before
    assert made.version == 3


def test_all_that_match_are_meant_and_no_others(browser: Client, alice: Any):
    for number in range(60):
        note(alice, f"Fares {number}")
    other = note(alice, "Trains")

    browser.post(f"{URL}?q=fares", {"all": "1", "act": "trash"})

    assert list(Note.objects.for_user(alice).live()) == [other]


def test_in_the_order_by_expiry_all_are_those_that_expire(browser: Client, alice: Any):
    kept = note(alice, "Kept")
    note(alice, "Soon over", stability="volatile", ttl_days=2, expires_at=days(2))

    assert "1 note<" in text_of(browser.get("/notes/?sort=expires"))
    browser.post(f"{URL}?sort=expires", {"all": "1", "act": "trash"})

    assert list(Note.objects.for_user(alice).live()) == [kept]


def test_the_page_offers_all_that_match_in_a_box_of_its_own(browser: Client, alice: Any):
    for number in range(60):
        note(alice, f"Fares {number}")

    page = text_of(browser.get("/notes/?q=fares"))

    assert "Select all 60 matches" in page
    assert "Select this page" in page
    assert f'action="{URL}?q=fares"' in page


def test_more_than_a_thousand_are_a_task_that_shows_how_far_it_is(
    browser: Client,
    alice: Any,
    sent: list[tuple[Any, ...]],
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
):
    monkeypatch.setattr(bulk, "AT_ONCE", 3)
    monkeypatch.setattr(bulk, "BATCH", 2)
    for number in range(5):
        note(alice, f"Fares {number}")

    with django_capture_on_commit_callbacks(execute=True):
        browser.post(f"{URL}?q=fares", {"all": "1", "act": "trash"})

    act = BulkAction.objects.get()
    assert sent == [("memory.tasks.run_bulk_action", str(act.pk))]
    assert "waiting to start" in text_of(browser.get("/notes/"))
    bulk.run_bulk_action(act.pk, seconds=0)
    half = text_of(browser.get(f"/bulk/{act.pk}/", headers=HTMX))
    assert "2 of 5" in half
    assert "every 2s" in half
    bulk.run_bulk_action(act.pk)
    whole = text_of(browser.get(f"/bulk/{act.pk}/", headers=HTMX))
    assert "Moved 5 records to Trash." in whole
    assert undo_of("bulk", act.pk) in whole
    assert "every 2s" not in whole


def test_a_stranger_changes_and_sees_nothing(client_of: ClientOf, alice: Any, bob: Any):
    made = note(alice)
    act = bulk.ask(alice, "notes", "pin", ids=[made.pk])

    client_of(bob).post(URL, {"record": made.pk, "act": "trash"})

    made.refresh_from_db()
    assert made.trashed_at is None
    assert client_of(bob).get(f"/bulk/{act.pk}/", headers=HTMX).status_code == 404
    assert client_of(bob).post(undo_of("bulk", act.pk)).status_code == 404


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"act": "pin"}, "Select at least one record"),
        ({"act": "pin", "record": "no-key"}, "Select at least one record"),
        ({"act": "burn", "all": "1"}, "isn’t available for this list"),
        ({"act": "tag", "all": "1", "tag": " "}, "Enter a tag"),
        ({"act": "merge", "all": "1"}, "Select 2 to 20 notes to merge (currently 0)"),
        ({}, "isn’t available for this list"),
    ],
)
def test_what_cannot_be_done_is_explained(browser: Client, data: dict[str, str], words: str):
    answer = browser.post(URL, data)

    assert answer.status_code == 302
    assert words in str(said(answer)[0])


def test_an_unknown_list_is_not_there(browser: Client):
    assert browser.post("/records/poems/bulk/", {"act": "pin"}).status_code == 404


def test_two_selected_notes_go_to_the_page_that_merges_them(browser: Client, alice: Any):
    keys = [note(alice, "One").pk, note(alice, "Two").pk]

    answer = browser.post(URL, {"record": keys, "act": "merge"})

    assert answer["Location"].endswith(f"?ids={keys[0]}&ids={keys[1]}")


def test_observations_are_put_in_another_category(browser: Client, alice: Any):
    made = observation(alice)

    data = {"record": made.pk, "act": "categorise", "category": "lesson"}
    browser.post("/records/observations/bulk/", data)

    made.refresh_from_db()
    assert made.category == "lesson"


def test_a_bulk_act_takes_a_fixed_number_of_queries(
    browser: Client, alice: Any, django_assert_max_num_queries: Any
):
    keys = [note(alice, f"Note {number}").pk for number in range(50)]

    with django_assert_max_num_queries(40):
        browser.post(URL, {"record": keys, "act": "pin"})
