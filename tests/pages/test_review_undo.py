"""Undoing one or many accepted proposals as a whole; a late undo loses no text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.models import MemoryFile, Note, Observation, Proposal, User
from memory.services.context import identity
from memory.services.files.reading import read_file
from memory.services.files.saving import append_to, save_file
from memory.services.notes import saving as notes
from memory.services.review import proposals as review_services
from tests.memory.review_cast import AGENT, MEMORY, proposed_file, proposed_note
from tests.pages.record_cast import text_of
from tests.undo import undo_in, undone

LIST = reverse("research:inbox")
BULK = reverse("memory:review-bulk")


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


def accept_url(proposal: Proposal) -> str:
    return reverse("memory:proposal-accept", args=[proposal.pk])


def test_many_accepted_at_once_are_undone_by_one_undo(browser: Client, alice: User):
    before = read_file(alice, MEMORY).content
    for line in ("- by sea", "- by rail"):
        proposed_file(alice, line)
    old = notes.write_note(alice, "log", "Fares fall.", by=AGENT)
    review_services.hold(
        alice, "note", by=AGENT, source="run:1", before={"content": old.content}, why="", held="x",
        after={"kind": "log", "content": "Fares rise."}, target_id=old.pk, version_seen=1,
    )  # fmt: skip

    page = browser.post(BULK, {"act": "accept", "all": "1"}, follow=True)
    assert "by rail" in read_file(alice, MEMORY).content
    shown = text_of(undone(browser, page))

    assert "3 proposals reopened." in shown
    assert read_file(alice, MEMORY).content == before
    assert [note.content for note in Note.objects.for_user(alice).active().filter(kind="log")] == [
        "Fares fall."
    ]
    assert review_services.waiting(alice).count() == 3


def test_a_batch_of_observations_is_undone_whole(browser: Client, alice: User):
    lines = [{"category": "finding", "content": text} for text in ("One.", "Two.", "Three.")]
    proposal = review_services.hold(
        alice, "observation", by=AGENT, source="run:3", before={}, after={"lines": lines},
        why="", held="risky",
    )  # fmt: skip
    undone(browser, browser.post(accept_url(proposal), {"next": LIST}, follow=True))

    assert not Observation.objects.for_user(alice).live().exists()
    assert review_services.waiting(alice).get() == proposal


def test_what_was_changed_since_is_not_undone_and_that_is_explained(browser: Client, alice: User):
    page = browser.post(accept_url(proposed_file(alice, "- by sea")), {"next": LIST}, follow=True)
    append_to(alice, MEMORY, "- and by rail", by=alice.actor)

    shown = text_of(undone(browser, page))

    assert "has changed since then" in shown
    assert "- by sea" in read_file(alice, MEMORY).content
    assert Proposal.objects.get().state == "accepted"


def test_undo_pressed_twice_takes_back_once(browser: Client, alice: User):
    page = browser.post(accept_url(proposed_note(alice)), {"next": LIST}, follow=True)
    undone(browser, page)

    assert "nothing left to undo" in text_of(undone(browser, page))
    assert review_services.waiting(alice).count() == 1


def test_a_newer_soul_is_not_pushed_aside_by_undo(browser: Client, alice: User):
    old: Any = identity.active(alice, "soul")
    proposal = review_services.hold(
        alice, "soul", by=AGENT, source="session:1", before={"content": old.content}, why="",
        after={"kind": "soul", "content": "Be brief."}, held="x", target_id=old.pk,
    )  # fmt: skip
    page = browser.post(accept_url(proposal), {"next": LIST}, follow=True)
    identity.write_soul(alice, "Be gentle.", by=alice.actor)

    assert "There’s a newer" in text_of(undone(browser, page))
    assert identity.active(alice, "soul").content == "Be gentle."  # type: ignore[union-attr]


def test_a_decided_proposal_offers_to_take_back_what_it_wrote(browser: Client, alice: User):
    proposal = proposed_note(alice)
    browser.post(accept_url(proposal))

    assert "Undo and reopen" in text_of(browser.get(proposal.get_absolute_url()))


# --- too late -------------------------------------------------------------------------------------


@pytest.mark.parametrize("became", ["accepted", "expired"])
def test_what_was_typed_stays_in_sight_where_it_comes_too_late(
    browser: Client, alice: User, became: str
):
    proposal = proposed_note(alice)
    if became == "expired":
        late = timezone.now() - timedelta(seconds=1)
        Proposal.objects.filter(pk=proposal.pk).update(expires_at=late)
    else:
        review_services.accept(Proposal.objects.get(pk=proposal.pk), by=alice.actor)

    page = browser.post(accept_url(proposal), {"edit": "1", "content": "My own words on fares."})

    assert page.status_code == 200
    assert became in text_of(page)
    assert "My own words on fares." in text_of(page)


def test_the_selected_sent_twice_are_said_to_be_decided(browser: Client, alice: User):
    data = {"act": "accept", "proposal": [str(proposed_note(alice).pk)]}
    browser.post(BULK, data)

    assert "have already been decided" in text_of(browser.post(BULK, data, follow=True))


def test_a_form_without_its_text_empties_no_file(browser: Client, alice: User):
    save_file(alice, MEMORY, "# Memory\n\n- Port: Kobe\n", by=AGENT)
    browser.post(accept_url(proposed_file(alice, "- by sea")), {"edit": "1"})

    content = read_file(alice, MEMORY).content
    assert "- Port: Kobe" in content
    assert "- by sea" in content


def test_a_month_in_the_trash_is_named_as_what_to_do_first(browser: Client, alice: User):
    month = "episodes/2026-02.md"
    append_to(alice, month, "## Tokyo\n- Summary: fares", by=AGENT)
    proposal = proposed_file(alice, "- Lesson: stale", month)
    read_file(alice, month).trash(by=alice.actor)

    assert "is in Trash. Restore the file first" in text_of(browser.post(accept_url(proposal)))
    MemoryFile.objects.for_user(alice).at(month).get().restore(by=alice.actor)
    browser.post(accept_url(proposal))
    assert "- Lesson: stale" in read_file(alice, month).content


def test_the_address_of_undo_is_no_one_elses(browser: Client, alice: User, bob: User):
    page = browser.post(accept_url(proposed_note(alice)), {"next": LIST}, follow=True)
    browser.force_login(bob)
    assert browser.post(undo_in(page)).status_code == 404

    assert Proposal.objects.get().state == "accepted"
    assert browser.get(reverse("research:inbox")).status_code == 200
