"""Text read by MCP tools and resources lowers the trust of the agent's next writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memory.agents.tools.registry import REGISTRY
from memory.models import Agent, MemoryFile, Note, Proposal, Trust, User
from memory.services.files.saving import save_file
from memory.services.notes.saving import write_note
from research.mcp import server
from research.mcp.server import Caller
from tests.api.outside_cast import FILE, KEY, OUTSIDE, rows_from_outside
from tests.research.test_mcp import program

ARGUMENTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "memory_list": lambda there: {},
    "memory_read": lambda there: {"path": FILE},
    "recall": lambda there: {"query": "quokkafern"},
    "retrieve": lambda there: {"id": str(there["note_id"])},
    "list_memory": lambda there: {},
    "about": lambda there: {"name": "quokkafern"},
    "get_context": lambda there: {},
    "retrieve_from_memory": lambda there: {"id": str(there["item_id"])},
    "query_memory": lambda there: {},
    "scratchpad_get": lambda there: {"key": KEY},
    "scratchpad_list": lambda there: {},
    "scratchpad_search": lambda there: {"text": "quokkafern"},
    "get_report": lambda there: {"run": there["run_id"]},
}
READERS = sorted(name for name, tool in REGISTRY.items() if not tool.writes)


def _read_trust() -> str:
    return Agent.objects.get(name="claude").read_trust


def _is_held(caller: Caller) -> bool:
    result = server.call(caller, "remember", {"content": "The kettle is descaled."})
    return "proposal" in (result.structured_content or {}) and Proposal.objects.exists()


@pytest.mark.parametrize("name", READERS)
def test_what_a_tool_shows_is_noted(alice: User, name: str) -> None:
    there, caller = rows_from_outside(alice), program(alice)

    result = server.call(caller, name, ARGUMENTS[name](there))

    assert not result.is_error
    assert _read_trust() == Trust.EXTERNAL
    assert _is_held(caller)


@pytest.mark.requirement("R406")
def test_a_context_without_external_text_leaves_the_agents_writes_free(alice: User) -> None:
    there, caller = rows_from_outside(alice), program(alice)
    assert "external to false" in str(server.build(lambda _context: caller).instructions)

    own = server.call(caller, "get_context", {"external": False})

    assert OUTSIDE not in str(own.content)
    assert not _is_held(caller)
    assert OUTSIDE in str(
        server.call(caller, "get_context", ARGUMENTS["get_context"](there)).content
    )
    assert _is_held(caller)


def test_the_text_in_a_refused_write_is_noted(alice: User) -> None:
    rows_from_outside(alice)
    save_file(alice, FILE, f"# Memory\n\n> Summary: x\n\n- {OUTSIDE} today\n", by=alice.actor)
    MemoryFile.objects.for_user(alice).filter(path=FILE).update(trust=Trust.EXTERNAL)
    caller = program(alice)
    given = {"path": FILE, "content": "# Memory\n\n> Summary: x\n\n- Mine\n", "version": 1}

    result = server.call(caller, "memory_write", given)

    assert result.structured_content["error"] == "conflict"
    assert OUTSIDE in result.content[0].text
    assert _is_held(caller)


def test_a_list_of_resources_is_noted_by_its_titles(alice: User) -> None:
    rows_from_outside(alice)
    caller = program(alice)

    assert OUTSIDE in str(server.page_of(caller, None))
    assert _is_held(caller)


def test_what_an_agent_wrote_itself_holds_nothing(alice: User) -> None:
    caller = program(alice)
    write_note(alice, "log", "Its own word.", by=Agent.objects.get(name="claude").actor)

    server.call(caller, "list_memory", {})

    assert not _is_held(caller)
    assert Note.objects.filter(content="The kettle is descaled.").exists()
