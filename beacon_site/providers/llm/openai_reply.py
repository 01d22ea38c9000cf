"""Read chat completions from a server that isn't trusted: every field is checked before it is used.

A streamed answer is assembled first: bytes -> lines -> `data:` events -> text, tool calls, finish
reason and usage -> the body of one completion, as an endpoint without streaming would have sent it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beacon_site.net.errors import ProviderError
from beacon_site.net.http import BodyTooLarge
from beacon_site.providers.llm.base import Message, Tool, ToolCall, Usage

# --- complete answers --------------------------------------------------------------------------

CHARACTERS_PER_TOKEN = 4
MAX_TOKENS = 10**8  # of one answer; a higher count of a server is ignored


class CallFailed(Exception):
    """One call failed: the server's error, and the failure to raise.

    `status` is 0 if there was no answer; `code` and `said` are the server's own words.  `too_large`
    marks an answer that was refused for its size and may have cost all allowed tokens.
    `timed_out` means that the server used up all the time, so it isn't retried immediately.
    `lost` holds the text of interrupted streams, which is billed.
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
    """The body of one completion, whether it was streamed, and texts lost before it."""

    body: dict[str, Any]
    streamed: bool = False
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatReply:
    """The contents of one completion.  `usage` is None if the server doesn't count tokens."""

    text: str
    refusal: str
    finish_reason: str
    model: str
    tool_calls: tuple[ToolCall, ...]
    usage: Usage | None


def read_reply(body: Mapping[str, Any]) -> ChatReply | None:
    """Return the first choice of a completion, or None if it has none."""
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
    """Estimate the usage at four characters per token."""
    count = sum(len(message.content) for message in messages)
    return Usage(
        -(-count // CHARACTERS_PER_TOKEN), -(-len(text) // CHARACTERS_PER_TOKEN), estimated=True
    )


def wasted(failed: CallFailed, messages: Sequence[Message], max_tokens: int) -> Usage:
    """Return what a failed call may have cost.

    An answer refused for its size counts all allowed tokens, an interrupted stream its text.
    """
    spent = Usage()
    for text in failed.lost:
        spent += estimate(messages, text)
    if failed.too_large:
        count = estimate(messages, "").prompt_tokens
        spent += Usage(count, max_tokens, estimated=True)
    return spent


def wire_message(message: Message) -> dict[str, Any]:
    """Return a message as the API expects it; lone surrogates, which JSON can't contain, become ?"""
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
    """Return a tool as the API expects it."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def plain_text(text: str) -> str:
    """Return `text` without lone surrogates and NUL, which UTF-8 and Postgres can't store.

    JSON can escape both.  Two halves of one character that came in two pieces are joined.
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
    """Return a number of tokens, 0 if none is given, None if it isn't valid."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_TOKENS:
        return None
    return value


# --- streamed answers --------------------------------------------------------------------------

OnText = Callable[[str], None]

EVERY = 0.2  # seconds between two calls of on_text
FIELDS = (b"data:", b"event:", b"id:", b"retry:", b"error:", b":")
BLANK = b"\xef\xbb\xbf\r\n\t "  # what can precede an answer: byte order mark and white space
DONE = b"[DONE]"
MAX_WHOLE_BYTES = 2 * 1024 * 1024  # bytes of an answer that isn't streamed
MAX_CALLS = 64  # tool calls in one answer
MAX_LINES = 32  # per event


class TooManyTokens(Exception):
    """A model wrote far more tokens than it was allowed."""


class StreamReading:
    """One answer being read; see `read`.

    `whole` holds the bytes of an answer that isn't a stream.  `error` is the server's error in the
    middle of a stream.  `is_complete` is False for an answer that was cut off.
    """

    def __init__(self, on_text: OnText, *, most_characters: int) -> None:
        self.whole: bytes | None = None
        self.is_stream = False
        self.error: dict[str, Any] | None = None
        self.is_complete = False
        self.finish_reason = ""
        self._on_text = on_text
        self._most = most_characters
        self._size = 0
        self._pieces: list[str] = []
        self._refusal: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._model = ""
        self._usage: object = None
        self._choices = 0
        self._shown_at = float("-inf")
        self._shown = 0

    @property
    def text(self) -> str:
        """Return all text received so far."""
        return plain_text("".join(self._pieces))

    @property
    def has_begun(self) -> bool:
        """Return True if any part of a completion was received."""
        return self._choices > 0

    def read(self, chunks: Iterable[bytes], expect_the_end: Callable[[], None]) -> None:
        """Read to the end, calling on_text at most five times a second.

        `expect_the_end` is called when only the closing event is missing.  Raises
        TooManyTokens, BodyTooLarge, and whatever `chunks` and on_text raise.
        """
        for event in self._events(chunks):
            self._take(event)
            if self.error is not None:
                return
            if self.finish_reason:
                self.is_complete = True
                expect_the_end()
            if time.monotonic() >= self._shown_at + EVERY:
                self._show()
        self._show()

    def completion(self) -> dict[str, Any]:
        """Return the answer as the body of a completion that was not streamed."""
        message: dict[str, Any] = {"content": "".join(self._pieces)}
        if self._refusal:
            message["refusal"] = "".join(self._refusal)
        if self._calls:
            message["tool_calls"] = [self._calls[place] for place in sorted(self._calls)]
        choice = {"message": message, "finish_reason": self.finish_reason}
        return {"model": self._model, "choices": [choice], "usage": self._usage}

    # --- bytes to events ---------------------------------------------------------------------

    def _events(self, chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        """Yield each event's JSON object until the closing event.

        By the standard an empty line ends an event, but some servers omit it, so an event is
        complete as soon as its lines form one JSON value.
        """
        waiting: list[bytes] = []
        is_error = False
        for line in self._lines(chunks):
            name, _colon, value = line.partition(b":")
            value = value.strip()
            if name == b"event":
                is_error = value == b"error"
            if name not in (b"data", b"error"):
                if not line:
                    waiting.clear()
                continue
            if value == DONE:
                self.is_complete = True
                return
            waiting = [*waiting[-MAX_LINES:], value]
            parsed = _json_of(b"\n".join(waiting))
            if parsed is None:
                continue
            waiting.clear()
            if (is_error or name == b"error") and "error" not in parsed:
                parsed = {"error": parsed}
            yield parsed

    def _lines(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield complete lines; a body that doesn't begin like a stream goes to `whole`."""
        rest = bytearray()
        for chunk in chunks:
            rest += chunk
            if not self.is_stream:
                if rest and rest[0] in BLANK:  # keep-alives may come for minutes
                    rest = rest.lstrip(BLANK)
                start = bytes(rest[:64])
                if _may_be_a_field(start):
                    self.is_stream = start.startswith(FIELDS)
                elif len(rest) > MAX_WHOLE_BYTES:
                    raise BodyTooLarge
            if self.is_stream and b"\n" in chunk:
                *lines, last = bytes(rest).split(b"\n")
                rest = bytearray(last)
                yield from (line.rstrip(b"\r").removeprefix(b"\xef\xbb\xbf") for line in lines)
        if self.is_stream and rest:
            yield bytes(rest).rstrip(b"\r")
        elif not self.is_stream:
            self.whole = bytes(rest)

    # --- events to an answer -------------------------------------------------------------------

    def _take(self, event: dict[str, Any]) -> None:
        choices = event.get("choices")
        if event.get("error") and not choices:
            self.error = event
            return
        if isinstance(event.get("model"), str) and event["model"]:
            self._model = event["model"]
        if event.get("usage"):
            self._usage = event["usage"]
        first = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(first, dict) or first.get("index") not in (0, None):
            return
        self._choices += 1
        delta = first.get("delta")
        if not isinstance(delta, dict):
            # Some servers end with the whole message; it is used only if nothing came before.
            delta = first.get("message") if not self._pieces else None
        if isinstance(delta, dict):
            self._take_delta(delta)
        if isinstance(first.get("finish_reason"), str):
            self.finish_reason = first["finish_reason"] or self.finish_reason

    def _take_delta(self, delta: dict[str, Any]) -> None:
        for field, kept in (("content", self._pieces), ("refusal", self._refusal)):
            if isinstance(piece := delta.get(field), str) and piece:
                kept.append(piece)
                self._count(piece)
        for field in ("reasoning_content", "reasoning"):
            self._count(delta.get(field))
        calls = delta.get("tool_calls")
        for piece in calls if isinstance(calls, list) else []:
            if isinstance(piece, dict):
                self._take_call(piece)

    def _take_call(self, piece: dict[str, Any]) -> None:
        """Add a piece of a tool call to the call that it belongs to."""
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        place = piece.get("index")
        if not isinstance(
            place, int
        ):  # some servers send no numbers; then a new name starts a new call
            place = max(self._calls, default=-1) + (1 if function.get("name") else 0)
        empty = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        call = self._calls.setdefault(max(place, 0), empty)
        if len(self._calls) > MAX_CALLS:
            raise TooManyTokens
        call["id"] = call["id"] or piece.get("id") or ""
        call["function"]["name"] = call["function"]["name"] or function.get("name") or ""
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments)
        if isinstance(arguments, str):
            call["function"]["arguments"] += arguments
            self._count(arguments)

    def _count(self, piece: object) -> None:
        if isinstance(piece, str):
            self._size += len(piece)
        if self._size > self._most:
            raise TooManyTokens

    def _show(self) -> None:
        if len(self._pieces) > self._shown:
            self._shown, self._shown_at = len(self._pieces), time.monotonic()
            self._on_text(self.text)


def _may_be_a_field(start: bytes) -> bool:
    """Return True if a line with this beginning is, or can become, a field of an event stream."""
    return not start or any(start.startswith(field) or field.startswith(start) for field in FIELDS)


def _json_of(text: bytes) -> dict[str, Any] | None:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else {}
