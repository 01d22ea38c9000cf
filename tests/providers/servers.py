"""Loopback servers that simulate a model endpoint and search services.

    with ScriptedChatServer() as chat, SerpApiServer(results=[result(1)]) as serp:
        chat.enqueue(says("hello"), status(500), fenced({"queries": ["a"]}))
        chat.standing = lambda body: "text" or {"json": 1} or a scene, decided from the request

What any server plays is in loopback.py, the search services' own servers in
search_servers.py; both are named here too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from werkzeug import Request, Response

from tests.providers.chat_streams import in_pieces
from tests.providers.loopback import (
    LoopbackServer,
    Scene,
    body_of,
    cut,
    html,
    json_answer,
    slow,
    status,
    trickle,
)
from tests.providers.search_servers import (
    HOURLY,
    NOTHING_FOUND,
    OUT_OF_SEARCHES,
    SerpApiServer,
    result,
)

__all__ = [
    "HOURLY",
    "NOTHING_FOUND",
    "OUT_OF_SEARCHES",
    "LoopbackServer",
    "Scene",
    "ScriptedChatServer",
    "SerpApiServer",
    "cut",
    "html",
    "result",
    "slow",
    "status",
    "trickle",
]

QUOTA = "You exceeded your current quota, please check your plan and billing details."
FIVE_MB = 5 * 1024 * 1024


# --- a model's answers --------------------------------------------------------------------------


def says(
    content: str | None,
    *,
    finish_reason: str = "stop",
    usage: Mapping[str, object] | None = None,
    refusal: str | None = None,
    pace: float = 0.0,
    **message: object,
) -> Scene:
    """A chat completion with this text; usage is 10 and 5 tokens unless given ({} for none).

    Asked for in pieces it is sent so, `pace` seconds between two of them.
    """
    usage = {"prompt_tokens": 10, "completion_tokens": 5} if usage is None else usage
    body: dict[str, object] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "loopback-1",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "message": {
                    "role": "assistant",
                    "content": content,
                    "refusal": refusal,
                    **message,
                },
            }
        ],
    }
    if usage:
        body["usage"] = dict(usage)

    def scene(request: Request) -> Response:
        streams = body_of(request).get("stream")
        return in_pieces(body, request, pace) if streams else json_answer(body)

    return scene


def calls_tool(name: str, arguments: object, call_id: str = "call-1") -> Scene:
    """An answer with a tool call; arguments that aren't text are sent as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
    return says(None, finish_reason="tool_calls", tool_calls=[call])


def in_one(scene: Scene) -> Scene:
    """An endpoint that doesn't stream: it always sends the whole answer."""

    def played(request: Request) -> Response:
        body = {**body_of(request), "stream": False}
        plain = Request.from_values(
            request.path, method="POST", data=json.dumps(body), content_type="application/json"
        )
        return scene(plain)

    return played


def huge(size: int = FIVE_MB) -> Scene:
    """A whole and valid answer of `size` bytes."""
    return says("word " * (size // 5))


def bare(data: object) -> Scene:
    """JSON and nothing else."""
    return says(json.dumps(data, ensure_ascii=False))


def fenced(data: object) -> Scene:
    """JSON in a code fence, with a sentence before it."""
    return says(f"Here you are:\n\n```json\n{json.dumps(data, indent=2)}\n```\n")


def in_prose(data: object) -> Scene:
    """JSON within prose that contains brackets."""
    return says(f"As [1] says {{so}}, I answer: {json.dumps(data)} – I hope that helps [2].")


def half(data: object) -> Scene:
    """The first half of the JSON, cut by the token limit."""
    text = json.dumps(data)
    return says(text[: len(text) * 2 // 3], finish_reason="length")


def another_language() -> Scene:
    """An answer in a language that wasn't asked for."""
    return says("Entschuldigung, das kann ich Ihnen leider nicht als Daten geben. 抱歉。")


def refuses() -> Scene:
    """A refusal in its own field."""
    return says(None, refusal="I cannot help with that.")


def quota() -> Scene:
    """429 for an account without credit."""
    return status(429, {"message": QUOTA, "code": "insufficient_quota"})


def rate(seconds: str = "7") -> Scene:
    """429 with a Retry-After."""
    return status(
        429,
        {"message": "Rate limit reached", "code": "rate_limit_exceeded"},
        {"Retry-After": seconds},
    )


def only_without(kind: str, code: int, then: Scene) -> Scene:
    """A server that answers `code` to one kind of response_format, and otherwise plays `then`."""

    def scene(request: Request) -> Response:
        asked = (body_of(request).get("response_format") or {}).get("type")
        if asked == kind:
            return json_answer({"error": {"message": f"response_format {kind} failed"}}, code)
        return then(request)

    return scene


@dataclass(frozen=True, slots=True)
class AskedChat:
    """One request to the chat server; header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    query: str = ""

    @property
    def prompt(self) -> str:
        """Return all message texts, a line apart."""
        return "\n".join(str(message["content"]) for message in self.body["messages"])

    @property
    def mode(self) -> str:
        """Return json_schema, json_object or "" for none."""
        return str((self.body.get("response_format") or {}).get("type", ""))


Standing = Callable[[dict[str, Any]], "str | dict[str, Any] | list[Any] | Scene"]


class ScriptedChatServer(LoopbackServer):
    """Chat completions under /v1.

    `standing` gets the request's body and decides what is said: a text, data (sent as JSON), or
    a scene.  Only what is asked of the chat is in `asked`, and plays scenes; beside it there are
    the list of `models` (names, or whole entries), `embeddings` (dimensions by model's name) and
    `pages` (JSON, or a scene, by path), of which `looked` keeps the paths.  `pace` is the seconds
    between two pieces of a standing answer that is streamed.
    """

    def __init__(self, standing: Standing | str = "hello") -> None:
        super().__init__()
        self.asked: list[AskedChat] = []
        self._anew(standing)

    def _anew(self, standing: Standing | str) -> None:
        self.standing = standing
        self.models: list[Any] = ["loopback-1"]
        self.embeddings: dict[str, int] = {}
        self.pages: dict[str, Any] = {}
        self.looked: list[str] = []
        self.pace = 0.0

    def forget(self) -> None:
        super().forget()
        self.asked.clear()
        self._anew("hello")

    @property
    def base_url(self) -> str:
        """Return what BEACON_LLM_BASE_URL is set to."""
        return f"{self.origin}/v1"

    def record(self, request: Request) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        query = request.query_string.decode()
        self.asked.append(AskedChat(request.path, headers, body_of(request), query))

    def stand(self, request: Request) -> Response:
        said = self.standing(body_of(request)) if callable(self.standing) else self.standing
        if callable(said):
            return said(request)
        text = said if isinstance(said, str) else json.dumps(said)
        return says(text, pace=self.pace)(request)

    def _play(self, request: Request) -> Response:
        if request.path.endswith("/chat/completions"):
            return super()._play(request)
        self.looked.append(request.full_path.rstrip("?"))
        page = self.pages.get(request.path)
        if callable(page):
            answer: Response = page(request)
            return answer
        if page is not None:
            return json_answer(page)
        if request.path == "/v1/models":
            entries = [{"id": one} if isinstance(one, str) else one for one in self.models]
            return json_answer({"object": "list", "data": entries})
        size = self.embeddings.get(str(body_of(request).get("model")))
        if request.path == "/v1/embeddings" and size:
            return json_answer({"data": [{"index": 0, "embedding": [0.5] * size}]})
        return json_answer({"error": {"message": "nothing is here", "code": 404}}, 404)
