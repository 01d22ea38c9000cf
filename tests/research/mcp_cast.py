"""MCP clients in tests: the official client, over HTTP and standard input."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from django.db import connection
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from memory.accounts import tokens
from memory.models import User
from research.mcp import server as mcp_server

ROOT = Path(__file__).resolve().parents[2]


def token_of(owner: User, *scopes: str, name: str = "claude") -> str:
    """Create a token and return its text."""
    wanted = scopes or ("read", "write")
    return tokens.issue(owner, name=name, scopes=wanted, by=owner.actor)[1]


@contextmanager
def serving() -> Iterator[str]:
    """Run the HTTP server in a thread of its own; give its address."""
    listener = mcp_server.listening("127.0.0.1", 0)
    port = listener.getsockname()[1]
    server = mcp_server.create_server()

    def run() -> None:
        asyncio.run(server.serve(sockets=[listener]))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        thread.join(timeout=20)


@asynccontextmanager
async def by_address(url: str, token: str, **more: Any) -> AsyncIterator[Client]:
    """Connect the official client over HTTP."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), **more) as client,
    ):
        yield client


def by_pipe_environment() -> dict[str, str]:
    """Return the environment of a command on the tests' database."""
    database = os.environ["DATABASE_URL"].rpartition("/")[0]
    return {
        **os.environ,
        "DATABASE_URL": f"{database}/{connection.settings_dict['NAME']}",
        "BEACON_PROCESS": "command",
    }


def by_pipe(token: str, **more: Any) -> Client:
    """Return the official client for its own `manage.py mcp --stdio`."""
    server = StdioServerParameters(
        command=sys.executable,
        args=[str(ROOT / "manage.py"), "mcp", "--stdio"],
        env={**by_pipe_environment(), "BEACON_API_TOKEN": token},
        cwd=ROOT,
    )
    return Client(server, **more)


def text_of(result: Any) -> str:
    """Return the text of a result."""
    return "\n".join(one.text for one in result.content)
