"""The bounded conversation in which a model calls tools, whatever the model does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable, ToolsRefused
from beacon_site.providers.llm.base import Answer, Message, ToolCall, Usage
from memory.agents.tools import loop as tool_loop
from memory.agents.tools import registry as tools
from memory.agents.tools.loop import CallRecord, LoopResult, run_loop
from memory.agents.tools.types import Arguments, MemoryTool, ToolContext, ToolResult
from memory.models import ModelCall
from memory.models.actors import REFLECTOR
from memory.services.llm import connections
from memory.services.llm.asking import BudgetReached
from tests.providers.fakes import FAKE_PROFILE, FakeLanguageModel

Loop = Callable[..., LoopResult]
TASK = [Message("system", "You are Beacon."), Message("user", "What do I prefer?")]


class Path(Arguments):
    path: str


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were read by the one tool, `peek`, whose answer is their text."""
    paths: list[str] = []

    def run(_context: ToolContext, arguments: Path) -> ToolResult:
        paths.append(arguments.path)
        return ToolResult(f"text of {arguments.path}")

    peek = MemoryTool("peek", "Reads a file.", Path, run)
    other = MemoryTool("other", "Is not offered.", Path, run, writes=True)
    monkeypatch.setattr(tools, "REGISTRY", {"peek": peek, "other": other})
    return paths


@pytest.fixture
def loop(alice: Any, read: list[str], monkeypatch: pytest.MonkeyPatch) -> Loop:
    """Run the loop with a model that gives these answers; it is in `loop.model`."""

    def run(*answers: Any, **more: Any) -> LoopResult:
        model = FakeLanguageModel(*answers, profile=more.pop("profile", FAKE_PROFILE))
        monkeypatch.setattr(connections, "language_model", lambda: model)
        run.model = model  # type: ignore[attr-defined]
        context = ToolContext(alice, REFLECTOR, "run:1")
        more = {"tools": ["peek"], "rounds": 5, "source": "run:1", **more}
        result = run_loop("reflect", more.pop("messages", TASK), context=context, **more)
        assert result is not None
        return result

    return run


def calls(*paths: str, text: str = "", tool: str = "peek", **more: Any) -> Answer:
    wanted = [ToolCall(more.get("id", f"c{n}"), tool, {"path": p}) for n, p in enumerate(paths)]
    return Answer(text, Usage(10, 5), "fake", "tool_calls", tool_calls=tuple(wanted))


def told(loop: Loop) -> list[Message]:
    """Return what the model was sent last."""
    return list(loop.model.history[-1].messages)  # type: ignore[attr-defined]


def test_a_model_reads_and_answers_from_what_it_read(loop: Loop, read: list[str]):
    result = loop(calls("a.md"), "You prefer tea.")

    assert (result.text, result.why_ended, result.rounds) == ("You prefer tea.", "answered", 2)
    assert read == ["a.md"] and result.calls[0].result == "text of a.md"
    wanted, answer = told(loop)[-2:]
    assert answer == Message("tool", "text of a.md", (), wanted.tool_calls[0].id)


def test_all_calls_of_one_round_are_answered_in_their_order(loop: Loop):
    loop(calls("a.md", "b.md", "c.md", id="same"), "Done.")

    wanted, *answers = told(loop)[-4:]
    assert [one.content for one in answers] == ["text of a.md", "text of b.md", "text of c.md"]
    assert [one.tool_call_id for one in answers] == [call.id for call in wanted.tool_calls]
    assert len({one.tool_call_id for one in answers}) == 3


def test_the_same_call_twice_in_one_round_is_carried_out_once(loop: Loop, read: list[str]):
    result = loop(calls("a.md", "a.md"), "Done.")

    assert read == ["a.md"] and len(result.calls) == 1
    assert [one.content for one in told(loop)[-2:]] == ["text of a.md"] * 2


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("other", {"path": "a"}, "no tool “other” here"),
        ("rm -rf", {}, "no tool “rm_-rf” here"),
        ("peek", {"_unparsed": "{path"}, "weren’t a JSON object"),
        ("peek", {"path": 3, "more": 1}, "wasn’t called"),
    ],
)
def test_a_wrong_call_is_told_to_the_model_and_does_nothing(
    loop: Loop, read: list[str], tool: str, arguments: Any, said: str
):
    wrong = Answer("", Usage(), "fake", "tool_calls", tool_calls=(ToolCall("", tool, arguments),))

    result = loop(wrong, "I see.")

    assert result.calls[0].is_error and said in told(loop)[-1].content
    assert read == [] and result.text == "I see."


def test_a_model_that_never_stops_is_ended_with_what_it_has(loop: Loop, read: list[str]):
    result = loop(*[calls(f"{n}.md", text=f"thought {n}") for n in range(9)])

    assert (result.rounds, result.why_ended, len(read)) == (5, "rounds", 5)
    assert result.text == "thought 4" and "5 rounds" in result.notice


def test_where_an_answer_is_needed_it_is_requested_again_without_tools(loop: Loop):
    result = loop(calls("a.md"), calls("b.md"), "You prefer tea.", rounds=2, must_answer=True)

    assert (result.text, result.why_ended) == ("You prefer tea.", "rounds")
    last = loop.model.history[-1]  # type: ignore[attr-defined]
    assert last.tools == () and {one.role for one in last.messages} == {"system", "user"}
    assert "peek returned:\ntext of a.md" in last.prompt


def test_only_so_many_calls_are_carried_out_at_once(loop: Loop, read: list[str]):
    loop(calls(*[f"{n}.md" for n in range(20)]), "Done.")

    assert len(read) == tool_loop.MAX_AT_ONCE
    assert "at most 8 calls can run at once" in told(loop)[-1].content


def test_only_so_many_calls_are_carried_out_in_all(loop: Loop, read: list[str]):
    rounds = [calls(*[f"{turn}-{n}.md" for n in range(8)]) for turn in range(6)]

    loop(*rounds, "Done.", rounds=7)

    assert len(read) == tool_loop.MAX_CALLS
    assert "The limit is 40 calls in total" in told(loop)[-1].content


def test_where_the_last_word_fails_what_was_said_before_remains(loop: Loop):
    looked = calls("a.md", text="Let me look.")

    result = loop(looked, ProviderUnavailable("busy"), rounds=1, must_answer=True)

    assert (result.text, result.why_ended) == ("Let me look.", "failed")


def test_a_loop_ends_when_it_has_spent_its_tokens(loop: Loop):
    dear = replace(calls("a.md"), usage=Usage(tool_loop.MAX_TOKENS, 1))

    assert loop(dear).why_ended == "tokens"


def test_a_loop_ends_when_its_time_is_over_and_says_so(loop: Loop):
    result = loop(calls("a.md", text="So far."), "never asked", seconds=0)

    assert (result.why_ended, result.text) == ("time", "So far.")
    assert "took too long" in result.notice


def test_every_call_is_told_to_anyone_who_listens(loop: Loop):
    heard: list[CallRecord] = []

    result = loop(calls("a.md"), calls("b.md"), "Done.", on_call=heard.append)

    assert heard == result.calls and [one.round for one in heard] == [1, 2]
    assert heard[0].as_json() == {
        "round": 1,
        "tool": "peek",
        "arguments": {"path": "a.md"},
        "result": "text of a.md",
        "is_error": False,
    }


def test_a_failure_later_on_keeps_what_was_done(loop: Loop):
    result = loop(calls("a.md", text="Let me look."), ProviderUnavailable("busy"))

    assert (result.why_ended, result.rounds, len(result.calls)) == ("failed", 1, 1)
    assert isinstance(result.failure, ProviderUnavailable) and "busy" in result.notice


def test_a_failure_of_the_first_question_is_raised(loop: Loop):
    with pytest.raises(ProviderRejected):
        loop(ProviderRejected("wrong key"))


def test_the_budget_is_asked_before_each_round(loop: Loop):
    class Meter:
        left = 1

        def check(self) -> None:
            if not self.left:
                raise BudgetReached("nothing left")

        def count(self, *_spent: Any) -> None:
            self.left -= 1

    result = loop(calls("a.md"), "never asked", meter=Meter())

    assert result.why_ended == "failed" and isinstance(result.failure, BudgetReached)


@pytest.mark.parametrize("probed", [False, None])
def test_an_endpoint_without_tools_answers_in_plain_language_and_it_is_explained(
    loop: Loop, probed: bool | None
):
    answers = ["Plain."] if probed is False else [ToolsRefused("doesn’t support tools"), "Plain."]

    result = loop(*answers, profile=replace(FAKE_PROFILE, tools=probed))

    assert (result.text, result.without_tools) == ("Plain.", True)
    assert "doesn’t support tools" in result.notice
    assert loop.model.history[-1].tools == ()  # type: ignore[attr-defined]


def test_a_result_takes_at_most_a_quarter_of_the_window(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
):
    long = ToolResult("x" * 100_000)
    monkeypatch.setattr(tools, "call_tool", lambda *a, **k: long)
    small = replace(FAKE_PROFILE, context_tokens=8_192)

    loop(calls("a.md"), "Done.", profile=small)

    shown = told(loop)[-1].content
    assert len(shown) < 7_000 and "of 100,000 characters." in shown


def test_arguments_with_nul_nan_and_endless_nesting_can_be_stored(loop: Loop):
    nested: Any = "deep"
    for _level in range(200):
        nested = [nested]
    bad = {"path": "a\x00\ud800.md", "n": float("nan"), "deep": nested}
    wrong = Answer("", Usage(), "fake", "", tool_calls=(ToolCall("1", "peek", bad),))

    result = loop(wrong, "Done.")

    assert result.calls[0].arguments["path"] == "a.md"
    assert ModelCall.objects.filter(purpose="reflect").count() == 2


def test_without_a_model_there_is_no_loop(alice: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "language_model", lambda: None)
    context = ToolContext(alice, REFLECTOR, "run:1")

    assert run_loop("ask", TASK, context=context, tools=[], rounds=1, source="run:1") is None
