"""The registry: how a tool is described, called, refused and logged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import DatabaseError

from memory.agents.tools.registry import REGISTRY, call_tool, register, schema_of, tools_for
from memory.agents.tools.types import Arguments, MemoryTool, ToolResult
from memory.models import Activity, Note
from memory.services.notes.saving import NoteChecks
from tests.memory.tool_cast import call, caller

NAMES = {
    "memory_list", "memory_read", "memory_write", "memory_patch", "memory_append", "memory",
    "remember",
    "remember_fil", "consolidate", "recall", "retrieve", "list_memory", "update_memory",
    "update_soul", "scratchpad_get", "scratchpad_set", "scratchpad_list", "scratchpad_search",
    "get_context", "store_in_memory", "retrieve_from_memory", "query_memory",
}  # fmt: skip


@pytest.mark.requirement("R96")
def test_one_registry_holds_the_tools_of_the_seeds():
    assert set(REGISTRY) >= NAMES
    for tool in REGISTRY.values():
        assert len(tool.description) > 20
        assert all(
            one.get("description") for one in schema_of(tool.arguments)["properties"].values()
        )


def test_schemas_are_plain_enough_for_every_endpoint():
    told = json.dumps([tool.parameters for tool in tools_for()])

    assert "$ref" not in told
    assert "null" not in told
    [patch] = tools_for(["memory_patch"])
    pairs = patch.parameters["properties"]["patches"]["items"]
    assert set(pairs["properties"]) == {"old_text", "new_text"}
    assert patch.parameters["additionalProperties"] is False


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"query": "x", "colour": "red"}, "“colour” isn’t an argument of this tool. Arguments"),
        ({}, "“query” is required. Arguments"),
        ({"query": ""}, "“query” can’t be empty. Arguments"),
        ({"query": "x", "limit": "many"}, "“limit” must be a whole number"),
        ({"query": "x", "limit": 0}, "“limit” must be at least 1"),
        ({"query": "x", "types": ["page"]}, "“types.0” must be 'note', 'observation', 'fact'"),
        ({"_unparsed": "query=x"}, "weren’t a JSON object"),
        ({"query": {"a": 1}}, "“query” must be text"),
    ],
)
def test_arguments_that_do_not_fit_are_explained(alice: Any, arguments: dict[str, Any], said: str):
    answer = call_tool(caller(alice), "recall", arguments)

    assert answer.is_error
    assert answer.data["error"] == "bad_arguments"
    assert said in answer.text
    assert "query (required)" in answer.text


def test_a_tool_that_is_not_there_or_not_offered_is_refused_with_those_that_are(alice: Any):
    unknown = call(alice, "delete_everything\x00\ud800")
    not_offered = call_tool(caller(alice), "remember", {"content": "x"}, among=["recall"])

    assert "memory_read" in unknown.text
    assert not_offered.is_error
    assert "Available tools: recall." in not_offered.text
    assert not Note.objects.for_user(alice).filter(kind="log").exists()


def test_each_call_is_a_line_of_activity_without_what_records_say(alice: Any):
    call(alice, "remember", content="Secret words of a note.")
    call(alice, "retrieve", id="nothing\x00")

    written, missed = Activity.objects.for_user(alice).filter(kind="tool-called").order_by("id")
    assert (written.label, written.actor, written.subject_type) == (
        "remember", "agent:claude", "note",
    )  # fmt: skip
    assert written.detail == {"outcome": "", "source": "session:7"}
    assert missed.detail["outcome"] == "not_found"
    assert missed.detail["id"] == "nothing"


def test_what_isnt_a_refusal_is_raised(alice: Any, monkeypatch: pytest.MonkeyPatch):
    def broken(*_args: Any) -> str:
        raise DatabaseError("the disk is full")

    monkeypatch.setattr(NoteChecks, "content", broken)

    with pytest.raises(DatabaseError):
        call(alice, "remember", content="x")


def test_a_mistake_of_ours_isnt_a_refusal(alice: Any, monkeypatch: pytest.MonkeyPatch):
    nothing: dict[str, str] = {}
    monkeypatch.setattr(NoteChecks, "content", lambda *_args: nothing["missing"])

    with pytest.raises(KeyError):
        call(alice, "remember", content="x")


def test_another_app_registers_a_tool_of_its_own(alice: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("memory.agents.tools.registry.REGISTRY", dict(REGISTRY))
    register(MemoryTool("hello", "Says hello to whom it may concern.", Arguments, _hello))

    assert call(alice, "hello").text == "hello"
    assert call_tool(caller(alice), "hello", {"who": "x"}).text.endswith("Arguments: no arguments.")


def _hello(_context: Any, _asked: Any) -> ToolResult:
    return ToolResult("hello")
