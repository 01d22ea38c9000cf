"""A conversation in which a model calls tools: limited, recorded, and always ended.

Data flow: messages -> the model and the tools it can call -> `memory.agents.tools.registry` makes each
call and its answer, or its error, goes back as a message -> the next round, up to a limit.
With a content store, answers are kept there in full and sent in shorter forms turn by turn
(`memory.agents.tools.output_store`).  Ask, reflection and the tracks of deep runs use this loop.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import structlog
from django.utils.translation import gettext as _

from beacon_site.net.errors import ProviderError, ToolsRefused
from beacon_site.providers.llm.base import Answer, Message, OnText, Tool, ToolCall, Usage
from beacon_site.providers.llm.tokens import (
    BYTES_PER_TOKEN,
    tokens_of,
    tokens_of_tools,
    trimmed,
    without_calls,
)
from beacon_site.text.cleaning import clean, shorten
from beacon_site.text.messages import grouped
from memory.agents.tools import registry
from memory.agents.tools.output_store import ResultStore, StoredOutput
from memory.agents.tools.types import MemoryTool, ToolContext
from memory.models import Topic
from memory.services.llm import connections
from memory.services.llm.asking import BudgetReached, Meter, ask_model

logger = structlog.get_logger(__name__)

MAX_AT_ONCE = 8  # calls made in one round
MAX_CALLS = 40  # calls in one loop
MAX_SECONDS = 480.0  # leaves a slow last answer time before the task's soft limit
MAX_TOKENS = 400_000  # tokens one loop can spend, whatever its payer allows
MAX_KEPT_LENGTH = 4_000  # characters of a result kept in a row
DEEPEST = 20  # maximum nesting of arguments
RESULT_SHARE = 4  # one result takes at most a quarter of the window
ANSWERED, ROUNDS, TOKENS, TIME, FAILED = "answered", "rounds", "tokens", "time", "failed"
_BAD_NAME = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One tool call as it is kept: the request, and the answer the model got.

    `kept` is the result in a content store. `data["content_item"]` then names its item.
    """

    round: int
    tool: str
    arguments: dict[str, Any]
    result: str
    is_error: bool
    data: dict[str, Any] = field(default_factory=dict)
    milliseconds: int = 0
    kept: StoredOutput | None = None

    def as_json(self) -> dict[str, Any]:
        """Return what a row keeps of it, including the compact form of a result in the content
        store.
        """
        row = {
            "round": self.round,
            "tool": self.tool,
            "arguments": self.arguments,
            "result": self.result[:MAX_KEPT_LENGTH],
            "is_error": self.is_error,
        }
        if self.kept is not None and self.kept.item is not None:
            row |= {"content_item": str(self.kept.item.pk), "compact": self.kept.compact}
        return row


@dataclass(slots=True)
class LoopResult:
    """The result of a loop.

    `why_ended` is `answered`, or what stopped it: `rounds`, `tokens`, `time` or `failed`
    (`failure` has the reason, and earlier work is kept).  `notice` is a message for people, if
    there is one, such as that the endpoint doesn't support tools.
    """

    text: str
    calls: list[CallRecord]
    rounds: int
    why_ended: str
    notice: str = ""
    failure: ProviderError | BudgetReached | None = None
    without_tools: bool = False


def run_loop(
    purpose: str,
    messages: Sequence[Message],
    *,
    context: ToolContext,
    tools: Sequence[str | MemoryTool],
    rounds: int,
    source: str,
    topic: Topic | None = None,
    meter: Meter | None = None,
    max_tokens: int = 2048,
    on_text: OnText | None = None,
    on_call: Callable[[CallRecord], None] | None = None,
    must_answer: bool = False,
    seconds: float = MAX_SECONDS,
    wait_for: Callable[[Callable[[], Answer]], Answer] | None = None,
    store: ResultStore | None = None,
    most_calls: int = MAX_CALLS,
) -> LoopResult | None:
    """Let the model call the given tools for at most `rounds` rounds; None if no model is set up.

    No round starts after `seconds`, and the budget is checked before each. With `must_answer`, a
    model that still calls tools in its last round is asked again without tools. `on_call` receives
    each completed call. A tool that isn't in the registry is passed as an object instead of a name.
    `wait_for` runs each model call, so that the caller can do other work in the meantime. With a
    `store`, results are kept there and sent in full for one turn at most.

    Raises what `ask_model` raises if the first model call fails; a later failure ends the loop with
    the work done so far. Errors from `on_text` and `on_call` are raised.
    """
    model = connections.model_for(topic, purpose)
    if model is None:
        return None
    fields: dict[str, Any] = {
        "owner": context.owner, "source": source, "topic": topic, "max_tokens": max_tokens,
        "meter": meter, "on_text": on_text, "wait_for": wait_for,
    }  # fmt: skip
    loop = _Loop(
        context=context,
        tools=tuple(tools),
        ask=lambda talk, offered: ask_model(purpose, talk, tools=offered, **fields),
        on_call=on_call,
        window=max(model.profile.context_tokens - max_tokens, 1_000),
        without_tools=model.profile.tools is False,
        ends_at=time.monotonic() + seconds,
        most_calls=most_calls,
        store=store,
    )
    return loop.run(list(messages), rounds, must_answer=must_answer)


@dataclass(slots=True)
class _Loop:
    """One loop: its limits, its messages and its calls so far.

    `window` is the limit in tokens for one request; no round starts after `ends_at` (monotonic).
    """

    context: ToolContext
    tools: tuple[str | MemoryTool, ...]
    ask: Callable[[Sequence[Message], Sequence[Tool]], Answer | None]
    on_call: Callable[[CallRecord], None] | None
    window: int
    without_tools: bool
    ends_at: float
    most_calls: int
    store: ResultStore | None
    messages: list[Message] = field(default_factory=list)
    calls: list[CallRecord] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    text: str = ""
    round: int = 0
    kept: dict[str, tuple[int, StoredOutput]] = field(
        default_factory=dict
    )  # by the call's ID, with its round

    def run(self, messages: list[Message], rounds: int, *, must_answer: bool) -> LoopResult | None:
        """Run rounds until the model answers or a limit is reached."""
        self.messages = messages
        for number in range(1, rounds + 1):
            self.round = number
            try:
                answer = self._asked(registry.tools_for(self.tools))
            except (ProviderError, BudgetReached) as exc:
                if number == 1:
                    raise
                return self._failed(number - 1, exc)
            if answer is None:
                return None
            self.usage += answer.usage
            self.text = answer.text or self.text
            if not answer.tool_calls:
                self.messages.append(Message("assistant", answer.text))
                notice = _no_tools() if self.without_tools else ""
                return self._result(number, ANSWERED, notice)
            self._perform(number, answer)
            if self.usage.total > MAX_TOKENS:
                params = {"n": grouped(self.usage.total), "most": grouped(MAX_TOKENS)}
                words = _("Stopped after %(n)s tokens. The limit is %(most)s.")
                return self._result(number, TOKENS, words % params)
            if time.monotonic() >= self.ends_at:
                words = _("Stopped in round %(n)d because the model took too long.")
                return self._result(number, TIME, words % {"n": number})
        return self._last_word(rounds) if must_answer else self._out_of_rounds(rounds)

    def _asked(self, offered: Sequence[Tool]) -> Answer | None:
        """Call the model, without tools if the endpoint doesn't support them."""
        talk = self._fitting(offered)
        if not self.without_tools:
            try:
                return self.ask(talk, offered)
            except ToolsRefused as exc:
                logger.info("asked without tools", why=str(exc))
                self.without_tools = True
        return self.ask(without_calls(talk), ())

    def _fitting(self, offered: Sequence[Tool]) -> list[Message]:
        most, talk = self.window - tokens_of_tools(offered), self._talk()
        if tokens_of(*talk) <= most:
            return talk
        return trimmed(talk, most)

    def _talk(self) -> list[Message]:
        """Return the messages to send in this round, with each kept result in its current form."""
        if self.store is None:
            return list(self.messages)
        self.store.reload_items(kept for _number, kept in self.kept.values())
        return [self._as_sent(message) for message in self.messages]

    def _as_sent(self, message: Message) -> Message:
        if self.store is None or message.tool_call_id not in self.kept:
            return message
        number, kept = self.kept[message.tool_call_id]
        return replace(message, content=self._shown(self.store.sent(kept, self.round - number)))

    def _perform(self, number: int, answer: Answer) -> None:
        """Make the calls of one round in order, and answer each of them.

        Two identical calls in one round are made once.
        """
        calls = [
            _sendable_call(call, number, place) for place, call in enumerate(answer.tool_calls, 1)
        ]
        self.messages.append(Message("assistant", answer.text, tuple(calls)))
        done: dict[str, CallRecord] = {}
        for place, call in enumerate(calls):
            key = f"{call.name} {call.arguments}"
            record = done.get(key) or self._one(number, place, call)
            if record.kept is not None:
                self.kept[call.id] = (
                    number,
                    record.kept if key not in done else record.kept.again(),
                )
            if key not in done:
                done[key] = record
                self.calls.append(record)
                if self.on_call is not None:
                    self.on_call(record)
            self.messages.append(Message("tool", self._shown(record.result), (), call.id))

    def _one(self, number: int, place: int, call: ToolCall) -> CallRecord:
        if refusal := self._refusal(place):
            return CallRecord(number, call.name, call.arguments, refusal, is_error=True)
        offered, began = self.tools, time.monotonic()
        result = registry.call_tool(self.context, call.name, call.arguments, among=offered)
        took = round((time.monotonic() - began) * 1000)
        kept = (
            self.store.keep(call.name, result, call.arguments) if self.store is not None else None
        )
        return CallRecord(
            number,
            call.name,
            call.arguments,
            result.text,
            result.is_error,
            result.data | (kept.as_data() if kept is not None else {}),
            took,
            kept,
        )

    def _refusal(self, place: int) -> str:
        """Return why no further call is made, so that the model can adapt; empty if it is made."""
        params = {"most": MAX_AT_ONCE, "all": self.most_calls}
        if place >= MAX_AT_ONCE:
            words = _(
                "This call was skipped because at most %(most)d calls can run at once. Repeat it in the next round."
            )
            return words % params
        if len(self.calls) >= self.most_calls:
            words = _(
                "This call was skipped. The limit is %(all)d calls in total. Answer with what you have."
            )
            return words % params
        return ""

    def _shown(self, text: str) -> str:
        """Return as much of a result as fits in the window."""
        most = max(self.window // RESULT_SHARE * BYTES_PER_TOKEN, 2_000)
        if len(text) <= most:
            return text
        params = {"most": grouped(most), "have": grouped(len(text))}
        words = _("(Truncated to the first %(most)s of %(have)s characters.)") % params
        return f"{text[:most]}\n\n{words}"

    # --- end ---

    def _last_word(self, rounds: int) -> LoopResult:
        """Call the model again without tools, for an answer from what it has."""
        task = _("Answer now with what you have. You can’t call any more tools.")
        self.messages.append(Message("user", task))
        self.round = rounds + 1
        try:
            answer = self.ask(without_calls(self._fitting(())), ())
        except (ProviderError, BudgetReached) as exc:
            return self._failed(rounds, exc)
        if answer is not None:
            self.usage += answer.usage
            self.text = answer.text or self.text
            self.messages.append(Message("assistant", answer.text))
        return self._out_of_rounds(rounds)

    def _out_of_rounds(self, rounds: int) -> LoopResult:
        words = _("Stopped at the limit of %(n)d rounds of tool calls.")
        return self._result(rounds, ROUNDS, words % {"n": rounds})

    def _failed(self, rounds: int, exc: ProviderError | BudgetReached) -> LoopResult:
        params = {"n": rounds, "why": shorten(str(exc), 300)}
        words = _("Stopped in round %(n)d. Earlier work is kept. Reason: %(why)s")
        return replace(self._result(rounds, FAILED, words % params), failure=exc)

    def _result(self, rounds: int, why: str, notice: str = "") -> LoopResult:
        return LoopResult(
            text=self.text,
            calls=self.calls,
            rounds=rounds,
            why_ended=why,
            notice=notice,
            without_tools=self.without_tools,
        )


def _no_tools() -> str:
    return _("The model’s endpoint doesn’t support tools, so the answer was written without them.")


def _sendable_call(call: ToolCall, number: int, place: int) -> ToolCall:
    """Return the call with an ID of our own, and a name and arguments that can be sent and stored.

    Servers omit IDs or repeat them, and a model can write anything as a name.
    """
    name = _BAD_NAME.sub("_", call.name)[:64] or "_"
    return ToolCall(f"call{number}x{place}", name, _cleaned(call.arguments))


def _cleaned(value: Any, depth: int = 0) -> Any:
    """Return arguments without what no row can store: NUL, lone surrogates, NaN, deep nesting."""
    if isinstance(value, str) or depth > DEEPEST:
        return clean(str(value))[0]
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, dict):
        return {clean(str(key))[0]: _cleaned(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list):
        return [_cleaned(one, depth + 1) for one in value]
    return value
