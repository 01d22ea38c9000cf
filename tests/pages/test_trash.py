"""Trash: everything that was deleted, of every kind, restored or deleted permanently."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.models import Activity, LibraryDocument, Note, Revision, Topic, User
from memory.models.actors import MAINTENANCE
from memory.models.remembered import TRASH_DAYS
from memory.services import scratchpad
from memory.services.library import documents as library_services
from memory.services.records import trash as trash_listing
from memory.tasks import empty_trash
from research.services.runs import trash as run_trash
from tests.research.factories import make_run, make_second_run, make_topic
from tests.undo import undo_in, undone

HTMX = {"HX-Request": "true", "HX-Target": "trash"}
TRASH, EMPTY = reverse("memory:trash"), reverse("memory:trash-empty")


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


def make_note(owner: User, content: str = "A note put away") -> Note:
    note = Note.objects.create(owner=owner, content=content)
    Revision.record_first([note], by=owner.actor)
    return note


def trashed_note(owner: User, content: str = "A note put away") -> Note:
    note = make_note(owner, content)
    note.trash(by=owner.actor)
    return note


def test_everything_trashed_is_listed_with_its_last_day(browser: Client, alice: User):
    note = trashed_note(alice)
    make_topic(alice, "A topic put away").trash(by=alice.actor)
    scratchpad.set_value(alice, "plan/next", "x", by=alice.actor).trash(by=alice.actor)
    library_services.add_document(alice, text="# A paper\n\nWords.", by=alice.actor).trash(
        by=alice.actor
    )

    rows = {row.label: row for row in browser.get(TRASH).context["rows"]}

    assert set(rows) == {"A note put away", "A topic put away", "plan/next", "A paper"}
    assert rows["A note put away"].actor == "you"
    assert note.trashed_at is not None
    assert rows["A note put away"].purge_at == note.trashed_at + timedelta(days=TRASH_DAYS)


def test_one_kind_can_be_checked_by_itself(browser: Client, alice: User):
    trashed_note(alice)
    make_topic(alice, "A topic put away").trash(by=alice.actor)
    html = browser.get(TRASH, {"type": "note"}, headers=HTMX).content.decode()
    assert html.lstrip().startswith('<section id="trash"')
    assert "A note put away" in html
    assert "A topic put away" not in html


def test_an_empty_trash_says_what_comes_there(browser: Client):
    assert "Trash is empty" in browser.get(TRASH).content.decode()
    assert "already empty" in browser.get(EMPTY).content.decode()


def test_a_record_comes_back_and_that_can_be_undone(browser: Client, alice: User):
    note = trashed_note(alice)
    page = browser.post(
        reverse("memory:record-restore", args=["note", note.pk]), {"next": TRASH}, follow=True
    )
    note.refresh_from_db()
    assert note.trashed_at is None
    assert "Undo" in page.content.decode()


def test_a_topic_whose_name_is_taken_is_restored_under_another_and_it_is_explained(
    browser: Client, alice: User
):
    topic = make_topic(alice, "Batteries")
    topic.trash(by=alice.actor)
    make_topic(alice, "Batteries")
    restore = reverse("memory:record-restore", args=["topic", topic.pk])
    page = browser.post(restore, {"next": TRASH}, follow=True).content.decode()
    assert "it was restored as “Batteries (2)”" in page
    topic.refresh_from_db()
    assert topic.trashed_at is None


def test_a_stranger_sees_and_moves_nothing(
    alice: User, bob: User, client_of: Callable[[User], Client]
):
    note, bobs = trashed_note(alice), client_of(bob)
    assert b"A note put away" not in bobs.get(TRASH).content
    bobs.post(EMPTY, {"word": trash_listing.word()})
    assert bobs.post(reverse("memory:record-restore", args=["note", note.pk])).status_code == 404
    assert Note.objects.in_trash().filter(pk=note.pk).exists()


@pytest.mark.parametrize("asked", ["type=%00", "type=nothing", "cursor=x", "cursor=W10"])
def test_what_cannot_be_asked_isnt_an_error(browser: Client, alice: User, asked: str):
    trashed_note(alice)
    assert b"A note put away" in browser.get(f"{TRASH}?{asked}").content


def test_pages_follow_each_other_without_gaps(browser: Client, alice: User):
    for number in range(60):
        trashed_note(alice, f"Note {number}")
    seen: list[Any] = []
    cursor: str | None = ""
    while cursor is not None:
        page = browser.get(TRASH, {"cursor": cursor}).context
        seen += [row.label for row in page["rows"]]
        cursor = page["next_cursor"]
    assert seen == [f"Note {number}" for number in reversed(range(60))]


def test_the_page_takes_a_fixed_number_of_queries(
    browser: Client, alice: User, django_assert_max_num_queries: Any
):
    for number in range(20):
        trashed_note(alice, f"Note {number}")
    make_topic(alice, "A topic put away").trash(by=alice.actor)
    run = make_second_run(make_topic(alice, "Batteries"))
    run_trash.trash_run(run.report, by=alice.actor)
    library_services.add_document(alice, text="# A paper", by=alice.actor).trash(by=alice.actor)
    with django_assert_max_num_queries(12):
        browser.get(TRASH)


# --- emptying it ----------------------------------------------------------------------------------


def test_the_trash_is_emptied_by_its_word_and_nothing_else_goes(browser: Client, alice: User):
    trashed_note(alice)
    kept = make_note(alice, "A note that stays")
    topic = make_topic(alice, "A topic put away")
    make_run(topic)
    topic.trash(by=alice.actor)

    page = browser.post(EMPTY, {"word": "Empty"}, follow=True)

    assert "2 records deleted permanently" in page.content.decode()
    assert not Note.objects.for_user(alice).in_trash().exists()
    assert not Topic.objects.for_user(alice).exists()
    assert Note.objects.filter(pk=kept.pk).exists()


def test_another_word_empties_nothing_and_is_kept(browser: Client, alice: User):
    note = trashed_note(alice)
    html = browser.post(EMPTY, {"word": "yes"}, headers={"HX-Request": "true"}).content.decode()
    assert html.lstrip().startswith('<form id="trash_empty"')
    assert "That doesn’t match" in html
    assert 'value="yes"' in html
    assert Note.objects.filter(pk=note.pk).exists()


def test_a_note_that_another_needs_goes_after_it(alice: User):
    old, new = make_note(alice, "Old words"), make_note(alice, "New words")
    old.change(by=alice.actor, superseded_by_id=new.pk)
    for note in (new, old):
        note.trash(by=alice.actor)
    done = trash_listing.empty(trash_listing.trashed(alice), typed="empty", by=alice.actor)
    assert (done["gone"], done["kept"]) == (2, 0)


def test_what_there_is_no_time_for_waits_and_is_counted(alice: User):
    trashed_note(alice)
    done = trash_listing.empty(
        trash_listing.trashed(alice), typed="empty", by=alice.actor, seconds=-1
    )
    assert (done["gone"], done["left"]) == (0, 1)


def test_a_file_of_the_watched_folder_is_not_the_persons_to_empty(alice: User, browser: Client):
    document = LibraryDocument(owner=alice, title="A file", text="x", path="a.md")
    LibraryDocument.objects.add([document], by=alice.actor)
    document.trash(by=alice.actor)
    assert b"A file" not in browser.get(TRASH).content
    assert (
        trash_listing.empty(trash_listing.trashed(alice), typed="empty", by=alice.actor)["gone"]
        == 0
    )


def test_only_what_is_older_goes_when_that_is_chosen(browser: Client, alice: User):
    old, young = trashed_note(alice, "Old"), trashed_note(alice, "Young")
    Note.objects.filter(pk=old.pk).update(trashed_at=timezone.now() - timedelta(days=15))
    browser.post(EMPTY, {"word": "empty", "older": "14"})
    assert list(Note.objects.for_user(alice).in_trash()) == [young]


def test_the_nightly_prune_leaves_a_line_in_the_log(alice: User, bob: User):
    note, kept = trashed_note(alice), trashed_note(bob)
    Note.objects.filter(pk=note.pk).update(trashed_at=timezone.now() - timedelta(days=31))
    empty_trash()
    line = Activity.objects.get(kind="trash-pruned")
    assert (line.owner, line.detail) == (alice, {"days": 30, "note": 1})
    assert Note.objects.filter(pk=kept.pk).exists()


# --- finding, and bringing back many -------------------------------------------------------------


def labels(browser: Client, **asked: str) -> list[str]:
    return [row.label for row in browser.get(TRASH, asked).context["rows"]]


def test_it_is_searched_by_words_and_by_who_moved_it(browser: Client, alice: User):
    trashed_note(alice, "The boiler was serviced")
    other = make_note(alice, "Rain in May")
    other.trash(by=MAINTENANCE, why="expired")
    make_topic(alice, "Boiler prices").trash(by=alice.actor)
    assert labels(browser, q="boiler") == ["Boiler prices", "The boiler was serviced"]
    assert labels(browser, q="boiler", type="note") == ["The boiler was serviced"]
    assert labels(browser, who="others") == ["Rain in May"]
    assert "Rain in May" not in labels(browser, who="you")
    assert labels(browser, q="%") == []
    assert "No matching items in Trash" in browser.get(TRASH, {"q": "zebra"}).content.decode()


def test_a_row_says_how_long_it_has_and_what_comes_along(browser: Client, alice: User):
    run = make_second_run(make_topic(alice, "Batteries"))
    run_trash.trash_run(run.report, by=alice.actor, why="a hoax")
    old = trashed_note(alice, "An old note.")
    Note.objects.filter(pk=old.pk).update(trashed_at=timezone.now() - timedelta(days=5))
    html = " ".join(browser.get(TRASH).content.decode().split())
    assert "25 days left" in html and "30 days left" not in html and "kept until" in html
    assert "1 topic fact" in html
    assert "a hoax" in html
    assert "1 more item was deleted with a run" in html
    assert "Version 18.1 repairs index corruption" not in html
    assert (
        "Version 18.1 repairs index" in browser.get(TRASH, {"type": "topicfact"}).content.decode()
    )
    run.topic.trash(by=alice.actor)
    html = browser.get(TRASH, {"type": "topic"}).content.decode()
    assert "2 runs, 4 facts" in html


def test_the_selected_come_back_together_and_one_undo_moves_them_again(
    browser: Client, alice: User
):
    notes = [trashed_note(alice, f"Note {n}") for n in range(3)]
    ticked = [f"note:{note.pk}" for note in notes[:2]]
    page = browser.post(reverse("memory:trash-restore"), {"record": ticked}, follow=True)
    assert "2 records restored" in page.content.decode()
    assert Note.objects.for_user(alice).in_trash().count() == 1
    again = undone(browser, page)
    assert "2 records moved back to Trash" in again.content.decode()
    assert Note.objects.for_user(alice).in_trash().count() == 3


def test_what_cannot_come_back_is_reported_and_keeps_none_of_the_others(
    browser: Client, alice: User
):
    taken = scratchpad.set_value(alice, "plan", "x", by=alice.actor)
    taken.trash(by=alice.actor)
    scratchpad.set_value(alice, "plan", "y", by=alice.actor)
    note = trashed_note(alice)
    ticked = [f"scratchpadentry:{taken.pk}", f"note:{note.pk}", "nonsense", "note:x"]
    page = browser.post(reverse("memory:trash-restore"), {"record": ticked}, follow=True)
    html = page.content.decode()
    assert "1 record restored" in html
    assert "1 record is still in Trash" in html
    assert "another record has taken its place" in html


def test_no_one_restores_or_takes_back_what_is_not_theirs(
    browser: Client, alice: User, bob: User, client_of: Callable[[User], Client]
):
    note = trashed_note(alice)
    bobs, restore = client_of(bob), reverse("memory:trash-restore")
    bobs.post(restore, {"record": f"note:{note.pk}"})
    assert Note.objects.in_trash().filter(pk=note.pk).exists()
    page = browser.post(restore, {"record": f"note:{note.pk}"}, follow=True)
    assert bobs.post(undo_in(page)).status_code == 404
    assert Note.objects.live().filter(pk=note.pk).exists()


def test_all_that_match_come_back_beyond_the_page_and_one_undo_moves_them_again(
    browser: Client, alice: User
):
    for number in range(70):
        trashed_note(alice, f"Price note {number}")
    other = trashed_note(alice, "Something else")
    assert "All 70 matches" in browser.get(TRASH, {"q": "price"}).content.decode()

    page = browser.post(reverse("memory:trash-restore"), {"all": "1", "q": "price"}, follow=True)

    assert "70 records restored" in page.content.decode()
    assert list(Note.objects.for_user(alice).in_trash()) == [other]
    undone(browser, page)
    assert Note.objects.for_user(alice).in_trash().count() == 71


def test_what_is_selected_or_matches_is_deleted_permanently_once_the_word_is_typed(
    browser: Client, alice: User
):
    notes = [trashed_note(alice, f"Price note {n}") for n in range(3)]
    kept = trashed_note(alice, "Something else")
    ticked = {"record": [f"note:{notes[0].pk}"]}
    asked = browser.post(EMPTY, ticked | {"ask": "1"}).content.decode()
    assert "You selected 1 record" in asked
    assert "<h1>Delete permanently</h1>" in asked and "<h1>Empty Trash</h1>" not in asked
    assert f"note:{notes[0].pk}" in asked
    assert "Price note 0" in asked and "Price note 1" not in asked
    assert Note.objects.for_user(alice).in_trash().count() == 4

    browser.post(EMPTY, ticked | {"word": trash_listing.word()})
    assert Note.objects.for_user(alice).in_trash().count() == 3
    browser.post(EMPTY, {"all": "1", "q": "price", "word": trash_listing.word()})
    assert list(Note.objects.for_user(alice).in_trash()) == [kept]
    browser.post(EMPTY, {"record": ["note:x", "nonsense"], "word": trash_listing.word()})
    assert list(Note.objects.for_user(alice).in_trash()) == [kept]


def test_nothing_selected_deletes_nothing(browser: Client, alice: User):
    trashed_note(alice)
    page = browser.post(EMPTY, {"ask": "1", "q": "", "type": ""}, follow=True)
    assert "Select at least one record to delete" in page.content.decode()


def test_the_old_address_of_trashed_topics_leads_here(browser: Client):
    assert browser.get("/topics/trash/").headers["Location"] == "/trash/?type=topic"


def test_the_address_of_what_was_trashed_leads_to_the_trash(
    browser: Client, alice: User, bob: User, client_of: Callable[[User], Client]
):
    topic = make_topic(alice)
    address = reverse("research:topic", args=[topic.slug])
    topic.trash(by=alice.actor)
    way = f'href="{TRASH}">Open Trash'

    missing = browser.get(address)
    assert missing.status_code == 404
    assert way in missing.content.decode()
    # To others it looks like any address with nothing behind it: it tells them nothing.
    assert way in client_of(bob).get(address).content.decode()
    assert way in client_of(bob).get("/nothing-was-ever-here/").content.decode()
    # Who is signed out has no trash.
    assert way not in Client().get("/nothing-was-ever-here/").content.decode()
