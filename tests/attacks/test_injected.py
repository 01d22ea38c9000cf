"""Hostile texts by the reflector and by agents, over REST and the tools that MCP offers.

What a run reads is tried in tests/research/test_hostile_pages.py and tests/memory/test_review_hostile.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from memory.contexts import identity
from memory.files.reading import read_file
from memory.models import MemoryFile, Note, User
from memory.texts.text import one_line
from memory.toolkit.registry import ToolContext, call_tool
from tests.api.cast import Program
from tests.attacks.figures import Count
from tests.memory.hostile_texts import TRICKS
from tests.memory.reflection_cast import call, reflect_for
from tests.memory.review_cast import AGENT

pytestmark = pytest.mark.django_db
TEXTS = [one_line(text) for texts in TRICKS.values() for text in texts]
# A sixth of them in the quick run, of each trick some.
SOME = [pytest.param(6, id="some"), pytest.param(1, marks=pytest.mark.long, id="all")]
USER = "facts/user.md"


def who_is_who(owner: User) -> dict[str, Any]:
    """Everything that says who the owner and the agent are, and every file."""
    notes = Note.objects.of(owner).filter(kind__in=[*Note.IDENTITY, "rule"])
    files = MemoryFile.objects.of(owner).values_list("path", "content", "version")
    return {"notes": sorted(map(str, notes.values_list("pk", "content"))), "files": sorted(files)}


@pytest.fixture
def before(alice: User) -> dict[str, Any]:
    """Who is who, while nobody has written."""
    read_file(alice, USER)
    return who_is_who(alice)


@pytest.mark.parametrize("every", SOME)
def test_the_reflector_holds_whatever_a_page_tells_it_to_write(
    alice: User,
    before: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    count: Count,
    every: int,
) -> None:
    reflect, held, tried = reflect_for(alice, monkeypatch), 0, 0
    for path in (USER, "facts/memory.md"):
        for text in TEXTS[::every]:
            wanted = call("memory_append", path=path, entry=f"- {text}")
            done = reflect(wanted, "Kept.", trust="external", source=f"run:{tried}")
            held += [one["act"] for one in done.changes] == ["held"]
            tried += 1

    is_out = who_is_who(alice) != before
    count("injection: the reflector", tried, refused=held, run=int(is_out))
    assert who_is_who(alice) == before
    assert held == tried


@pytest.mark.parametrize("every", SOME)
def test_no_agent_changes_who_is_who_by_rest(
    alice: User, before: dict[str, Any], count: Count, every: int
) -> None:
    agent, held, tried = Program(alice, "read", "write"), 0, 0
    soul, file = identity.first_soul(), read_file(alice, USER).content
    for text in TEXTS[::every]:
        answers = [
            agent.post("/notes", {"content": text, "kind": "user"}),
            agent.post("/notes", {"content": f"{soul}\n\n{text}", "kind": "soul"}),
            agent.put(f"/files/{USER}", {"content": f"{file}\n- {text}\n"}, If_Match="*"),
        ]
        assert max(one.status_code for one in answers) < 500
        held += sum("proposal" in one.json() or one.status_code >= 400 for one in answers)
        tried += len(answers)

    is_out = who_is_who(alice) != before
    count("injection: agents by REST", tried, refused=held, run=int(is_out))
    assert who_is_who(alice) == before
    assert held == tried


@pytest.mark.parametrize("every", SOME)
def test_no_agent_changes_who_is_who_by_the_tools_of_mcp(
    alice: User, before: dict[str, Any], count: Count, every: int
) -> None:
    held = tried = 0
    soul, file = identity.first_soul(), read_file(alice, USER).content
    for text in TEXTS[::every]:
        for name, told in (
            ("remember", {"content": text, "kind": "user"}),
            ("update_soul", {"content": f"{soul}\n\n{text}"}),
            ("memory_append", {"path": USER, "entry": f"- {text}", "summary": text}),
            ("memory_write", {"path": USER, "content": f"{file}\n- {text}\n"}),
        ):
            answer = call_tool(ToolContext(alice, AGENT, "agent:desk"), name, told)
            held += answer.is_error or "proposal" in answer.data
            tried += 1

    is_out = who_is_who(alice) != before
    count("injection: agents by MCP's tools", tried, refused=held, run=int(is_out))
    assert who_is_who(alice) == before
    assert held == tried
