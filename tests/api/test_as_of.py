"""Notes, observations and the tools that read them, as of a date."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pgtrigger
import pytest
from django.utils import timezone

from memory.agents.tools.registry import call_tool
from memory.agents.tools.types import ToolContext
from memory.models import Note, Observation, Revision, User
from memory.models.actors import Actor
from memory.services.notes.saving import edit_note, write_note
from tests.api.cast import Program, items, problem

THEN = f"{timezone.now() - timedelta(days=10):%Y-%m-%d}"


def moved(record: Any, when: datetime) -> None:
    """Make a record, and its changes so far, as old as `when`."""
    type(record).objects.filter(pk=record.pk).update(created=when, updated=when)
    with pgtrigger.ignore("memory.Revision:append_only"):
        Revision.objects.filter(record_id=record.pk).update(created=when)
    record.refresh_from_db()


@pytest.fixture
def note(alice: User) -> Note:
    """A note of 20 days ago, edited today; another one is of today."""
    made = write_note(alice, "log", "The harbour opens at seven.", by=alice.actor, ttl_days=25)
    moved(made, timezone.now() - timedelta(days=20))
    edit_note(made, by=alice.actor, content="The harbour opens at nine.")
    write_note(alice, "log", "A lantern hangs at the gate.", by=alice.actor)
    return made


def ids(agent: Program, path: str) -> list[str]:
    return [row["id"] for row in items(agent.get(path))]


def test_notes_are_listed_and_read_as_of_a_date(agent: Program, note: Note) -> None:
    assert len(ids(agent, "/notes?kind=log")) == 2
    assert ids(agent, f"/notes?as_of={THEN}") == [str(note.pk)]

    [row] = items(agent.get(f"/notes?as_of={THEN}"))
    one = agent.get(f"/notes/{note.pk}?as_of={THEN}")

    assert row["content"] == one.json()["content"] == "The harbour opens at seven."
    assert agent.get(f"/notes/{note.pk}").json()["content"] == "The harbour opens at nine."
    assert (one["ETag"], agent.get(f"/notes/{note.pk}")["ETag"]) == ('"1"', '"2"')


def test_a_note_that_expires_later_was_active_then(agent: Program, note: Note) -> None:
    Note.objects.filter(pk=note.pk).update(expires_at=timezone.now() - timedelta(days=1))
    with pgtrigger.ignore("memory.Revision:append_only"):
        Revision.objects.filter(record_id=note.pk, version=2).delete()
    assert str(note.pk) not in ids(agent, "/notes")
    assert ids(agent, f"/notes?as_of={THEN}") == [str(note.pk)]
    assert ids(agent, f"/notes?state=expired&as_of={THEN}") == []


def test_observations_are_listed_and_read_as_of_a_date(agent: Program, person: Program) -> None:
    old, new = (
        agent.post("/observations", {"category": "finding", "content": text}).json()["ids"][0]
        for text in ("The ferry costs 40 euros.", "A lantern hangs at the gate.")
    )
    moved(Observation.objects.get(pk=old), timezone.now() - timedelta(days=20))
    changed = {"content": "The ferry costs 55 euros."}
    assert person.patch(f"/observations/{old}", changed, If_Match='"1"').status_code == 200

    assert set(ids(agent, "/observations")) == {old, new}
    assert ids(agent, f"/observations?as_of={THEN}") == [old]
    then = agent.get(f"/observations/{old}?as_of={THEN}").json()
    assert then["content"] == "The ferry costs 40 euros."
    problem(agent.get(f"/observations/{new}?as_of={THEN}"), 404)


@pytest.mark.parametrize("path", ["/notes", "/observations"])
@pytest.mark.parametrize("typed", ["2099-01-01", "soon"])
def test_another_date_is_explained(agent: Program, path: str, typed: str) -> None:
    told = problem(agent.get(f"{path}?as_of={typed}"), 422)
    assert "as_of" in told["errors"]


def test_the_tools_list_and_read_notes_as_of_a_date(alice: User, note: Note) -> None:
    context = ToolContext(alice, Actor("agent", "claude"), "agent:claude", place="agent:claude")

    listed = call_tool(context, "list_memory", {"as_of": THEN})
    read = call_tool(context, "retrieve", {"id": str(note.pk), "as_of": THEN, "related": 5})
    today = call_tool(context, "retrieve", {"id": str(note.pk)})

    assert [one["id"] for one in listed.data["notes"]] == [str(note.pk)]
    assert "seven" in listed.text and "lantern" not in listed.text
    assert read.data["content"] == "The harbour opens at seven."
    assert read.data["related"] == []
    assert today.data["content"] == "The harbour opens at nine."


def test_a_strangers_note_is_not_there_at_any_date(stranger: Program, note: Note) -> None:
    problem(stranger.get(f"/notes/{note.pk}?as_of={THEN}"), 404)
