"""API clients, each with its token."""

from __future__ import annotations

import json
from typing import Any

from django.test import Client

from memory.accounts import tokens
from memory.models.actors import SYSTEM

ROOT = "/api/v1"
PROBLEM = "application/problem+json"


class Program:
    """A client with a token; `get("/notes")` and so on return the test client's response."""

    def __init__(self, owner: Any, *scopes: str, name: str = "desk", **more: Any) -> None:
        self.owner = owner
        self.token, self.text = tokens.issue(owner, name=name, scopes=scopes, by=SYSTEM, **more)
        self.client = Client(enforce_csrf_checks=True)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request; `If_Match='"1"'` is a header, and a text body is sent unchanged."""
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = body if isinstance(body, str | bytes) else json.dumps(body)
        more = {} if body is None else {"data": sent, "content_type": "application/json"}
        return self.client.generic(
            method, ROOT + path, headers={"Authorization": f"Bearer {self.text}", **told}, **more
        )

    def get(self, path: str, **headers: str) -> Any:
        """Read."""
        return self.send("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        """Make."""
        return self.send("POST", path, {} if body is None else body, **headers)

    def put(self, path: str, body: Any, **headers: str) -> Any:
        """Put."""
        return self.send("PUT", path, body, **headers)

    def patch(self, path: str, body: Any, **headers: str) -> Any:
        """Change."""
        return self.send("PATCH", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Any:
        """Trash."""
        return self.send("DELETE", path, **headers)


def problem(answer: Any, status: int) -> dict[str, Any]:
    """Return the response as a problem."""
    assert answer.status_code == status, answer.content[:500]
    assert answer["Content-Type"] == PROBLEM
    told: dict[str, Any] = answer.json()
    assert told["status"] == status
    assert told["title"]
    assert told["detail"]
    assert told["type"].startswith("urn:beacon:problem:")
    return told


def items(answer: Any) -> list[dict[str, Any]]:
    """Return the items of a list."""
    assert answer.status_code == 200, answer.content[:500]
    found: list[dict[str, Any]] = answer.json()["items"]
    return found
