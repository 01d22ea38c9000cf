"""Loopback servers that stand in for a model endpoint and for SerpAPI, and record what they hear.

They speak real HTTP, so time limits, headers, retries and cut connections are real.  A scene is
one answer; scenes are enqueued and played in order, and what is asked beyond them gets the
server's standing answer.

    with ScriptedChatServer() as chat, SerpApiServer(results=[result(1)]) as serp:
        chat.enqueue(says("hello"), status(500), fenced({"queries": ["a"]}))
        chat.standing = lambda body: "text" or {"json": 1} or a scene, decided from the request
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

Scene = Callable[[Request], Response]

QUOTA = "You exceeded your current quota, please check your plan and billing details."
OUT_OF_SEARCHES = "Your account has run out of searches."
HOURLY = "Your account has exceeded its hourly throughput limit of 1000 searches."
NOTHING_FOUND = "Google hasn't returned any results for this query."
FIVE_MB = 5 * 1024 * 1024


class LoopbackServer:
    """An HTTP server on a free loopback port; use it as a context manager."""

    def __init__(self) -> None:
        # werkzeug logs every address it serves, SerpAPI's key included, into our own log.
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = HTTPServer(host="127.0.0.1", port=0, threaded=True)
        self._scenes: deque[Scene] = deque()
        self._lock = threading.Lock()

    def __enter__(self) -> Any:
        self._server.start()
        self._server.expect_request(re.compile(".*")).respond_with_handler(self._play)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.stop()

    @property
    def origin(self) -> str:
        """Return the address without a path or closing slash."""
        return f"http://127.0.0.1:{self._server.port}"

    def enqueue(self, *scenes: Scene) -> None:
        """Play these for the next requests, in order."""
        with self._lock:
            self._scenes.extend(scenes)

    def forget(self) -> None:
        """Begin anew, for the next test: stopping a server takes half a second."""
        with self._lock:
            self._scenes.clear()

    def record(self, request: Request) -> None:
        """Keep what was asked."""
        raise NotImplementedError

    def stand(self, request: Request) -> Response:
        """Return the answer that is given when no scene waits."""
        raise NotImplementedError

    def _play(self, request: Request) -> Response:
        with self._lock:
            self.record(request)
            scene = self._scenes.popleft() if self._scenes else None
        return scene(request) if scene else self.stand(request)


# --- scenes that any server may play ------------------------------------------------------------


def status(
    code: int, error: object = "it is so", headers: Mapping[str, str] | None = None
) -> Scene:
    """An error status with `{"error": …}` in its body."""
    return lambda _request: _json({"error": error}, code, headers)


def html(code: int = 200) -> Scene:
    """A web page where JSON was asked for."""
    page = "<!doctype html><html><title>Sign in</title><body>Please sign in</body></html>"
    return lambda _request: Response(page, code, content_type="text/html")


def slow(seconds: float, then: Scene | None = None) -> Scene:
    """Nothing for a while, then an empty answer or another scene."""

    def scene(request: Request) -> Response:
        time.sleep(seconds)
        return then(request) if then else _json({})

    return scene


def trickle(seconds: float) -> Scene:
    """A body that comes a byte at a time, each well within any time limit on one read."""

    def pieces() -> Any:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            yield b" "
            time.sleep(0.1)

    return lambda _request: Response(pieces(), content_type="application/json")


def cut() -> Scene:
    """A connection that closes in mid-body."""

    def scene(_request: Request) -> Response:
        response = Response(b'{"choices": [{"mess', content_type="application/json")
        response.headers["Content-Length"] = "5000"
        response.automatically_set_content_length = False
        return response

    return scene


def huge(size: int = FIVE_MB) -> Scene:
    """A whole and valid answer of `size` bytes."""
    return says("word " * (size // 5))


# --- a model's answers --------------------------------------------------------------------------


def says(
    content: str | None,
    *,
    finish_reason: str = "stop",
    usage: Mapping[str, object] | None = None,
    refusal: str | None = None,
    **message: object,
) -> Scene:
    """A chat completion with this text; usage is 10 and 5 tokens unless given ({} for none)."""
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
    return lambda _request: _json(body)


def bare(data: object) -> Scene:
    """JSON and nothing else."""
    return says(json.dumps(data, ensure_ascii=False))


def fenced(data: object) -> Scene:
    """JSON in a code fence, with a sentence before it."""
    return says(f"Here you are:\n\n```json\n{json.dumps(data, indent=2)}\n```\n")


def in_prose(data: object) -> Scene:
    """JSON amid prose that has brackets of its own."""
    return says(f"As [1] says {{so}}, I answer: {json.dumps(data)} – I hope that helps [2].")


def half(data: object) -> Scene:
    """The first half of the JSON, cut by the token limit."""
    text = json.dumps(data)
    return says(text[: len(text) * 2 // 3], finish_reason="length")


def another_language() -> Scene:
    """An answer in a language that nobody asked for."""
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
    """A server that answers `code` to one kind of response_format, and else plays `then`."""

    def scene(request: Request) -> Response:
        asked = (_body(request).get("response_format") or {}).get("type")
        if asked == kind:
            return _json({"error": {"message": f"response_format {kind} failed"}}, code)
        return then(request)

    return scene


@dataclass(frozen=True, slots=True)
class AskedChat:
    """One request to the chat server; header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

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
    a scene.
    """

    def __init__(self, standing: Standing | str = "hello") -> None:
        super().__init__()
        self.asked: list[AskedChat] = []
        self.standing = standing

    def forget(self) -> None:
        super().forget()
        self.asked.clear()
        self.standing = "hello"

    @property
    def base_url(self) -> str:
        """Return what BEACON_LLM_BASE_URL is set to."""
        return f"{self.origin}/v1"

    def record(self, request: Request) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append(AskedChat(request.path, headers, _body(request)))

    def stand(self, request: Request) -> Response:
        said = self.standing(_body(request)) if callable(self.standing) else self.standing
        if callable(said):
            return said(request)
        return says(said if isinstance(said, str) else json.dumps(said))(request)


# --- SerpAPI ------------------------------------------------------------------------------------


def result(number: int, **more: object) -> dict[str, Any]:
    """One organic result, as SerpAPI writes it."""
    return {
        "position": number,
        "title": f"Result {number}",
        "link": f"https://news.example.org/{number}",
        "snippet": f"What result {number} says.",
        **more,
    }


class SerpApiServer(LoopbackServer):
    """SerpAPI's /search.json: `results` for every query, or a dictionary from query to results.

    Pages hold `page` results and name the next one in `serpapi_pagination`, unless `pagination`
    is False.  With `key` set any other key is refused as SerpAPI does.
    """

    def __init__(
        self,
        results: Mapping[str, Sequence[dict[str, Any]]] | Sequence[dict[str, Any]] = (),
        *,
        key: str = "",
        page: int = 10,
        pagination: bool = True,
    ) -> None:
        super().__init__()
        self.asked: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.results = results
        self.key = key
        self.page = page
        self.pagination = pagination

    def forget(self) -> None:
        super().forget()
        self.asked.clear()
        self.headers.clear()

    @property
    def base_url(self) -> str:
        """Return what SERPAPI_BASE_URL is set to."""
        return self.origin

    def record(self, request: Request) -> None:
        self.asked.append(request.args.to_dict())
        self.headers.append({name.lower(): value for name, value in request.headers.items()})

    def stand(self, request: Request) -> Response:
        asked = request.args
        if request.path != "/search.json":
            return _json({"error": "Not found"}, 404)
        if self.key and asked.get("api_key") != self.key:
            told = f"Invalid API key: {asked.get('api_key')}. Your API key should be here: …"
            return _json({"error": told}, 401)
        found = self.results
        found = found.get(asked.get("q", ""), ()) if isinstance(found, Mapping) else found
        start = int(asked.get("start", 0))
        return self._page(list(found), start, asked.get("engine", "google"))

    def _page(self, found: list[dict[str, Any]], start: int, engine: str) -> Response:
        name = {"google_news": "news_results", "google_jobs": "jobs_results"}.get(engine)
        shown = found[start : start + self.page]
        body: dict[str, Any] = {"search_metadata": {"status": "Success"}}
        if not shown:
            return _json({**body, "error": NOTHING_FOUND})
        body[name or "organic_results"] = shown
        if self.pagination and len(found) > start + self.page:
            following = f"https://serpapi.com/search.json?engine={engine}&start={start + self.page}"
            body["serpapi_pagination"] = {"next": following}
        return _json(body)


def _body(request: Request) -> dict[str, Any]:
    parsed = json.loads(request.get_data() or b"{}")
    return parsed if isinstance(parsed, dict) else {}


def _json(data: object, code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    text = json.dumps(data)
    return Response(text, code, headers=dict(headers or {}), content_type="application/json")
