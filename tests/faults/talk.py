"""A conversation with the agent in a process: `python -m tests.faults.talk NAME WITHOUT WORDS…`.

Each of the words is a question in one new session of that person's, answered before the next.
Prints the last answer.  WITHOUT names what this process lacks, to show that it is needed: index,
read, store; or `-`.  With END=1 in the environment the session is ended and looked back on.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import django


def _lose(what: str) -> None:
    """Take a part away, as if it had never been written."""
    from memory.agents.chat import conversation
    from memory.agents.tools.registry import REGISTRY
    from memory.agents.tools.types import MemoryTool, ToolContext, ToolResult

    def replaced(name: str, answer: str) -> None:
        def run(context: ToolContext, asked: Any) -> ToolResult:
            return ToolResult(answer)

        tool = REGISTRY[name]
        REGISTRY[name] = MemoryTool(name, tool.description, tool.arguments, run, tool.writes)

    if what == "index":
        conversation.index_text = lambda owner: ""
    elif what == "read":
        replaced("memory_read", "")
    elif what == "store":
        replaced("memory_append", "Added.")


def main(name: str, without: str, *words: str) -> dict[str, Any]:
    """Carry the talk out as a person and a worker do."""
    from memory.agents.chat import conversation
    from memory.agents.chat import end as conversation_end
    from memory.agents.chat import turn as conversation_turn
    from memory.models import Message, User
    from tests.memory.ended_sessions import finish_session

    owner = User.objects.filter(username=name).first() or User.objects.create_user(username=name)
    _lose(without)
    session = conversation.start(owner)
    answer = Message()
    for text in words:
        answer = conversation.ask(session, text, by=owner.actor)
        conversation_turn.answer(answer.pk)
    answer.refresh_from_db()
    if os.environ.get("END"):
        conversation_end.end(session, by=owner.actor)
        finish_session(session)
    calls = [[call["tool"], call["arguments"], call["result"]] for call in answer.tool_calls]
    return {"text": answer.content, "notice": answer.notice, "calls": calls, "pid": os.getpid()}


def edit(name: str, old: str, new: str) -> dict[str, Any]:
    """Change words in facts/user.md, as a person does on its page."""
    from memory.models import User
    from memory.services.files.reading import read_file
    from memory.services.files.saving import save_file

    owner = User.objects.get(username=name)
    file = read_file(owner, "facts/user.md")
    text = file.content.replace(old, new)
    save_file(owner, file.path, text, by=owner.actor, seen=file.version)
    return {"text": text}


if __name__ == "__main__":
    django.setup()
    do: Any = edit if sys.argv[1] == "edit" else main
    print(json.dumps(do(*sys.argv[2:])))
