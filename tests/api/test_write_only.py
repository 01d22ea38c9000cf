"""A token that can only write gets no stored text: not in answers, errors or replays."""

from __future__ import annotations

from typing import Any

import pytest

from memory.api.shown import bare_text
from memory.models import Agent, Note, User
from memory.services.notes import saving as notes
from research.mcp import server
from tests.api.cast import Program, problem
from tests.api.outside_cast import FILE, OPERATIONS, OUTSIDE, rows_from_outside, send, session_of
from tests.api.test_every_route import SCOPES
from tests.research.test_mcp import program as by_mcp

MARK = "quokkafern"
# A body with which the operation comes as far as what is stored; {} where it takes none.
BODIES: dict[str, Any] = {
    "append_entry": {"entry": "- Mine."},
    "write_file": {"content": "# Mine\n"},
    "patch_file_at": {"patches": [{"old_text": "# Memory", "new_text": "# Mine"}]},
    "write_note": {"content": "Mine."},
    "edit_note": {"tags": ["mine"]},
    "supersede_note": {"content": "Mine."},
    "remember_observations": {"category": "finding", "content": "Mine."},
    "edit_one_observation": {"content": "Mine."},
    "extract_observations": {"output": "We found that mine is mine and yours is yours. " * 3},
    "store_content": {"content": "Mine."},
    "take_snapshot": {"scope": "owner"},
    "set_entry": {"value": "Mine."},
    "say": {"content": "Mine."},
    "consolidate_session": {"messages": []},
    "treat_source": {"source": "example.org", "rule": "block"},
    "make_topic": {"title": "Invoices"},
    "edit_topic": {"focus": "mine"},
}


@pytest.fixture
def writer(alice: User) -> Program:
    return Program(alice, "write", name="writer")


@pytest.mark.parametrize("if_match", ["*", '"99"'])
def test_no_write_is_answered_with_what_is_stored(
    alice: User, writer: Program, if_match: str
) -> None:
    there = rows_from_outside(alice) | {"session_id": session_of(writer).pk}
    actor = writer.token.agent.actor
    ids = [notes.write_note(alice, "log", f"{OUTSIDE} {n}", by=actor).pk for n in (1, 2, 3)]
    there["note_id"] = ids[2]
    bodies = BODIES | {"merge_notes": {"ids": [str(key) for key in ids[:2]]}}
    told: dict[str, Any] = {}
    for name in SCOPES["write"].split():
        body = None if OPERATIONS[name][0] == "DELETE" else bodies.get(name, {})
        answer = send(writer, name, there, body, If_Match=if_match)
        said = answer.content.decode() + str(answer.headers)
        if MARK in said or answer.status_code >= 500:
            told[name] = (answer.status_code, said[:500])

    assert told == {}


def test_its_answers_hold_what_it_needs_to_continue(writer: Program) -> None:
    answer = writer.post("/notes", {"content": "Mine."})

    assert answer.json() == {"id": answer.json()["id"], "scope": "owner", "version": 1}
    assert answer["ETag"] == '"1"'


def test_a_refusal_quotes_only_what_was_sent(alice: User, writer: Program) -> None:
    note = notes.write_note(alice, "log", OUTSIDE, by=alice.actor)
    note.change(by=alice.actor, lock="read-only")

    locked = problem(writer.post(f"/notes/{note.pk}/supersede", {"content": "Mine."}), 403)
    bad = problem(writer.post("/notes", {"content": "x", "topic": "no such"}), 422)

    assert MARK not in str(locked)
    assert "“no such”" in bad["detail"]


def test_a_kept_answer_isnt_a_way_to_read(writer: Program) -> None:
    sent = {"content": "Mine.", "tags": ["secret"]}
    first = writer.post("/notes", sent, Idempotency_Key="k")

    assert writer.post("/notes", sent, Idempotency_Key="k").content == first.content
    assert "secret" not in first.content.decode()


def test_nothing_that_it_is_answered_counts_as_read(alice: User, writer: Program) -> None:
    rows_from_outside(alice)
    problem(writer.put(f"/files/{FILE}", {"content": "# Mine\n"}, If_Match='"99"'), 412)

    assert Agent.objects.get(pk=writer.token.agent.pk).read_trust == ""


@pytest.mark.parametrize("body", ["", "no JSON", "[]", '"text"'])
def test_what_isnt_an_object_is_left_out_whole(body: str) -> None:
    assert bare_text(body) == "{}"


# --- by MCP ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory_write", {"path": FILE, "content": "# Mine\n", "version": 99}),
        ("memory_write", {"path": FILE, "content": "# Mine\n", "version": 1}),
        ("memory_patch", {"path": FILE, "patches": [{"old_text": "due", "new_text": "x"}]}),
        ("memory_append", {"path": FILE, "entry": "- Mine."}),
        ("memory", {"command": "view", "path": "/memories"}),
        ("memory", {"command": "create", "path": "/memories/a.md", "file_text": "Mine."}),
        ("remember", {"content": "Mine."}),
        ("remember_fil", {"findings": ["Mine."]}),
        ("scratchpad_set", {"key": "from the web", "value": "Mine."}),
        ("store_in_memory", {"content": "Mine."}),
        ("update_soul", {"content": "Mine."}),
    ],
)
def test_a_tool_that_writes_answers_without_what_is_stored(
    alice: User, tool: str, arguments: dict[str, Any]
) -> None:
    rows_from_outside(alice)

    result = server.call(by_mcp(alice, "write"), tool, arguments)

    assert MARK not in result.content[0].text + str(result.structured_content)


def test_a_tool_that_supersedes_names_the_new_note_alone(alice: User) -> None:
    caller = by_mcp(alice, "write")
    note = notes.write_note(alice, "log", OUTSIDE, by=Agent.objects.get(name="claude").actor)

    result = server.call(caller, "update_memory", {"id": str(note.pk), "content": "Mine."})

    assert MARK not in result.content[0].text + str(result.structured_content)
    assert result.structured_content["id"] == str(Note.objects.get(content="Mine.").pk)
