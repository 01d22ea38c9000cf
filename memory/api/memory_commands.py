"""`/memory`: Anthropic's `memory` tool over REST, for programs that run the tool themselves."""

from __future__ import annotations

from typing import Any, ClassVar

from ninja import Status
from pydantic import BaseModel, ConfigDict, Field

from memory.api.auth import READ, WRITE, ApiRequest
from memory.api.files import problem_of
from memory.api.frame import Held, router
from memory.api.shown import shows
from memory.tools.memory_commands import CommandArguments
from memory.tools.registry import call_tool

api = router("memory")


class CommandIn(CommandArguments):
    """One command with its arguments, as a model calls the tool."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)


class CommandOut(BaseModel):
    """The answer for the model."""

    text: str = Field(description="The content of the tool_result block.")
    path: str = Field("", description="The memory file that was read or changed.")
    version: int | None = Field(None, description="Its version.")


@api.post("", auth=WRITE, response={200: CommandOut, 202: Held})
def carry_out_command(request: ApiRequest, command: CommandIn) -> Any:
    """Carry out a command of Anthropic's memory tool in the agent's own folder.

    The answer is the tool's documented text. An error's text is in `detail`. `view` also needs
    the `read` scope.
    """
    caller = request.auth
    if command.command == "view" and not caller.may("read"):
        READ(request)  # refuses
    context = caller.context()
    context.agent = caller.agent
    result = call_tool(context, "memory", command.model_dump(exclude_none=True))
    shows(trust=context.trust)
    if result.is_error:
        raise problem_of(result)
    if "proposal" in result.data:
        why = str(result.data.get("why", ""))
        return Status(202, Held(proposal=str(result.data["proposal"]), why=why))
    data = result.data
    return CommandOut(text=result.text, path=data.get("path", ""), version=data.get("version"))
