"""Reading a chat completion that nobody vouches for: every field is looked at before it is used."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beacon_site.providers.errors import ProviderError
from beacon_site.providers.llm import Message, Tool, ToolCall, Usage

CHARACTERS_PER_TOKEN = 4
MOST_TOKENS = 10**8  # of one answer; what a server counts beyond is no count


class CallFailed(Exception):
    """One call failed: what the server said, and the failure that the caller is told.

    `status` is 0 where no answer came; `code` and `said` are the server's own words.  `too_large`
    marks an answer that was refused for its size: it may have cost all the tokens allowed.
    `timed_out` is a server that let the whole time pass, which is not asked at once again.
    `lost` holds what streams that broke off had said: it was paid for.
    """

    def __init__(
        self,
        failure: ProviderError,
        *,
        status: int = 0,
        code: str = "",
        said: str = "",
        too_large: bool = False,
        timed_out: bool = False,
        lost: tuple[str, ...] = (),
    ) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.status = status
        self.code = code
        self.said = said
        self.too_large = too_large
        self.timed_out = timed_out
        self.lost = lost


@dataclass(frozen=True, slots=True)
class Completion:
    """The body of one completion, whether it came in pieces, and what was lost before it."""

    body: dict[str, Any]
    streamed: bool = False
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What one completion says.  `usage` is None where the server counts no tokens."""

    text: str
    refusal: str
    finish_reason: str
    model: str
    tool_calls: tuple[ToolCall, ...]
    usage: Usage | None


def read_reply(body: Mapping[str, Any]) -> ChatReply | None:
    """Return the first choice of a completion, or None if there is none in it."""
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(first, dict) or not isinstance(message, dict):
        return None
    return ChatReply(
        text=_content(message.get("content")),
        refusal=_string(message.get("refusal")),
        finish_reason=_string(first.get("finish_reason")),
        model=_string(body.get("model")),
        tool_calls=_tool_calls(message.get("tool_calls")),
        usage=_usage(body.get("usage")),
    )


def estimate(messages: Sequence[Message], text: str) -> Usage:
    """Return the usage guessed from lengths, four characters to the token, marked as such."""
    asked = sum(len(message.content) for message in messages)
    return Usage(
        -(-asked // CHARACTERS_PER_TOKEN), -(-len(text) // CHARACTERS_PER_TOKEN), estimated=True
    )


def wasted(failed: CallFailed, messages: Sequence[Message], max_tokens: int) -> Usage:
    """Return what a call that failed may have cost all the same.

    A refused flood counts all that it was allowed, a stream that broke off what it said.
    """
    spent = Usage()
    for text in failed.lost:
        spent += estimate(messages, text)
    if failed.too_large:
        asked = estimate(messages, "").prompt_tokens
        spent += Usage(asked, max_tokens, estimated=True)
    return spent


def wire_message(message: Message) -> dict[str, Any]:
    """Return a message as the API takes it; lone surrogates, which JSON cannot carry, become ?"""
    wire: dict[str, Any] = {
        "role": message.role,
        "content": message.content.encode("utf-8", "replace").decode("utf-8"),
    }
    if message.tool_calls:
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def wire_tool(tool: Tool) -> dict[str, Any]:
    """Return a tool as the API takes it."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def plain_text(text: str) -> str:
    """Return `text` without what neither UTF-8 nor Postgres holds: lone surrogates and NUL.

    JSON can escape both.  Two halves of one character, which came in two pieces, are joined.
    """
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\x00", "")


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _content(value: object) -> str:
    """Return the text of a content field: a string, or a list of parts as some servers send."""
    if isinstance(value, list):
        value = "".join(_string(part.get("text")) for part in value if isinstance(part, dict))
    return plain_text(_string(value))


def _tool_calls(value: object) -> tuple[ToolCall, ...]:
    calls = []
    for item in value if isinstance(value, list) else []:
        function = item.get("function") if isinstance(item, dict) else None
        if isinstance(function, dict) and (name := _string(function.get("name"))):
            arguments = _arguments(function.get("arguments"))
            calls.append(ToolCall(_string(item.get("id")), name, arguments))
    return tuple(calls)


def _arguments(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    text = _string(value)
    try:
        parsed = json.loads(text or "{}")
    except (ValueError, RecursionError):
        parsed = None
    return parsed if isinstance(parsed, dict) else {"_unparsed": text}


def _usage(value: object) -> Usage | None:
    if not isinstance(value, dict):
        return None
    prompt = _count(value.get("prompt_tokens"))
    completion = _count(value.get("completion_tokens"))
    if prompt is None or completion is None:
        return None
    return Usage(prompt, completion) if prompt or completion else None


def _count(value: object) -> int | None:
    """Return a number of tokens, 0 where none is given, None for what can be no such number."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_TOKENS:
        return None
    return value
