"""Memory for the OpenAI Agents SDK (`pip install "beacon-memory[openai-agents]"`).

    beacon = Beacon()
    agent = Agent("Desk", instructions=instructions("Be brief.", beacon), tools=tools(beacon))
    await Runner.run(agent, "When does my train leave?", session=BeaconSession("trip", beacon))

A session keeps the conversation itself. The instructions and tools give the agent what Beacon
remembers beyond it.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from agents import Agent, FunctionTool, RunContextWrapper, SessionSettings, function_tool

from beacon_memory.client import Beacon
from beacon_memory.json_entries import dumped, key_of, loaded
from beacon_memory.tools import context_for, memory_tools, text_in

if TYPE_CHECKING:
    from agents import TResponseInputItem

Instructions = Callable[[RunContextWrapper[Any], Agent[Any]], Awaitable[str]]


class BeaconSession:
    """The SDK's `Session`: the items of one conversation, kept in Beacon's scratchpad.

    Sessions with the same ID and token share their items, also across processes. An item can have
    64 KiB of JSON. Methods raise `NotReached` and `Refused` like those of `Beacon`.
    """

    def __init__(
        self,
        session_id: str,
        beacon: Beacon | None = None,
        *,
        session_settings: SessionSettings | None = None,
        name: str = "openai-agents",
    ) -> None:
        """`name` separates sessions of several programs that use the same agent."""
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._beacon = beacon or Beacon()
        self._name = name
        self._prefix = f"{key_of([session_id])}/"
        self._last = 0

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the last `limit` items (default: that of the settings, or all), oldest first."""
        limit = self.session_settings.limit if limit is None else limit
        items = await asyncio.to_thread(self._items)
        if limit is None:
            return items
        return items[-limit:] if limit > 0 else []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end."""
        await asyncio.to_thread(self._add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it, or None if there is none."""
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        """Move all items to Trash."""
        await asyncio.to_thread(self._clear)

    def _items(self) -> list[TResponseInputItem]:
        entries = self._beacon.entries(self._prefix, session=self._name)
        found = (loaded(one.value) for one in entries)
        return [one for one in found if isinstance(one, dict)]  # type: ignore[misc]

    def _add(self, items: list[TResponseInputItem]) -> None:
        for item in items:
            # Keys sort by time. Two programs never use the same one.
            self._last = max(self._last + 1, time.time_ns())
            key = f"{self._prefix}{self._last:020d}-{uuid.uuid4().hex[:8]}"
            self._beacon.set_entry(key, dumped(item), session=self._name)

    def _pop(self) -> TResponseInputItem | None:
        for entry in reversed(self._beacon.entries(self._prefix, session=self._name)):
            # Another program may have removed it in the meantime.
            if self._beacon.delete_entry(entry.key, session=self._name):
                item: Any = loaded(entry.value)
                return item if isinstance(item, dict) else None  # type: ignore[return-value]
        return None

    def _clear(self) -> None:
        for entry in self._beacon.entries(self._prefix, session=self._name):
            self._beacon.delete_entry(entry.key, session=self._name)


def instructions(text: str = "", beacon: Beacon | None = None) -> Instructions:
    """Return instructions for an `Agent`: your text, then its context for the user's last message.

    If Beacon doesn't respond, they are only your text.
    """
    known = beacon or Beacon()

    async def for_run(run: RunContextWrapper[Any], _agent: Agent[Any]) -> str:
        said = [
            text_in(item.get("content"))
            for item in getattr(run, "turn_input", ())
            if isinstance(item, dict) and item.get("role") == "user"
        ]
        context = await asyncio.to_thread(context_for, known, said[-1] if said else "")
        return "\n\n".join(part for part in (text, context) if part)

    return for_run


def tools(beacon: Beacon | None = None) -> list[FunctionTool]:
    """Return the tools `recall` and `remember` for an `Agent`."""
    return [function_tool(one) for one in memory_tools(beacon or Beacon())]
