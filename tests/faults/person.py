"""A person at a browser, simulated without one: signed in, sends forms, and notes how long it took."""

from __future__ import annotations

import re
import time

import httpx

PASSWORD = "alice-horse-battery"


class Person:
    """Alice, signed in; `seconds` is how long the last answer took."""

    def __init__(self, base: str) -> None:
        self._client = httpx.Client(base_url=base, timeout=60, follow_redirects=True)
        self.seconds = 0.0
        answer = self.post("/sign-in/", username="alice", password=PASSWORD)
        assert "sign-in" not in str(answer.url), answer.text

    def get(self, path: str) -> httpx.Response:
        """Open a page."""
        return self._timed("GET", path)

    def post(self, path: str, *, htmx: bool = False, **fields: str) -> httpx.Response:
        """Send a form; over htmx if asked."""
        if "csrftoken" not in self._client.cookies:
            self.get("/sign-in/")
        headers = {"X-CSRFToken": self._client.cookies["csrftoken"], "Referer": self.base}
        if htmx:
            headers["HX-Request"] = "true"
        return self._timed("POST", path, data=fields, headers=headers)

    @property
    def base(self) -> str:
        """Return the address of the site."""
        return str(self._client.base_url)

    def number(self, text: str) -> None:
        """Give later requests this number."""
        self._client.headers["X-Request-ID"] = text

    def _timed(self, method: str, path: str, **options: object) -> httpx.Response:
        began = time.monotonic()
        answer = self._client.request(method, path, **options)  # type: ignore[arg-type]
        self.seconds = time.monotonic() - began
        return answer


def words(answer: httpx.Response) -> str:
    """Return the text of a page, without its tags."""
    return " ".join(re.sub(r"<[^>]*>", " ", answer.text).split())
