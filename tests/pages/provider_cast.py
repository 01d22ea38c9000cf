"""A real OpenID Connect provider on loopback."""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import quote, urlsplit

import flask
import httpx
import oidc_provider_mock
from werkzeug.serving import make_server


class Provider:
    """A running provider, and what a person does there."""

    def __init__(self) -> None:
        app = oidc_provider_mock.app()
        self.storage: Any = None

        @app.before_request
        def keep() -> None:
            self.storage = flask.g.oidc_provider_mock_storage

        self.server = make_server("localhost", 0, app, threaded=True)
        self.url = f"http://localhost:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Provider:
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def knows(self, sub: str, **claims: Any) -> None:
        httpx.put(f"{self.url}/users/{quote(sub)}", json=claims).raise_for_status()

    def answer(self, url: str, sub: str) -> str:
        """Sign in there; return the path by which the browser comes back."""
        reply = httpx.post(url, data={"sub": sub} if sub else {"action": "deny"})
        back = urlsplit(reply.headers["Location"])
        return f"{back.path}?{back.query}"
