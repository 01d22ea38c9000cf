"""An app that connects by OAuth, as its own server and the person's browser would do it."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from base64 import urlsafe_b64encode
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from django.conf import settings
from django.test import Client

from memory.accounts.tokens import mcp_url

BACK = "https://app.example/back"
FORM = "application/x-www-form-urlencoded"


class App:
    """A registered app, and what it does in the person's browser."""

    def __init__(self, browser: Client, name: str = "Desk app", back: str = BACK) -> None:
        self.browser, self.back = browser, back
        self.server = Client(enforce_csrf_checks=True)  # of the app: no cookies, no form token
        self.verifier = secrets.token_urlsafe(48)
        told = self.register(client_name=name, redirect_uris=[back])
        self.client_id: str = told.json()["client_id"]

    def register(self, **metadata: Any) -> Any:
        """Register, as RFC 7591 says."""
        return self.server.post("/oauth/register", json.dumps(metadata), "application/json")

    def wanted(self, **changed: str | None) -> dict[str, str]:
        """Return the parameters of its authorization request."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        usual: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.back,
            "scope": "read write",
            "state": "s p&ce",
            "code_challenge": urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
            "resource": mcp_url(),
        }
        return {name: value for name, value in (usual | changed).items() if value is not None}

    def asks(self, **changed: str | None) -> Any:
        """Open the consent page."""
        return self.browser.get("/oauth/authorize", self.wanted(**changed))

    def allowed(self, **changed: Any) -> Any:
        """Press “Allow access”."""
        form: dict[str, Any] = {
            "answer": "allow", "scopes": "read write", "name": "Desk app", "topics": [],
        }  # fmt: skip
        chosen = {k: changed.pop(k) for k in list(changed) if k in form}
        return self.browser.post("/oauth/consent", self.wanted(**changed) | form | chosen)

    def code(self, **changed: Any) -> str:
        """Be allowed, and return the code."""
        return sent(self.allowed(**changed))["code"]

    def redeem(self, code: str, **changed: str | None) -> Any:
        """Exchange a code."""
        usual: dict[str, str | None] = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.back,
            "client_id": self.client_id,
            "code_verifier": self.verifier,
            "resource": mcp_url(),
        }
        return self.post("/oauth/token", usual | changed)

    def refresh(self, text: str, **changed: str | None) -> Any:
        """Exchange a refresh token."""
        usual: dict[str, str | None] = {
            "grant_type": "refresh_token",
            "refresh_token": text,
            "client_id": self.client_id,
        }
        return self.post("/oauth/token", usual | changed)

    def post(self, url: str, form: dict[str, str | None]) -> Any:
        """Send a form from the app's server."""
        given = {name: value for name, value in form.items() if value is not None}
        return self.server.post(url, urlencode(given), FORM)

    def connected(self, **changed: Any) -> dict[str, Any]:
        """Be allowed and get tokens."""
        told: dict[str, Any] = self.redeem(self.code(**changed)).json()
        return told


def sent(response: Any) -> dict[str, str]:
    """Return what the browser brings back to the app."""
    assert response.status_code == 303, response.content[:500]
    return _answer_in(response["Location"])


def offered(response: Any) -> dict[str, str]:
    """Return what the link back to the app brings it, on the page that says why it's refused."""
    assert response.status_code == 400 and "Location" not in response
    link = re.search(r'href="([^"]+)">Return to', response.content.decode())
    assert link, response.content[-2000:]
    return _answer_in(unescape(link[1]))


def _answer_in(url: str) -> dict[str, str]:
    found = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    assert found["iss"] == settings.BEACON_URL
    return found
