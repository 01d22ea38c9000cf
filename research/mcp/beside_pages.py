"""gunicorn's configuration for `make up`, where the web server's processes also serve MCP.

MCP has a port of its own.  The parent of these processes opens it, so it stays open if one of them
is killed and replaced.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import structlog
import uvicorn
from django.conf import settings

from beacon_site import embedded
from beacon_site.launcher import web_server
from beacon_site.launcher.web_server import (  # gunicorn reads them from this module
    limit_request_field_size,
    limit_request_line,
    logconfig_dict,
    on_exit,
)

__all__ = [
    "limit_request_field_size",
    "limit_request_line",
    "logconfig_dict",
    "on_exit",
    "on_starting",
    "post_worker_init",
    "worker_exit",
]

logger = structlog.get_logger(__name__)

TRY_AGAIN = 5.0  # seconds between attempts if another program uses the port
DRAIN = 10.0  # seconds for calls in progress
_listener: socket.socket | None = None
_server: threading.Thread | None = None


def on_starting(server: Any) -> None:
    """Load Beacon, and open the port if it's free."""
    if not settings.BEACON_MCP_PORT:
        web_server.load(server)
        return
    web_server.load(server, "research.mcp.server")
    open_port()


def open_port() -> socket.socket | None:
    """Open the port for MCP if it's free, for the processes that begin as forks of this one."""
    global _listener
    if settings.BEACON_MCP_PORT:
        _listener = _listening_socket()
    return _listener


def post_worker_init(worker: Any) -> None:
    """Serve MCP in a thread of this process, and watch the launcher in another."""
    global _server
    embedded.mind_launcher()
    if settings.BEACON_MCP_PORT:
        _server = threading.Thread(target=_serve, args=(worker,), daemon=True, name="mcp")
        _server.start()


def worker_exit(server: Any, worker: Any) -> None:
    """Wait for calls in progress."""
    if _server is not None:
        _server.join(DRAIN)


def _serve(worker: Any) -> None:
    from research.mcp import server

    listener, is_told = _listener, False
    while listener is None and worker.alive:
        listener = _listening_socket()
        if listener is None:
            if not is_told:
                logger.warning("mcp is waiting for its port", port=settings.BEACON_MCP_PORT)
            is_told = True
            time.sleep(TRY_AGAIN)
    if listener is None:
        return

    class Beside(uvicorn.Server):
        """A server that stops with its process, which gets the signals."""

        async def main_loop(self) -> None:
            while worker.alive and not await self.on_tick(0):
                await asyncio.sleep(1)

    logger.info("mcp listening", port=settings.BEACON_MCP_PORT)
    try:
        asyncio.run(server.create_server(Beside).serve(sockets=[listener]))
    except Exception:  # otherwise nothing would log it, since this thread is its own
        logger.exception("mcp failed")
        worker.alive = False  # this process ends as after a signal, and another starts


def _listening_socket() -> socket.socket | None:
    from research.mcp import server

    try:
        return server.listening(settings.BEACON_BIND, settings.BEACON_MCP_PORT)
    except OSError:
        return None
