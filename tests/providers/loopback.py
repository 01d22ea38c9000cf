"""A real HTTP server on loopback that plays scenes, and scenes for all services.

They speak real HTTP, so time limits, headers, retries and cut connections are real.  A scene is
one answer; scenes are enqueued and played in order, and further requests get the
server's default answer.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

Scene = Callable[[Request], Response]


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
        """Start over, for the next test: stopping a server takes half a second."""
        with self._lock:
            self._scenes.clear()

    def record(self, request: Request) -> None:
        """Store the request."""
        raise NotImplementedError

    def stand(self, request: Request) -> Response:
        """Return the default answer."""
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
    return lambda _request: json_answer({"error": error}, code, headers)


def html(code: int = 200) -> Scene:
    """A web page instead of JSON."""
    page = "<!doctype html><html><title>Sign in</title><body>Please sign in</body></html>"
    return lambda _request: Response(page, code, content_type="text/html")


def slow(seconds: float, then: Scene | None = None) -> Scene:
    """Nothing for a while, then an empty answer or another scene."""

    def scene(request: Request) -> Response:
        time.sleep(seconds)
        return then(request) if then else json_answer({})

    return scene


def trickle(seconds: float) -> Scene:
    """A body sent one byte at a time, each within the time limit of one read."""

    def pieces() -> Any:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            yield b" "
            time.sleep(0.1)

    return lambda _request: Response(pieces(), content_type="application/json")


def cut() -> Scene:
    """A connection that closes in the middle of the body."""

    def scene(_request: Request) -> Response:
        response = Response(b'{"choices": [{"mess', content_type="application/json")
        response.headers["Content-Length"] = "5000"
        response.automatically_set_content_length = False
        return response

    return scene


# --- what requests and answers are made of ------------------------------------------------------


def body_of(request: Request) -> dict[str, Any]:
    """Return the JSON object that was sent, {} if it isn't one."""
    parsed = json.loads(request.get_data() or b"{}")
    return parsed if isinstance(parsed, dict) else {}


def json_answer(
    data: object, code: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return data as a JSON answer."""
    text = json.dumps(data)
    return Response(text, code, headers=dict(headers or {}), content_type="application/json")
