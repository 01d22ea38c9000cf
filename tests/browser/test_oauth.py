"""The official MCP client connects by OAuth: discovery, consent in a browser, tools, revocation."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from playwright.sync_api import expect

from memory.agents.tools import registry
from tests.browser.site import BrowserSite, browser_site, free_port
from tests.browser.visitor import PASSWORD, Visitor

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
]
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def site() -> Iterator[BrowserSite]:
    """A Beacon with pages and the MCP server, and Ada's account."""
    with browser_site("web", "mcp", BEACON_MCP_PORT=str(free_port())) as made:
        made.manage(
            "createsuperuser", "--noinput", "--username=ada", "--email=ada@example.org",
            DJANGO_SUPERUSER_PASSWORD=PASSWORD,
        )  # fmt: skip
        made.wait(lambda: _status(_mcp(made)) == 401)
        yield made


def _mcp(site: BrowserSite) -> str:
    return f"http://127.0.0.1:{site.environment['BEACON_MCP_PORT']}/mcp"


def _status(url: str, **headers: str) -> int:
    try:
        return httpx.post(url, json=CALL, headers=ACCEPT | headers).status_code
    except httpx.TransportError:
        return 0


class CalledBack(BaseHTTPRequestHandler):
    """Where the browser returns to: the app's own server on this computer."""

    answers: queue.Queue[dict[str, str]]

    def do_GET(self) -> None:
        """Keep the answer, and tell the person that they can close the window."""
        parts = urlsplit(self.path)
        if parts.path == "/callback":
            found = {name: one[0] for name, one in parse_qs(parts.query).items()}
            self.answers.put(found)
        body = b"<!doctype html><title>Done</title><p>You can close this window.</p>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Write nothing."""


class Storage:
    """Keeps the client's registration and tokens, as an app does on disk."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


class Program(threading.Thread):
    """An app on this computer, with the official client; `asks` holds URLs for the browser."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.storage = url, Storage()
        self.asks: queue.Queue[str] = queue.Queue()
        self.answers: queue.Queue[dict[str, str]] = queue.Queue()
        self.names: set[str] = set()
        self.failure: BaseException | None = None
        handler = type("Handler", (CalledBack,), {"answers": self.answers})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def run(self) -> None:
        """Connect and list the tools."""
        try:
            anyio.run(self._talk)
        except BaseException as exc:  # noqa: BLE001 - shown by the test
            self.failure = exc

    async def _talk(self) -> None:
        async def ask(url: str) -> None:
            self.asks.put(url)

        async def answered() -> AuthorizationCodeResult:
            found = await anyio.to_thread.run_sync(lambda: self.answers.get(timeout=60))
            return AuthorizationCodeResult(
                code=found["code"], state=found.get("state"), iss=found.get("iss")
            )

        metadata = OAuthClientMetadata.model_validate(
            {
                "client_name": "Walk",
                "redirect_uris": [f"http://127.0.0.1:{self.server.server_port}/callback"],
                "token_endpoint_auth_method": "none",
            }
        )
        auth = OAuthClientProvider(self.url, metadata, self.storage, ask, answered)
        async with (
            httpx2.AsyncClient(auth=auth, timeout=60) as http,
            Client(streamable_http_client(self.url, http_client=http)) as client,
        ):
            self.names = {tool.name for tool in (await client.list_tools()).tools}

    def finished(self) -> None:
        """Wait until it has listed the tools."""
        self.join(60)
        self.server.shutdown()
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def program(site: BrowserSite) -> Iterator[Program]:
    """An app that wants to connect."""
    made = Program(_mcp(site))
    made.start()
    yield made
    made.server.server_close()


@pytest.mark.parametrize("scripts", [True, False])
def test_the_official_client_goes_from_discovery_to_tools_until_it_is_revoked(
    visit: Callable[..., Visitor], site: BrowserSite, program: Program, scripts: bool
) -> None:
    visitor = visit(site.base, java_script_enabled=scripts)
    page = visitor.page
    visitor.goto(program.asks.get(timeout=60))
    page.get_by_label("Username").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Allow Walk to use your memory?")).to_be_visible()
    page.get_by_label("Read and write as an agent").check()
    page.get_by_role("button", name="Allow access").click()
    expect(page.get_by_text("You can close this window.")).to_be_visible()
    program.finished()
    bearer = {"Authorization": f"Bearer {program.storage.tokens.access_token}"}
    assert program.names == set(registry.REGISTRY)
    assert _status(program.url, **bearer) == 200

    visitor.goto("/settings/tokens/")
    row = page.locator("tr", has_text="connected with OAuth").first
    expect(row).to_contain_text("Walk")
    row.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("To restore it, connect")).to_be_visible()

    refused = httpx.post(program.url, json=CALL, headers=ACCEPT | bearer)
    assert refused.status_code == 401
    assert 'error="invalid_token"' in refused.headers["WWW-Authenticate"]
    refresh = {
        "grant_type": "refresh_token",
        "refresh_token": program.storage.tokens.refresh_token,
        "client_id": program.storage.client.client_id,
    }
    assert httpx.post(f"{site.base}/oauth/token", data=refresh).json()["error"] == "invalid_grant"
    # The app's own page is the only other origin that the browser was sent to.
    back = f"another origin: http://127.0.0.1:{program.server.server_port}/"
    visitor.problems = [one for one in visitor.problems if not one.startswith(back)]
