"""An agent that its owner blocked from writing: every write is rejected, by REST and MCP."""

from __future__ import annotations

import pytest

from memory.agents.chat import turn
from memory.agents.tools.registry import REGISTRY, call_tool
from memory.api.auth import caller_of
from memory.models import Message, Observation, User
from memory.services.review import blocking
from research.api.joined import api
from tests.api.cast import Program, problem
from tests.api.test_every_route import NOWHERE, OPERATIONS, address
from tests.pages.rows_written import rows_written

COUNTED = {"memory_refusedsource"}  # how often it was refused
CALLED = COUNTED | {"memory_activity"}
WRITES = sorted(
    operation.view_func.__name__
    for _prefix, router in api._routers
    for view in router.path_operations.values()
    for operation in view.operations
    if operation.auth_callbacks[0].scope == "write"
)
TOOLS = [name for name, tool in REGISTRY.items() if tool.writes]


@pytest.fixture
def blocked(alice: User, agent: Program) -> Program:
    """An agent that Alice blocked."""
    blocking.refuse(alice, "agent", "desk", by=alice.actor)
    return agent


def test_the_registered_writes_are_found() -> None:
    assert len(WRITES) >= 30
    assert {"set_entry", "make_topic", "say", "start_run", "treat_source"} <= set(WRITES)
    assert "research_topic" in TOOLS


@pytest.mark.parametrize("name", WRITES)
def test_no_operation_writes_for_a_blocked_agent(blocked: Program, name: str) -> None:
    method, path, _told = OPERATIONS[name]
    with rows_written() as tables:
        answer = blocked.send(method, address(path, NOWHERE), {}, If_Match="*")

    assert "blocked “desk” from writing" in problem(answer, 403)["detail"]
    assert tables <= COUNTED


@pytest.mark.parametrize("name", TOOLS)
def test_no_tool_writes_for_a_blocked_agent(blocked: Program, name: str) -> None:
    context = caller_of(blocked.token).context()
    with rows_written() as tables:
        answer = call_tool(context, name, {})

    assert (answer.is_error, answer.data["error"]) == (True, "locked")
    assert "blocked “desk” from writing" in answer.text
    assert tables <= CALLED


def test_a_source_that_is_refused_is_refused_through_both_interfaces(
    alice: User, agent: Program
) -> None:
    blocking.refuse(alice, "source", "GOAL:pay", by=alice.actor)
    context = caller_of(agent.token).context()

    told = problem(agent.post("/observations", {"findings": ["Pay."], "source": "GOAL:pay"}), 403)
    answer = call_tool(context, "remember_fil", {"findings": ["Pay."], "source": "GOAL:pay"})
    assert "blocked “GOAL:pay”" in told["detail"]
    assert (answer.is_error, "blocked “GOAL:pay”" in answer.text) == (True, True)
    assert not Observation.objects.exists()


def test_a_blocked_agent_still_reads(blocked: Program) -> None:
    assert blocked.get("/notes").status_code == 200
    assert blocked.get("/files/facts/user.md").status_code == 200


def test_a_question_asked_before_the_block_is_not_answered_after_it(
    alice: User, agent: Program
) -> None:
    session = agent.post("/sessions", {}).json()["id"]
    said = agent.post(f"/sessions/{session}/messages", {"content": "What is new?"}).json()
    blocking.refuse(alice, "agent", "desk", by=alice.actor)

    turn.answer(said["answer"]["id"])

    answer = Message.objects.get(pk=said["answer"]["id"])
    assert answer.state == "failed"
    assert "blocked “desk” from writing" in answer.notice
