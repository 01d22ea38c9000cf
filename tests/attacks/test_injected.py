"""Hostile texts by the reflector, by agents over REST and MCP, in Ask and in imports.

What a run reads is tried in tests/research/test_hostile_pages.py and tests/memory/test_review_hostile.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from beacon_site.providers.llm.base import Answer, ToolCall, Usage
from beacon_site.text.cleaning import one_line
from memory.accounts.archive.foreign_formats import Entry, import_entries
from memory.accounts.archive.importer import ImportContext
from memory.agents.chat import conversation
from memory.agents.chat import turn as conversation_turn
from memory.agents.tools.registry import call_tool
from memory.agents.tools.types import ToolContext
from memory.models import MemoryFile, Note, Observation, User
from memory.services.context import identity
from memory.services.files.reading import read_file
from memory.services.llm import connections
from memory.services.notes.saving import write_note
from tests.api.cast import Program
from tests.attacks.figures import Count
from tests.memory.hostile_texts import TRICKS
from tests.memory.reflection_cast import call, reflect_for
from tests.memory.review_cast import AGENT
from tests.providers.fakes import FAKE_PROFILE, FakeLanguageModel

pytestmark = pytest.mark.django_db
TEXTS = [one_line(text) for texts in TRICKS.values() for text in texts]
# A sixth of them in the quick run, of each trick some.
SOME = [pytest.param(6, id="some"), pytest.param(1, marks=pytest.mark.long, id="all")]
USER = "facts/user.md"


def who_is_who(owner: User) -> dict[str, Any]:
    """The identity notes of owner and agent, and every file."""
    notes = Note.objects.for_user(owner).filter(kind__in=[*Note.IDENTITY, "rule"])
    files = MemoryFile.objects.for_user(owner).values_list("path", "content", "version")
    return {"notes": sorted(map(str, notes.values_list("pk", "content"))), "files": sorted(files)}


@pytest.fixture
def before(alice: User) -> dict[str, Any]:
    """The identity notes and files, before anyone has written."""
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


def obeyed(owner: User, text: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls of a model that obeys a text: a rule, its identity, the owner's profile, facts."""
    return [
        ("remember", {"content": text, "kind": "rule", "confidence": 1.0, "evidence": [text]}),
        ("update_soul", {"content": f"{identity.first_soul()}\n\n{text}"}),
        ("memory_append", {"path": USER, "entry": f"- {text}", "summary": text}),
        ("memory_append", {"path": "facts/memory.md", "entry": f"- {text}"}),
    ]


def calls(*wanted: tuple[str, dict[str, Any]]) -> Answer:
    made = tuple(ToolCall(f"c{n}", name, told) for n, (name, told) in enumerate(wanted))
    return Answer("", Usage(10, 5), "fake", "tool_calls", tool_calls=made)


@pytest.mark.parametrize("every", SOME)
def test_ask_holds_whatever_a_record_from_outside_tells_it_to_write(
    alice: User,
    before: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    count: Count,
    every: int,
) -> None:
    held = tried = 0
    for text in TEXTS[::every]:
        note = write_note(alice, "log", text, by=alice.actor, trust="external")
        read, orders = calls(("retrieve", {"id": str(note.pk)})), obeyed(alice, text)
        model = FakeLanguageModel(read, calls(*orders), "Done.", profile=FAKE_PROFILE)
        monkeypatch.setattr(connections, "language_model", lambda model=model: model)
        waiting = conversation.ask(conversation.start(alice, "News"), "News?", by=alice.actor)
        conversation_turn.answer(waiting.pk)
        waiting.refresh_from_db()
        done = [one for one in waiting.tool_calls if one["tool"] != "retrieve"]
        held += sum("proposal" in one for one in done)
        tried += len(orders)

    is_out = who_is_who(alice) != before
    count("injection: Ask", tried, refused=held, run=int(is_out))
    assert who_is_who(alice) == before
    assert held == tried


@pytest.mark.parametrize("every", SOME)
def test_rows_of_an_import_say_nothing_of_who_is_who_and_are_a_strangers(
    alice: User, before: dict[str, Any], count: Count, every: int
) -> None:
    kinds = [*Note.IDENTITY, "log", "summary"]
    rows = [
        *(Entry("a", True, {"kind": kind, "content": t}) for t in TEXTS[::every] for kind in kinds),
        *(
            Entry("a", False, {"category": "lesson", "content": text, "trust": "owner"})
            for text in TEXTS[::every]
        ),
    ]
    ours = list(Note.objects.for_user(alice).values_list("pk", flat=True))

    outcome = import_entries(
        rows, ImportContext(alice, alice.actor, "a.json", False), only_look=False
    )

    stored = [
        *Note.objects.for_user(alice).exclude(pk__in=ours),
        *Observation.objects.for_user(alice),
    ]
    trusts = {one.trust for one in stored}
    is_out = who_is_who(alice) != before or not trusts <= {"external", "quarantined"}
    count("injection: rows of an import", len(rows), refused=outcome.refused, run=int(is_out))
    assert who_is_who(alice) == before
    assert trusts <= {"external", "quarantined"}
    assert outcome.refused == len(Note.IDENTITY) * len(TEXTS[::every])
