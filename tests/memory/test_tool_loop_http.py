"""The tool loop against a real endpoint: what goes over the wire, and how broken answers are borne."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beacon_site.providers.llm.base import LlmProfile, Message
from beacon_site.providers.llm.openai_model import OpenAIModel
from memory.agents.tools import registry as tools
from memory.agents.tools.loop import LoopResult, run_loop
from memory.agents.tools.types import ToolContext
from memory.models.actors import REFLECTOR
from memory.services.files.saving import save_file
from memory.services.llm import connections
from tests.providers.servers import ScriptedChatServer, calls_tool, cut, says, status

FACTS = "# User\n\n> Summary: tea\n\n- Drinks: tea\n"


@pytest.fixture
def loop(
    chat: ScriptedChatServer, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., LoopResult]:
    """Run the loop over memory's own tools against the endpoint."""
    save_file(alice, "facts/user.md", FACTS, by=alice.actor)
    model = OpenAIModel(LlmProfile(chat.base_url, "tiny", timeout=3))
    monkeypatch.setattr(connections, "language_model", lambda: model)

    def run(*scenes: Any) -> LoopResult:
        chat.enqueue(*scenes)
        context = ToolContext(alice, REFLECTOR, "run:1")
        names = ["memory_read", "memory_append"]
        messages = [Message("user", "What do I drink?")]
        result = run_loop("ask", messages, context=context, tools=names, rounds=4, source="run:1")
        assert result is not None
        return result

    return run


def test_the_endpoint_is_offered_the_tools_and_told_what_they_answered(
    loop: Callable[..., LoopResult], chat: ScriptedChatServer
):
    result = loop(calls_tool("memory_read", {"path": "facts/user.md"}, ""), says("Tea."))

    offered, told = (asked.body for asked in chat.asked[-2:])
    assert [one["function"]["name"] for one in offered["tools"]] == ["memory_read", "memory_append"]
    assert offered["tools"][0]["function"]["parameters"]["required"] == ["path"]
    call, answer = told["messages"][-2:]
    assert answer["tool_call_id"] == call["tool_calls"][0]["id"] != ""
    assert answer["content"] == FACTS and result.text == "Tea."


def test_arguments_that_are_no_json_and_tools_that_are_not_there_are_told_to_the_model(
    loop: Callable[..., LoopResult], chat: ScriptedChatServer
):
    result = loop(
        calls_tool("memory_read", '{"path": "facts/us'), calls_tool("rm", {}), says("I see.")
    )

    assert [call.is_error for call in result.calls] == [True, True]
    assert "no tool “rm” here" in chat.asked[-1].body["messages"][-1]["content"]


@pytest.mark.parametrize(
    "refusal",
    [
        status(500, {"message": "tools param requires --jinja flag"}),
        status(400, {"message": "tiny does not support tools"}),
    ],
)
def test_an_endpoint_that_takes_no_tools_is_asked_without(
    loop: Callable[..., LoopResult], chat: ScriptedChatServer, refusal: Any
):
    chat.standing = lambda body: refusal if "tools" in body else "I cannot look."

    result = loop()

    assert (result.text, result.without_tools) == ("I cannot look.", True)
    assert "doesn’t support tools" in result.notice


def test_a_connection_that_breaks_later_keeps_what_was_done(loop: Callable[..., LoopResult]):
    entry = {"path": "facts/memory.md", "entry": "- looked"}

    result = loop(calls_tool("memory_append", entry), cut(), cut())

    assert (result.why_ended, len(result.calls)) == ("failed", 1)
    assert tools.REGISTRY["memory_append"].writes
