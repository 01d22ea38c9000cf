"""MCP calls: the caller's token, and the registry's tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import structlog
from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import DatabaseError, InterfaceError, connections
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from mcp import types

from beacon_site.db.errors import GONE, failure_of
from beacon_site.text.cleaning import clean, one_line
from beacon_site.text.dates import zone_of
from memory.agents.tools import registry as tools
from memory.agents.tools.types import MemoryTool, ToolContext, ToolResult, refused
from memory.api.auth import caller_of
from memory.api.frame import texts_in
from memory.api.shown import unquoted, without_text
from memory.models import ApiToken, Trust


class InvalidToken(Exception):
    """The token is unknown, revoked or expired."""


Find = Callable[[], ApiToken | None]


@dataclass(slots=True)
class Caller:
    """A client: how to find its token, and the file versions it has read.

    A connection with one client keeps `seen`. Over HTTP, where clients can share a token, each
    call has a separate `seen`, and the client names the version it read.
    """

    find: Find
    seen: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def entered(self) -> Iterator[tuple[ToolContext, frozenset[str]]]:
        """Yield the context and scopes of one call, in the owner's time zone.

        Use it in a separate thread, because it releases the thread's database connection at the
        end. Raises InvalidToken for a token that is unknown, revoked or expired.
        """
        try:
            token = self.find()
            if token is None:
                raise InvalidToken
            caller = caller_of(token)
            context, owner = caller.context(), caller.owner
            context.seen, context.agent = self.seen, caller.agent
            with timezone.override(zone_of(owner.time_zone)), translation.override("en"):
                try:
                    yield context, caller.scopes
                finally:  # a refusal can quote text that was read, too
                    caller.note_shown()
        finally:
            close_connection()


def close_connection() -> None:
    """Close this thread's database connection. In tests, the main thread keeps its own."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()


# --- tools ---

logger = structlog.get_logger(__name__)

LONGEST_DOUBLE = 4_000  # longer answers aren't sent as data in addition to text
_OPEN_WORLD = frozenset({"research_topic"})  # tools that reach the web


def listed() -> list[types.Tool]:
    """Return the registry's tools."""
    return [_tool(tool) for tool in tools.REGISTRY.values()]


def _tool(tool: MemoryTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema={"type": "object", **tools.schema_of(tool.arguments)},
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.writes,
            # Replaced text stays in the history, and deleted files in Trash.
            destructive_hint=False,
            open_world_hint=tool.name in _OPEN_WORLD,
        ),
    )


def call(caller: Caller, name: str, arguments: Mapping[str, Any] | None) -> types.CallToolResult:
    """Call a tool. Any failure becomes an answer that a model can act on."""
    try:
        with caller.entered() as (context, scopes):
            tool = tools.REGISTRY.get(name)
            wanted = "write" if tool is not None and tool.writes else "read"
            if not scopes & {wanted, "admin"}:
                return answered(_not_allowed(name, wanted))
            result = tools.call_tool(context, name, arguments or {})
            if not scopes & {"read", "admin"}:
                result = _without_stored_text(result, arguments or {})
            return answered(result)
    except InvalidToken:
        text = _(
            "This token was revoked or has expired. Ask the user to create a new one in Agents "
            "→ API tokens, or to connect the app again."
        )
        return answered(refused("unauthorized", text))
    except (DatabaseError, InterfaceError) as exc:
        if failure_of(exc) is None:
            raise
        logger.warning("tool not called: database error", tool=name[:80], why=str(exc)[:200])
        return answered(refused("unavailable", no_database(exc)))


def _without_stored_text(result: ToolResult, arguments: Mapping[str, Any]) -> ToolResult:
    """Return a write's answer without stored text, as REST does for a token that can't read."""
    data = json.loads(json.dumps(result.data, cls=DjangoJSONEncoder))
    if result.is_error:
        sent = one_line(clean("\n".join(texts_in(dict(arguments))))[0])
        words = unquoted(str(data.get("message") or _("Nothing was saved.")), sent)
        kept = without_text(data) | {"error": data.get("error", ""), "message": words}
        return replace(result, text=words, data=kept)
    kept = without_text(data)
    named = ", ".join(f"{name}: {value}" for name, value in kept.items() if name != "records")
    return replace(result, text=_("Done. %(named)s") % {"named": named}, data=kept)


def _not_allowed(name: str, wanted: str) -> ToolResult:
    text = _(
        "“%(tool)s” wasn’t called because this token lacks the %(scope)s scope. The user can "
        "create a token with that scope in Agents → API tokens."
    )
    return refused("forbidden", text % {"tool": name, "scope": wanted})


def no_database(exc: BaseException) -> str:
    """Return the message for a call during which Postgres or its disk failed."""
    return str((failure_of(exc) or GONE).words)


def answered(result: ToolResult) -> types.CallToolResult:
    """Return a tool's answer as MCP sends it.

    Some clients show their model only the data, others only the text. Therefore the data includes
    the text, and is sent only if the text is short.
    """
    data = None
    if len(result.text) <= LONGEST_DOUBLE:
        plain = json.loads(json.dumps(result.data, cls=DjangoJSONEncoder))
        data = {"text": result.text, **_without_bare(plain)}
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=result.text)],
        structured_content=data,
        is_error=result.is_error,
    )


def _without_bare(value: Any) -> Any:
    """Return data without external text, which would have no marks around it here.

    URLs of Beacon's pages become absolute.
    """
    if isinstance(value, list):
        return [_without_bare(one) for one in value]
    if not isinstance(value, dict):
        return value
    if str(value.get("url", "")).startswith("/"):  # a page of Beacon, as a full URL
        value = {**value, "url": settings.BEACON_URL + value["url"]}
    outside = value.get("trust", Trust.OWNER.value) not in (Trust.OWNER.value, Trust.AGENT.value)
    return {
        key: _without_bare(one) for key, one in value.items() if not (outside and key == "content")
    }
