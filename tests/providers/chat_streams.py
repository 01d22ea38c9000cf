"""Answers of a model that come in pieces, whole and broken, as server-sent events."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from werkzeug import Request, Response

from tests.providers.loopback import Scene, body_of

PIECES = 8  # into which a text is cut, unless a scene says otherwise
DONE = "[DONE]"


def chunk(delta: Mapping[str, object] | None, finish_reason: str | None = None) -> dict[str, Any]:
    """One chunk of a stream; None for the delta is the chunk of the usage, without choices."""
    choices = [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "loopback-1",
        "choices": choices if delta is not None else [],
    }


def sse(*events: object, pace: float = 0.0, end: bytes = b"\n\n") -> Scene:
    """A stream of these events: dictionaries are sent as JSON, text and bytes unchanged."""

    def lines() -> Iterator[bytes]:
        for event in events:
            time.sleep(pace)
            if isinstance(event, bytes):
                yield event
            else:
                text = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
                yield b"data: " + text.encode() + end

    return lambda _request: Response(lines(), content_type="text/event-stream")


def text_chunks(*pieces: str) -> list[dict[str, Any]]:
    """The chunks of a text in these pieces, not yet finished."""
    return [chunk({"role": "assistant", "content": ""}), *(chunk({"content": p}) for p in pieces)]


def in_pieces(body: Mapping[str, Any], request: Request, pace: float = 0.0) -> Response:
    """Send a completion's body as a stream, like OpenAI."""
    choice = body["choices"][0]
    message = choice["message"]
    events: list[object] = text_chunks(*_cut(message.get("content") or ""))
    if message.get("refusal"):
        events.append(chunk({"refusal": message["refusal"]}))
    for place, call in enumerate(message.get("tool_calls") or ()):
        events += _call_chunks(place, call)
    events.append(chunk({}, choice["finish_reason"]))
    options = body_of(request).get("stream_options") or {}
    if options.get("include_usage") and body.get("usage"):
        events.append({**chunk(None), "usage": body["usage"]})
    return sse(*events, DONE, pace=pace)(request)


def cut_stream(*pieces: str) -> Scene:
    """A stream that ends properly as HTTP, but in the middle of the answer."""
    return sse(*text_chunks(*(pieces or ("half an ", "ans"))))


def torn_stream(*pieces: str) -> Scene:
    """A stream whose connection is closed in the middle of a chunk."""

    def scene(request: Request) -> Response:
        made = sse(*text_chunks(*(pieces or ("half an ", "ans"))), b'data: {"choi')(request)
        made.headers["Content-Length"] = "500000"
        made.automatically_set_content_length = False
        return made

    return scene


def endless(piece: str = "word ", *, pace: float = 0.0, seconds: float = 30) -> Scene:
    """A stream that continues for longer than a client should listen."""

    def lines() -> Iterator[bytes]:
        line = f"data: {json.dumps(chunk({'content': piece}))}\n\n".encode()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(pace)
            yield line

    return lambda _request: Response(lines(), content_type="text/event-stream")


def falls_silent(seconds: float, *pieces: str, closing: object = None) -> Scene:
    """A stream that sends something and then nothing, with its connection left open."""

    def lines() -> Iterator[bytes]:
        for event in (*text_chunks(*pieces), *([closing] if closing else ())):
            yield f"data: {json.dumps(event)}\n\n".encode()
        time.sleep(seconds)

    return lambda _request: Response(lines(), content_type="text/event-stream")


def error_event(error: object, *pieces: str) -> Scene:
    """A stream that reports an error after some text."""
    return sse(*text_chunks(*pieces), {"error": error})


def _cut(text: str) -> Sequence[str]:
    size = max(1, -(-len(text) // PIECES))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _call_chunks(place: int, call: Mapping[str, Any]) -> list[object]:
    """The chunks of one tool call: its name first, its arguments after it in pieces."""
    function = call["function"]
    first = {
        "index": place,
        "id": call.get("id"),
        "type": "function",
        "function": {"name": function["name"], "arguments": ""},
    }
    rest = [
        {"index": place, "function": {"arguments": piece}} for piece in _cut(function["arguments"])
    ]
    return [chunk({"tool_calls": [part]}) for part in (first, *rest)]
