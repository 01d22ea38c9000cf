"""Trash by REST: everyone can see it, and only a person's client can restore or empty it."""

from __future__ import annotations

from typing import Any

import pytest

from memory.models import Note, Topic
from memory.services.notes import saving as notes
from research.services.topics.settings import editing as topic_editing
from tests.api.cast import Program, items, problem
from tests.research import factories


@pytest.fixture
def note(alice: Any) -> Note:
    """Alice's note in Trash."""
    note = notes.write_note(alice, "log", "The backup runs on Sunday nights.", by=alice.actor)
    note.trash(by=alice.actor, why="done with it")
    return note


def _path(record: Any) -> str:
    return f"/trash/{record.record_type()}/{record.pk}"


def test_what_is_there_is_reported_with_who_and_until_when(agent: Program, note: Note) -> None:
    [told] = items(agent.get("/trash"))

    assert (told["type"], told["id"]) == ("note", str(note.pk))
    assert "backup" in told["title"]
    assert told["reason"] == "done with it"
    assert told["purge_at"] > told["trashed_at"]


def test_it_is_listed_by_kind_and_paged(agent: Program, alice: Any, note: Note) -> None:
    for number in range(3):
        topic_editing.trash_topic(factories.make_topic(alice, f"T {number}"), by=alice.actor)

    assert len(items(agent.get("/trash?type=topic"))) == 3
    problem(agent.get("/trash?type=nonsense"), 422)
    first = agent.get("/trash?limit=3").json()
    rest = agent.get(f"/trash?limit=3&cursor={first['next']}").json()
    assert [one["type"] for one in first["items"] + rest["items"]] == ["topic"] * 3 + ["note"]
    assert rest["next"] is None
    problem(agent.get(f"/trash?type=note&cursor={first['next']}"), 422)


@pytest.mark.requirement("R222")
def test_agents_do_not_see_there_what_is_sensitive(
    agent: Program, person: Program, alice: Any
) -> None:
    secret = notes.write_note(
        alice, "log", "The PIN is 4711.", by=alice.actor, sensitivity="sensitive"
    )
    secret.trash(by=alice.actor)

    assert items(agent.get("/trash")) == []
    assert len(items(person.get("/trash"))) == 1


def test_a_persons_program_restores(person: Program, note: Note) -> None:
    assert person.send("POST", f"{_path(note)}/restore").status_code == 204

    note.refresh_from_db()
    assert note.trashed_at is None
    problem(person.post(f"{_path(note)}/restore"), 404)


def test_a_topic_whose_name_was_taken_is_restored_under_a_free_one(
    person: Program, alice: Any
) -> None:
    topic = factories.make_topic(alice, "One")
    topic_editing.trash_topic(topic, by=alice.actor)
    factories.make_topic(alice, "One")

    assert person.send("POST", f"{_path(topic)}/restore").status_code == 204
    assert Topic.objects.live().get(pk=topic.pk).title == "One (2)"


@pytest.mark.requirement("R232")
def test_it_is_deleted_permanently_by_its_title_alone(person: Program, note: Note) -> None:
    title = items(person.get("/trash"))[0]["title"]

    problem(person.send("DELETE", _path(note)), 422)
    told = problem(person.send("DELETE", _path(note), {"confirm": "yes"}), 422)
    assert "backup" in told["errors"]["confirm"][0]
    assert person.send("DELETE", _path(note), {"confirm": title}).status_code == 204
    assert not Note.objects.filter(pk=note.pk).exists()


def test_a_topic_is_deleted_permanently_by_its_title(person: Program, alice: Any) -> None:
    title = "A topic with a rather long title, of which every word is to be typed"
    topic = factories.make_topic(alice, title)
    factories.make_report(factories.make_run(topic))
    topic_editing.trash_topic(topic, by=alice.actor)

    problem(person.send("DELETE", _path(topic), {"confirm": "A topic with a"}), 422)
    assert person.send("DELETE", _path(topic), {"confirm": title}).status_code == 204
    assert not Topic.objects.filter(pk=topic.pk).exists()


def test_what_is_not_in_the_trash_is_not_deleted(person: Program, alice: Any) -> None:
    note = notes.write_note(alice, "log", "Stays.", by=alice.actor)

    problem(person.send("DELETE", _path(note), {"confirm": "Stays."}), 404)
    problem(person.send("DELETE", f"/trash/revision/{note.pk}", {"confirm": "x"}), 404)
    assert Note.objects.filter(pk=note.pk).exists()


def test_agents_restore_and_delete_nothing(agent: Program, note: Note) -> None:
    problem(agent.post(f"{_path(note)}/restore"), 403)
    problem(agent.send("DELETE", _path(note), {"confirm": str(note)}), 403)
    note.refresh_from_db()
    assert note.trashed_at is not None


def test_a_stranger_finds_nothing(bob: Any, note: Note) -> None:
    theirs = Program(bob, "admin")

    assert items(theirs.get("/trash")) == []
    problem(theirs.post(f"{_path(note)}/restore"), 404)
    problem(theirs.send("DELETE", _path(note), {"confirm": str(note)}), 404)
