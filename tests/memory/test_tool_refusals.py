"""What memory refuses reaches a model as an answer that says what to do."""

from __future__ import annotations

from typing import Any

import pytest

from memory.agents.tools import notes as tool_notes
from memory.agents.tools.registry import answer_of
from memory.models.errors import (
    InvalidValue,
    LimitReached,
    Locked,
    MemoryRefused,
    NoSuchKey,
    StaleWrite,
)
from memory.services.files.texts import NoSuchFile, OverBudget
from memory.services.observations.saving import SavedLines
from tests.memory.tool_cast import call


@pytest.mark.parametrize(
    ("refusal", "data"),
    [
        (NoSuchKey("k"), {"error": "not_found"}),
        (InvalidValue("Too long.", errors={"key": ["Too long."]}), {"error": "invalid"}),
        (Locked("Locked."), {"error": "locked"}),
        (StaleWrite("a note", current=4), {"error": "stale", "version": 4}),
        (NoSuchFile("episodes/2026-02.md", []), {"error": "not_found"}),
        (OverBudget("Too much.", have=16, most=15), {"error": "over_budget", "have": 16}),
        (LimitReached("Ten at most."), {"error": "limit"}),
        (MemoryRefused("Not so."), {"error": "refused"}),
    ],
)
def test_each_refusal_has_words_and_a_code(refusal: Exception, data: dict[str, Any]):
    answer = answer_of(refusal)

    assert answer is not None
    assert answer.is_error
    assert str(refusal) in answer.text
    assert data.items() <= answer.data.items()
    assert answer.data["message"] == answer.text


def test_what_isnt_a_refusal_has_no_answer():
    assert answer_of(KeyError("x")) is None
    assert answer_of(RuntimeError("x")) is None


def test_a_transcript_that_could_not_be_kept_says_why(alice: Any, monkeypatch: pytest.MonkeyPatch):
    failed = SavedLines(problem="The session couldn’t be consolidated: the disk is full")
    monkeypatch.setattr(tool_notes, "keep_lines", lambda *_args, **_more: failed)
    said = "We decided to use OAuth2, because both sides know it well enough by now."

    answer = call(alice, "consolidate", messages=[{"role": "assistant", "content": said}])

    assert answer.is_error
    assert "the disk is full" in answer.text
