"""`manage.py mcp`: the MCP server over HTTP, or with --stdio over standard input and output."""

from __future__ import annotations

import os
import time
from typing import Any

import anyio
import structlog
from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError
from django.utils.translation import gettext as _

from beacon_site.embedded.places import BY_HAND
from memory.accounts import tokens
from memory.accounts.tokens import mcp_url
from memory.management.base import MigratedCommand
from research.mcp import server
from research.mcp.server import Caller, close_connection

logger = structlog.get_logger(__name__)

TRY_AGAIN = 5.0  # seconds between attempts if `make up` runs it and another program uses the port


class Command(MigratedCommand):
    """Let programs call the tools of the registry."""

    help = "Run the MCP server over streamable HTTP, on port BEACON_MCP_PORT under /mcp, or over stdio."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--stdio",
            action="store_true",
            help="use standard input and output, and the token in BEACON_API_TOKEN",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve until the program disconnects, or until SIGTERM or Ctrl-C."""
        if options["stdio"]:
            self._by_pipe()
        else:
            self._by_address()

    def _by_pipe(self) -> None:
        text = os.environ.get("BEACON_API_TOKEN", "").strip()
        try:
            token = tokens.find(text)
        except DatabaseError as exc:
            raise CommandError(_("The database isn’t responding: %(why)s") % {"why": exc}) from exc
        if token is None:
            raise CommandError(
                _(
                    "BEACON_API_TOKEN doesn’t contain a valid token. Create one in Agents → API tokens, or with `%(manage)s api_token USERNAME`."
                )
                % BY_HAND
            )
        close_connection()
        anyio.run(server.serve_stdio, Caller(find=lambda: tokens.find(text)))

    def _by_address(self) -> None:
        bind, port = settings.BEACON_BIND, settings.BEACON_MCP_PORT
        if not port:
            raise CommandError(
                _("BEACON_MCP_PORT is 0, so the MCP server over HTTP is turned off.")
            )
        close_connection()
        told = False
        while True:
            try:
                listener = server.listening(bind, port)
            except OSError as exc:
                why = _("The MCP server can’t listen on %(bind)s, port %(port)d: %(why)s.") % {
                    "bind": bind,
                    "port": port,
                    "why": exc.strerror or exc,
                }
                if settings.BEACON_PROCESS != "mcp":
                    raise CommandError(
                        f"{why} " + _("Set BEACON_MCP_PORT to another port.")
                    ) from exc
                # Web pages and runs must not depend on this: if it exited, the runner would stop
                # everything.
                if not told:
                    logger.warning("mcp is waiting for its port", port=port, why=exc.strerror)
                told = True
                time.sleep(TRY_AGAIN)
            else:
                break
        logger.info("mcp listening", url=mcp_url())
        server.serve(listener)
