"""Two agents of one owner: neither can reach the other's named entries."""

from __future__ import annotations

from typing import Any

import pytest

from memory.agents.tools.registry import call_tool
from memory.models import AgentScope, ContentItem, Note, ScratchpadEntry
from memory.services.review.proposals import set_levels
from tests.api.cast import Program, items, problem


@pytest.fixture
def other(alice: Any) -> Program:
    """Alice's other agent."""
    return Program(alice, "read", "write", name="other")


@pytest.mark.parametrize("scope", ["session:trip", "run:nightly", "run:nightly/part"])
def test_content_under_anothers_name_is_neither_read_nor_changed(
    agent: Program, other: Program, scope: str
) -> None:
    key = agent.post("/content", {"content": "the plan", "scope": scope}).json()["id"]
    taken = agent.post("/content/snapshots", {"scope": scope}).json()["id"]
    mine = other.post("/content/snapshots", {"scope": "agent:other"}).json()["id"]

    problem(other.get(f"/content?scope={scope}"), 403)
    problem(other.get(f"/content/{key}"), 404)
    problem(other.delete(f"/content?scope={scope}"), 403)
    problem(other.post("/content", {"content": "x", "scope": scope}), 403)
    problem(other.post("/content/snapshots", {"scope": scope}), 403)
    problem(other.post(f"/content/snapshots/{taken}/restore"), 404)
    problem(other.post(f"/content/snapshots/{mine}/restore", {"scope": scope}), 403)
    assert ContentItem.objects.get(trashed_at=None).content == "the plan"
    assert len(items(agent.get(f"/content?scope={scope}"))) == 1


def test_values_and_notes_under_anothers_name_are_not_there(agent: Program, other: Program) -> None:
    agent.put("/scratchpad/k?session=trip", {"value": "mine"})
    note = agent.post("/notes", {"content": "Of a trip.", "scope": "session:trip"}).json()["id"]
    own = other.post("/notes", {"content": "Of mine."}).json()["id"]

    problem(other.get("/scratchpad?session=trip"), 403)
    for answer in (
        other.get("/scratchpad/k?session=trip"),
        other.put("/scratchpad/k?session=trip", {"value": "x"}),
        other.delete("/scratchpad/k?session=trip"),
    ):
        problem(answer, 403)
    problem(other.get("/notes?scope=session:trip"), 403)
    problem(other.get(f"/notes/{note}"), 404)
    problem(other.patch(f"/notes/{note}", {"content": "x"}, If_Match="*"), 404)
    problem(other.post(f"/notes/{note}/supersede", {"content": "x"}), 404)
    problem(other.post("/notes", {"content": "x", "scope": "session:trip"}), 403)
    problem(other.patch(f"/notes/{own}", {"scope": "session:trip"}, If_Match="*"), 403)
    assert ScratchpadEntry.objects.get().value == "mine"
    assert Note.objects.get(pk=note).content == "Of a trip."


def test_a_conversation_under_anothers_name_takes_nothing(agent: Program, other: Program) -> None:
    talk = {
        "messages": [
            {"role": "user", "content": "It was decided that the night train is the one to take."}
        ]
    }
    assert agent.post("/sessions/trip/consolidate", talk).status_code == 200

    problem(other.post("/sessions/trip/consolidate", talk), 403)
    answer = call_tool(_context(other), "consolidate", {**talk, "session_id": "trip"})
    assert "Another agent uses this session_id" in answer.text
    assert not call_tool(_context(agent), "consolidate", {**talk, "session_id": "trip"}).is_error


def _context(program: Program) -> Any:
    from memory.api.auth import caller_of

    return caller_of(program.token).context()


def test_a_name_is_held_by_the_first_agent_that_writes(agent: Program, other: Program) -> None:
    assert items(other.get("/scratchpad?session=free")) == []
    agent.put("/scratchpad/k?session=free", {"value": "mine"})

    problem(other.get("/scratchpad?session=free"), 403)
    held = AgentScope.objects.get()
    assert (held.scope, held.agent) == ("session:free", "desk")


def test_a_person_reaches_every_scope_and_holds_none(agent: Program, person: Program) -> None:
    agent.put("/scratchpad/k?session=trip", {"value": "mine"})

    assert person.get("/scratchpad/k?session=trip").status_code == 200
    assert person.put("/scratchpad/k?session=free", {"value": "hers"}).status_code == 201
    assert agent.get("/scratchpad/k?session=free").status_code == 200
    assert AgentScope.objects.count() == 1


def test_two_owners_can_use_one_name(agent: Program, stranger: Program) -> None:
    assert agent.put("/scratchpad/k?session=trip", {"value": "hers"}).status_code == 201
    assert stranger.put("/scratchpad/k?session=trip", {"value": "his"}).status_code == 201
    assert agent.get("/scratchpad/k?session=trip").json()["value"] == "hers"


# --- what a person put there, and what cannot wait ----------------------------------------------------


def test_agents_leave_a_persons_value_as_it_is(agent: Program, person: Program) -> None:
    person.put("/scratchpad/plan", {"value": "hers"})

    problem(agent.put("/scratchpad/plan", {"value": "x"}), 403)
    problem(agent.delete("/scratchpad/plan"), 403)
    told = call_tool(_context(agent), "scratchpad_set", {"key": "plan", "value": "x"})
    assert (told.data["error"], "Use another key" in told.text) == ("locked", True)
    assert agent.get("/scratchpad/plan").json()["value"] == "hers"
    assert person.delete("/scratchpad/plan").status_code == 204


def test_a_value_that_a_person_edited_is_theirs(agent: Program, person: Program) -> None:
    agent.put("/scratchpad/plan", {"value": "its"})
    person.put("/scratchpad/plan", {"value": "hers"})

    problem(agent.put("/scratchpad/plan", {"value": "x"}), 403)


def test_where_each_write_waits_shared_data_is_a_persons(agent: Program, alice: Any) -> None:
    key = agent.post("/content/snapshots", {"scope": "agent:desk"}).json()["id"]
    agent.put("/scratchpad/old", {"value": "1"})
    set_levels(alice, {"default": "hold all"}, by=alice.actor)

    refused = (
        agent.put("/scratchpad/k", {"value": "1"}),
        agent.delete("/scratchpad/old"),
        agent.post("/content", {"content": "x"}),
        agent.delete("/content?scope=agent:desk"),
        agent.post("/content/snapshots", {"scope": "agent:desk"}),
        agent.post(f"/content/snapshots/{key}/restore"),
    )
    for answer in refused:
        assert "Ask the user to do it" in problem(answer, 403)["detail"]
    told = call_tool(_context(agent), "scratchpad_set", {"key": "k", "value": "1"})
    assert "Ask the user to do it" in told.text
    assert not ContentItem.objects.exists()


def test_where_each_write_waits_an_agent_still_has_its_own_desk(agent: Program, alice: Any) -> None:
    set_levels(alice, {"default": "hold all"}, by=alice.actor)

    assert agent.put("/scratchpad/k?session=trip", {"value": "1"}).status_code == 201
    own = {"content": "x", "scope": "agent:desk"}
    assert agent.post("/content", own).status_code == 201
    told = call_tool(_context(agent), "scratchpad_set", {"key": "k", "value": "1", "private": True})
    assert not told.is_error


def test_no_agent_lets_another_see_what_a_person_keeps_from_it(
    alice: Any, agent: Program, other: Program
) -> None:
    made = agent.post("/notes", {"content": "The plan."})
    note = Note.objects.get(pk=made.json()["id"])
    note.change(by=alice.actor, scope="except:other")
    problem(other.get(f"/notes/{note.pk}"), 404)

    etag = agent.get(f"/notes/{note.pk}")["ETag"]
    for scope in ("owner", "except:agent"):
        problem(agent.patch(f"/notes/{note.pk}", {"scope": scope}, If_Match=etag), 403)
    note.refresh_from_db()
    assert note.scope == "except:other"
