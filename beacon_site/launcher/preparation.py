"""What `make up` does with Django: checking the settings, migrating, and what it prints.

It runs in a process of its own, which ends when Beacon starts, because the launcher stays.
"""

from __future__ import annotations

import io
import os
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command, get_commands
from django.db import DatabaseError, connections
from django.db.migrations.exceptions import InconsistentMigrationHistory


class CannotStart(RuntimeError):
    """Beacon can't start; the text says why and what to do."""


def prepared() -> dict[str, Any]:
    """Prepare everything; return what the launcher needs to know, or why Beacon can't start."""
    try:
        django.setup()
        check_port(settings.BEACON_BIND, settings.BEACON_PORT, "BEACON_PORT")
        mcp = describe_mcp()
        link = prepare_site(production=settings.PRODUCTION)
    except (CannotStart, ImproperlyConfigured) as exc:
        return {"why_not": str(exc)}
    first = [f"Create your admin account (one-time link): {link}"] if link else []
    return {
        "bind": settings.BEACON_BIND,
        "port": settings.BEACON_PORT,
        "url": settings.BEACON_URL,
        "livez": (_local(settings.BEACON_BIND), settings.BEACON_PORT),
        "mirror": settings.BEACON_MIRROR_DIR,
        "is_json": settings.BEACON_LOG_FORMAT == "json",
        "lines": [*first, *for_others(), *mcp],
    }


def _local(bind: str) -> str:
    """Return the host at which this machine reaches a server bound to `bind`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind, bind)  # noqa: S104  (compared, not bound)  # nosec B104


def describe_mcp() -> list[str]:
    """Return the line about the MCP server.  Raises CannotStart if a configured port is in use.

    If the default port is in use, perhaps by another Beacon, only the MCP server waits for it.
    """
    bind, port = settings.BEACON_BIND, settings.BEACON_MCP_PORT
    if not port:
        return []
    try:
        check_port(bind, port, "BEACON_MCP_PORT")
    except CannotStart:
        if os.environ.get("BEACON_MCP_PORT", "").strip():
            raise
        return [
            f"Port {port} is in use. The MCP server will start when it's free. To use another port, set BEACON_MCP_PORT."
        ]
    host = f"[{bind}]" if ":" in (bind := _local(bind)) else bind
    return [f"MCP server: http://{host}:{port}/mcp (tokens: Agents → API tokens)"]


def for_others() -> list[str]:
    """Return a hint if Beacon listens to other machines, but BEACON_URL doesn't name its host."""
    if urlsplit(settings.BEACON_URL).hostname not in ("0.0.0.0", "::"):  # noqa: S104  # nosec B104
        return []
    text = (
        "Other machines can connect, but Beacon won't respond to them until you set BEACON_URL "
        f"to the address that people use, such as http://nas.local:{settings.BEACON_PORT}."
    )
    return [text]


def check_port(bind: str, port: int, variable: str) -> None:
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((bind, port))
            probe.listen(1)
    except OSError as exc:
        raise CannotStart(
            f"Beacon can't listen on {bind}, port {port}: {exc.strerror or exc}. Stop the program "
            f"that uses the port, or change {variable} (and BEACON_BIND)."
        ) from exc


def prepare_site(*, production: bool) -> str:
    """Bring the database and the static files up to date; return the first account's link."""
    try:
        call_command("migrate", interactive=False, verbosity=0)
    except (DatabaseError, InconsistentMigrationHistory) as exc:
        server = settings.DATABASES["default"]
        raise CannotStart(
            f"The database {server['NAME']} at {server['HOST']}:{server['PORT']} couldn't be "
            f"updated: {str(exc).strip()} If it can't be reached, check DATABASE_URL. Otherwise "
            "another version of Beacon created it."
        ) from exc
    call_command("vectors", stdout=io.StringIO())
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)  # whitenoise warns without it
    if production:
        call_command("collectstatic", interactive=False, verbosity=0)
    link = io.StringIO()
    if "first_account_link" in get_commands():
        call_command("first_account_link", stdout=link, stderr=io.StringIO())
    connections.close_all()
    return link.getvalue().strip()
