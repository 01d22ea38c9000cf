"""Superseding: chains of replacement, and chains whose notes are deleted."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from memory.models import Note, Revision, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, Locked, StaleWrite
from memory.services.notes.saving import (
    MAX_LINKS,
    chain,
    edit_note,
    point_at,
    supersede,
    write_note,
)
from memory.services.search import bm25
from tests.research.factories import active_notes

AGENT = Actor("agent", "claude")


@pytest.fixture
def note(alice: User) -> Note:
    return write_note(
        alice, "rule", "Deploy on Mondays.", by=AGENT, confidence=0.9, evidence=["run:3"],
        tags=["ops"], sensitivity="sensitive", scope="agent:claude", trust="external",
    )  # fmt: skip


@pytest.mark.requirement("R200")
def test_a_superseded_note_is_not_given_and_stays_readable_with_its_history(
    alice: User, note: Note
):
    newer = supersede(note, "Deploy on Tuesdays.", by=alice.actor, why="Mondays failed")

    assert [n.content for n in active_notes(alice, kind="rule")] == ["Deploy on Tuesdays."]
    assert chain(newer) == chain(note) == [newer, note]
    told = Revision.objects.get(record_id=note.pk, version=2)
    assert (told.reason, told.after) == ("Mondays failed", {"superseded_by_id": str(newer.pk)})


def test_a_successor_takes_over_what_is_not_named_and_the_lowest_trust(alice: User, note: Note):
    newer = supersede(note, "Deploy on Tuesdays.", by=AGENT, tags=["ops", "later"])

    same = ("kind", "confidence", "evidence", "sensitivity", "scope", "stability")
    assert newer.snapshot(*same) == note.snapshot(*same)
    assert (newer.trust, newer.tags) == ("external", ["ops", "later"])
    assert supersede(newer, "Never deploy.", by=alice.actor).trust == "owner"


@pytest.mark.parametrize("spoil", ["superseded", "trashed", "empty"])
def test_what_cannot_be_superseded_is_reported_and_nothing_is_stored(
    alice: User, note: Note, spoil: str
):
    if spoil == "superseded":
        supersede(note, "First.", by=alice.actor)
    elif spoil == "trashed":
        note.trash(by=alice.actor)
    before = list(Note.objects.values_list("pk", "version"))

    with pytest.raises(InvalidValue) as refused:
        supersede(note, " " if spoil == "empty" else "Second.", by=alice.actor)

    assert refused.value.errors
    assert list(Note.objects.values_list("pk", "version")) == before


def test_a_locked_note_and_a_stale_version_are_not_superseded(alice: User, note: Note):
    with pytest.raises(StaleWrite):
        supersede(note, "Other.", by=alice.actor, expected_version=7)
    note.change(by=alice.actor, lock="read-only")
    with pytest.raises(Locked):
        supersede(note, "Other.", by=AGENT)

    assert Note.objects.filter(kind="rule").count() == 1


def test_what_the_trash_holds_frees_nothing_that_was_replaced(alice: User, note: Note):
    newer = supersede(note, "Deploy on Tuesdays.", by=alice.actor)

    newer.trash(by=alice.actor)

    assert active_notes(alice, kind="rule") == []
    newer.restore(by=alice.actor)
    assert active_notes(alice, kind="rule") == [newer]


def test_a_purged_link_joins_its_neighbors(alice: User, note: Note):
    middle = supersede(note, "Deploy on Tuesdays.", by=alice.actor)
    last = supersede(middle, "Deploy on Fridays.", by=alice.actor)

    Note.objects.get(pk=middle.pk).purge(by=alice.actor)
    connection.check_constraints()

    assert chain(last) == [last, Note.objects.get(pk=note.pk)]


def test_what_a_purged_note_replaced_goes_to_the_trash_locked_or_not(alice: User, note: Note):
    newer = supersede(note, "Deploy on Tuesdays.", by=alice.actor)
    Note.objects.get(pk=note.pk).change(by=alice.actor, lock="read-only")

    newer.purge(by=Actor("maintenance"))
    connection.check_constraints()

    note.refresh_from_db()
    assert note.trashed_at is not None and note.superseded_by_id is None
    assert bm25.search(alice, "note", "Mondays") == []
    note.restore(by=alice.actor)
    assert bm25.search(alice, "note", "Mondays")[0][0] == note.pk


def test_an_account_with_chains_can_be_deleted(alice: User, note: Note):
    supersede(supersede(note, "2", by=alice.actor), "3", by=alice.actor)

    alice.delete()
    connection.check_constraints()

    assert Note.objects.count() == 0


def test_two_that_supersede_one_note_make_one_chain(alice: User, note: Note):
    same: Any = Note.objects.get(pk=note.pk)
    supersede(note, "First.", by=alice.actor)

    with pytest.raises(InvalidValue):
        supersede(same, "Second.", by=alice.actor)


def test_the_standing_soul_is_neither_trashed_nor_edited_but_superseded(alice: User):
    soul = Note.objects.for_user(alice).get(kind="soul", superseded_by=None)

    with pytest.raises(InvalidValue, match="Settings"):
        soul.trash(by=alice.actor)
    with pytest.raises(InvalidValue, match="Agents → Identity → Soul"):
        edit_note(soul, by=alice.actor, content="Be quick.")
    with pytest.raises(InvalidValue, match="only one"):
        write_note(alice, "soul", "A second one.", by=alice.actor)
    with pytest.raises(InvalidValue):
        edit_note(soul, by=alice.actor, kind="log")


def test_a_chain_shows_how_far_back_each_lies_and_siblings_of_a_merge(alice: User, note: Note):
    other = write_note(alice, "log", "Another.", by=AGENT)
    newer = supersede(note, "Deploy on Tuesdays.", by=alice.actor)
    point_at(other, newer, by=alice.actor, why="superseded", source="")

    told = [(link.pk, link.step) for link in chain(other)]

    assert told[0] == (newer.pk, 0)
    assert sorted(told[1:]) == sorted([(note.pk, 1), (other.pk, 1)])
    assert [link.pk for link in chain(note)] == [pk for pk, _step in told]


def test_of_a_long_chain_the_newest_sixty_are_told_from_wherever_it_is_asked(
    alice: User, note: Note
):
    first = newest = note
    for n in range(MAX_LINKS + 5):
        newest = supersede(newest, f"Deploy on day {n}.", by=alice.actor)

    assert chain(first)[0] == newest
    assert len(chain(first)) == MAX_LINKS


def test_a_note_that_stands_for_hundreds_shows_the_first_of_them(alice: User, note: Note):
    newest = supersede(note, "Deploy any day.", by=alice.actor)
    others = [
        Note(owner=alice, kind="rule", content=f"{n}", source="human:alice")
        for n in range(MAX_LINKS * 3)
    ]
    Note.objects.bulk_create(others)
    Note.objects.filter(pk__in=[one.pk for one in others]).update(superseded_by=newest)

    told = chain(newest)

    assert told[0] == newest and len(told) == MAX_LINKS
    assert {one.step for one in told[1:]} == {1}
