"""The caller of tools in tests: Alice's agent, in a session."""

from __future__ import annotations

from typing import Any

from memory.agents.tools.registry import call_tool
from memory.agents.tools.types import ToolContext, ToolResult
from memory.models import ReviewLevel
from memory.models.actors import Actor

AGENT = Actor("agent", "claude")


def caller(owner: Any, **more: Any) -> ToolContext:
    """A context of an agent in session 7."""
    told: dict[str, Any] = {"by": AGENT, "source": "session:7", "scope": "session:7"}
    return ToolContext(owner, **(told | more))


def call(owner: Any, name: str, context: ToolContext | None = None, **arguments: Any) -> ToolResult:
    """Call a tool as that agent."""
    return call_tool(context or caller(owner), name, arguments)


def accept_all(owner: Any) -> None:
    """Turn off review for this owner's agents."""
    ReviewLevel.objects.update_or_create(owner=owner, kind="default", defaults={"level": "accept"})
