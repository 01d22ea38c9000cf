"""Data for the reflection tests: a model's calls, and the work it reflects on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beacon_site.providers.llm.base import Answer, Message, ToolCall, Usage
from memory.agents import reflection as reflection_services
from memory.models import Reflection, ReviewLevel, User
from memory.services.files.reading import read_file
from memory.services.llm import connections
from tests.providers.fakes import FAKE_PROFILE, FakeLanguageModel

Reflect = Callable[..., Reflection]
REPORT = "Sila asked for trains to Lyon. Night trains run again since May. They sell out early."
LESSON = "- Night trains sell out early: look first"


def call(tool: str, **arguments: Any) -> Answer:
    """A model's answer that calls one tool."""
    wanted = ToolCall("c1", tool, arguments)
    return Answer("", Usage(10, 5), "fake", "tool_calls", tool_calls=(wanted,))


def learned(line: str = LESSON) -> Answer:
    """A model's answer that adds a line to what was learned."""
    return call("memory_append", path="facts/memory.md", entry=line)


def text_of(owner: User, path: str) -> str:
    """Return the text of a file."""
    return str(read_file(owner, path).content)


def accept_all(owner: User) -> None:
    """Let everything be stored at once."""
    ReviewLevel.objects.create(owner=owner, level=ReviewLevel.Level.ACCEPT)


def reflect_for(owner: User, monkeypatch: pytest.MonkeyPatch) -> Reflect:
    """Return a function: reflect on a talk about trains by a model with these answers, or by none."""

    def run(*answers: Any, **more: Any) -> Reflection:
        kind = more.pop("kind", FakeLanguageModel)
        model = kind(*answers, profile=more.pop("profile", FAKE_PROFILE)) if answers else None
        monkeypatch.setattr(connections, "language_model", lambda: model)
        run.model = model  # type: ignore[attr-defined]
        more = {
            "source": "session:1",
            "task": "Find trains to Lyon",
            "result": REPORT,
            "history": [Message("user", "I like night trains.")],
            "trust": "owner",
            **more,
        }
        return reflection_services.reflect(owner, **more)

    return run
