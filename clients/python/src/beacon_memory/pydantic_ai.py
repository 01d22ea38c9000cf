"""Memory for Pydantic AI (`pip install "beacon-memory[pydantic-ai]"`).

agent = Agent("openai:gpt-5", capabilities=[memory()])
"""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.capabilities import Capability

from beacon_memory.client import Beacon
from beacon_memory.tools import context_for, memory_tools, text_in


def toolset(beacon: Beacon | None = None) -> FunctionToolset[Any]:
    """Return a toolset with the tools `recall` and `remember`, for `Agent(toolsets=[…])`."""
    return FunctionToolset(memory_tools(beacon or Beacon()), id="beacon")


def memory(beacon: Beacon | None = None) -> Capability[Any]:
    """Return a capability for `Agent(capabilities=[…])`: the agent's context for each prompt, and
    the tools `recall` and `remember`.

    If Beacon doesn't respond, the agent runs without its context.
    """
    known = beacon or Beacon()

    async def context(run: RunContext[Any]) -> str | None:
        return await asyncio.to_thread(context_for, known, text_in(run.prompt)) or None

    return Capability(instructions=context, toolsets=[toolset(known)], id="beacon")
