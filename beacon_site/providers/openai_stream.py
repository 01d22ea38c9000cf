"""Reading an answer that comes in pieces, from a server that nobody vouches for.

Data flow: bytes -> lines -> `data:` events -> text, tool calls, finish reason and usage put
together -> one completion's body, as an endpoint that does not stream would have sent it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from beacon_site.providers.http import BodyTooLarge
from beacon_site.providers.openai_reply import plain_text

OnText = Callable[[str], None]

EVERY = 0.2  # seconds between two calls of on_text
FIELDS = (b"data:", b"event:", b"id:", b"retry:", b"error:", b":")
BLANK = b"\xef\xbb\xbf\r\n\t "  # the signs before an answer: of the byte order, and white space
DONE = b"[DONE]"
LARGEST_WHOLE = 2 * 1024 * 1024  # bytes of an answer that is no stream
MOST_CALLS = 64  # tool calls in one answer
MOST_LINES = 32  # of one event


class WroteTooMuch(Exception):
    """A model wrote far on past the number of tokens that it was allowed."""


class StreamReading:
    """One answer being read; see `read`.

    `whole` holds the bytes of an answer that turned out to be no stream.  `error` is what the
    server said went wrong in mid-stream.  `is_complete` tells an answer that ended from one that
    was cut.
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
        """Return all text that came so far."""
        return plain_text("".join(self._pieces))

    @property
    def has_begun(self) -> bool:
        """Whether anything of a completion came."""
        return self._choices > 0

    def read(self, chunks: Iterable[bytes], expect_the_end: Callable[[], None]) -> None:
        """Read to the end, telling on_text at most five times a second.

        `expect_the_end` is called when the answer is complete but for a closing word.  Raises
        WroteTooMuch, BodyTooLarge, and whatever `chunks` and on_text raise.
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
        """Yield each event's JSON object until the server says that it is done.

        The standard closes an event with an empty line, which some servers leave out: an event is
        taken as soon as its lines make one JSON value.
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
            waiting = [*waiting[-MOST_LINES:], value]
            parsed = _json_of(b"\n".join(waiting))
            if parsed is None:
                continue
            waiting.clear()
            if (is_error or name == b"error") and "error" not in parsed:
                parsed = {"error": parsed}
            yield parsed

    def _lines(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield whole lines; what does not begin as a stream does goes to `whole`."""
        rest = bytearray()
        for chunk in chunks:
            rest += chunk
            if not self.is_stream:
                if rest and rest[0] in BLANK:  # keep-alives may come for minutes
                    rest = rest.lstrip(BLANK)
                start = bytes(rest[:64])
                if _may_be_a_field(start):
                    self.is_stream = start.startswith(FIELDS)
                elif len(rest) > LARGEST_WHOLE:
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
            # Some servers close with the whole message; it is news only where nothing came before.
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
        if not isinstance(place, int):  # some servers number none: a new name is a new call
            place = max(self._calls, default=-1) + (1 if function.get("name") else 0)
        empty = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        call = self._calls.setdefault(max(place, 0), empty)
        if len(self._calls) > MOST_CALLS:
            raise WroteTooMuch
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
            raise WroteTooMuch

    def _show(self) -> None:
        if len(self._pieces) > self._shown:
            self._shown, self._shown_at = len(self._pieces), time.monotonic()
            self._on_text(self.text)


def _may_be_a_field(start: bytes) -> bool:
    """Tell whether a line that begins so is, or may become, a field of an event stream."""
    return not start or any(start.startswith(field) or field.startswith(start) for field in FIELDS)


def _json_of(text: bytes) -> dict[str, Any] | None:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else {}
