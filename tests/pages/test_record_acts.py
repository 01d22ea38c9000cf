"""The acts on one record: each says what it did, can be undone, and is refused to strangers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import Note, Observation, Revision, ScratchpadEntry
from memory.services.notes.saving import edit_note
from memory.services.scratchpad import set_value
from memory.services.search.recall import recall
from tests.pages.record_cast import HTMX, days, note, observation, text_of
from tests.research.factories import make_fact, make_topic
from tests.undo import undo_of, undone

PANEL = {**HTMX, "HX-Target": "record-panel"}
ACTS = ("trash", "restore", "pin", "unpin", "lock", "unlock", "accept")


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


def act(record: Any, name: str) -> str:
    return reverse(f"memory:record-{name}", args=[record.record_type(), record.pk])


def undo_change(browser: Client, record: Any) -> None:
    """Undo the last act."""
    last = Revision.objects.filter(record_id=record.pk).latest("id")
    browser.post(undo_of("revision", last.pk))
    record.refresh_from_db()


def test_trash_and_undo(browser: Client, alice: Any) -> None:
    one = note(alice)
    page = browser.post(act(one, "trash"), follow=True)
    assert recall(alice, "stale fares") == []
    undone(browser, page)
    one.refresh_from_db()
    assert one.trashed_at is None
    assert [hit.id for hit in recall(alice, "stale fares")] == [one.pk]


def test_pinning_takes_the_expiry_away_says_so_and_undo_brings_it_back(
    browser: Client, alice: Any
) -> None:
    one = note(alice, stability="volatile", ttl_days=7, expires_at=days(7))
    expires = one.expires_at
    assert "no longer expires" in text_of(browser.post(act(one, "pin"), follow=True))
    one.refresh_from_db()
    assert (one.pinned, one.expires_at) == (True, None)
    undo_change(browser, one)
    assert not one.pinned
    assert abs(one.expires_at - expires) < timedelta(seconds=1)


@pytest.mark.parametrize("make", [note, observation])
def test_lock_and_unlock(browser: Client, alice: Any, make: Any) -> None:
    one = make(alice)
    browser.post(act(one, "lock"), {"lock": "append-only"})
    one.refresh_from_db()
    assert one.lock == "append-only"
    browser.post(act(one, "unlock"))
    one.refresh_from_db()
    assert one.lock == "open"


def test_a_lock_that_is_none_is_explained(browser: Client, alice: Any) -> None:
    response = browser.post(act(note(alice), "lock"), {"lock": "tight"})
    assert response.status_code == 409
    assert "“tight” isn’t a valid lock" in text_of(response)


def test_a_person_vouches_for_what_came_from_the_web_and_takes_it_back(
    browser: Client, alice: Any
) -> None:
    one = observation(alice, trust="external")
    browser.post(act(one, "accept"))
    one.refresh_from_db()
    assert one.trust == "owner"
    undo_change(browser, one)
    assert one.trust == "external"


def test_the_panel_is_answered_again(browser: Client, alice: Any) -> None:
    html = browser.post(act(note(alice), "pin"), headers=PANEL).content.decode()
    assert html.split("#}")[-1].lstrip().startswith('<section id="record-panel"')
    assert "Unpin" in html
    assert 'hx-swap-oob="beforeend:#toasts"' in html


def test_from_a_list_it_leads_back_to_it(browser: Client, alice: Any) -> None:
    here = reverse("memory:notes") + "?q=kind:log"
    response = browser.post(act(note(alice), "trash"), {"next": here})
    assert response.headers["Location"] == here


def test_it_leads_nowhere_else(browser: Client, alice: Any) -> None:
    one = note(alice)
    response = browser.post(act(one, "pin"), {"next": "https://example.org/"})
    assert response.headers["Location"] == one.get_absolute_url()


def test_the_soul_is_not_trashed_and_it_says_what_to_do(browser: Client, alice: Any) -> None:
    soul = Note.objects.for_user(alice).get(kind="soul", superseded_by=None)
    response = browser.post(act(soul, "trash"))
    assert response.status_code == 409
    assert "under Agents or Settings" in text_of(response)


def test_scratchpad_entries_and_facts_move_by_the_same_acts(browser: Client, alice: Any) -> None:
    set_value(alice, "next", "ask", by=alice.actor)
    fact = make_fact(make_topic(alice, "Fares"), "Fares are stale at the desk.")
    for one in (ScratchpadEntry.objects.get(), fact):
        browser.post(act(one, "trash"))
        one.refresh_from_db()
        assert one.trashed_at is not None
        browser.post(act(one, "restore"))
        one.refresh_from_db()
        assert one.trashed_at is None


@pytest.mark.parametrize("name", ACTS)
def test_what_is_anothers_is_left_alone(
    client_of: Callable[[Any], Client], alice: Any, bob: Any, name: str
) -> None:
    one = note(alice)
    assert client_of(bob).post(act(one, name)).status_code == 404
    one.refresh_from_db()
    assert one.version == 1


def test_a_record_of_no_kind_is_not_there(browser: Client, alice: Any) -> None:
    one = note(alice)
    for kind in ("user", "poem", "observation", "topic"):
        address = reverse("memory:record-trash", args=[kind, one.pk])
        assert browser.post(address).status_code == 404


def test_an_act_is_never_done_by_looking(browser: Client, alice: Any) -> None:
    assert browser.get(act(note(alice), "trash")).status_code == 405


def test_an_act_takes_few_queries(
    browser: Client, alice: Any, django_assert_max_num_queries: Any
) -> None:
    one = note(alice)
    with django_assert_max_num_queries(14):
        browser.post(act(one, "pin"))


# --- versions -------------------------------------------------------------------------------------


def version(record: Any, number: int) -> Revision:
    return Revision.objects.get(record_id=record.pk, version=number)


def restore(record: Any, number: int) -> str:
    args = [record.record_type(), record.pk, version(record, number).pk]
    return reverse("memory:record-restore-revision", args=args)


def test_a_restored_version_is_a_new_one_found_by_its_words_at_once(
    browser: Client, alice: Any
) -> None:
    one = note(alice, "Fares are stale.", tags=["air"])
    edit_note(one, by=alice.actor, content="Prices have ripened.", tags=[])
    browser.post(restore(one, 1))
    one.refresh_from_db()
    assert (one.content, one.tags, one.version) == ("Fares are stale.", ["air"], 3)
    assert [hit.id for hit in recall(alice, "stale fares")] == [one.pk]
    assert recall(alice, "ripened prices") == []


def test_a_restored_observation_keeps_knowing_the_same_again(browser: Client, alice: Any) -> None:
    one = observation(alice, "A cell costs 89 dollars.")
    one.change(by=alice.actor, content="A cell is cheap.", digest=Observation.digest_of("x"))
    browser.post(restore(one, 1))
    one.refresh_from_db()
    assert one.digest == Observation.digest_of("A cell costs 89 dollars.")


def test_a_version_of_another_record_is_not_restored(browser: Client, alice: Any) -> None:
    one, other = note(alice), note(alice, "Other.")
    args = ["note", one.pk, version(other, 1).pk]
    assert browser.post(reverse("memory:record-restore-revision", args=args)).status_code == 404


def test_a_stranger_restores_nothing(
    client_of: Callable[[Any], Client], alice: Any, bob: Any
) -> None:
    one = note(alice)
    edit_note(one, by=alice.actor, content="Prices have ripened.")
    assert client_of(bob).post(restore(one, 1)).status_code == 404


# --- for good -------------------------------------------------------------------------------------


def purge(record: Any) -> str:
    return reverse("memory:record-purge", args=[record.record_type(), record.pk])


def test_only_the_typed_name_deletes_permanently(browser: Client, alice: Any) -> None:
    one = note(alice, "Fares are stale at the desk.")
    one.trash(by=alice.actor)
    html = text_of(browser.post(purge(one), {"name": "fares"}, headers=HTMX))
    assert "That doesn’t match. Type “Fares are stale at” to confirm." in html
    browser.post(purge(one), {"name": "Fares are stale at"})
    assert not Note.objects.filter(pk=one.pk).exists()
    assert not Revision.objects.filter(record_id=one.pk).exists()


def test_what_is_not_in_the_trash_is_not_deleted_permanently(browser: Client, alice: Any) -> None:
    one = note(alice)
    assert "This record isn’t in Trash." in text_of(browser.get(purge(one)))
    browser.post(purge(one), {"name": "Fares are stale."})
    assert Note.objects.filter(pk=one.pk).exists()


def test_a_stranger_deletes_nothing_permanently(
    client_of: Callable[[Any], Client], alice: Any, bob: Any
) -> None:
    one = note(alice)
    one.trash(by=alice.actor)
    assert client_of(bob).post(purge(one), {"name": "Fares are stale."}).status_code == 404


def test_the_question_takes_few_queries(
    browser: Client, alice: Any, django_assert_max_num_queries: Any
) -> None:
    one = note(alice)
    with django_assert_max_num_queries(22):  # it looks for copies in every kind of record
        browser.get(purge(one))
