"""What an ended session leaves behind: observations, a summary, a log, a reflection."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import F

from beacon_site.providers.llm.base import Answer, ToolCall, Usage
from memory.agents.chat import end as conversation_end
from memory.agents.chat import turn as conversation_turn
from memory.agents.chat.conversation import SessionEndedError, ask, start
from memory.models import Activity, Message, Note, Observation, Reflection, Session
from memory.services.files.reading import read_file
from memory.services.llm import connections
from tests.memory.ended_sessions import finish_session
from tests.providers.fakes import FakeLanguageModel

LONG = (
    "We agreed that the reports come on Fridays, in Dutch, with at most five sources each, and "
    "that the port of Kobe is looked at first. "
)


@pytest.fixture
def session(alice: Any) -> Session:
    """Two questions and their answers."""
    made = start(alice, "Reports")
    told(made, "When do the reports come?", LONG)
    told(made, "In which language are they written, and how many sources?", LONG + "Always.")
    return made


def told(session: Session, question: str, answer: str) -> None:
    waiting = ask(session, question, by=session.owner.actor)
    Message.objects.filter(pk=waiting.pk).update(content=answer, state="done", by="model")


def ended(session: Session) -> Reflection:
    """End the session and let a worker finish it."""
    conversation_end.end(session, by=session.owner.actor)
    finish_session(session)
    return Reflection.objects.get(source=f"session:{session.pk}")


def test_nothing_can_be_sent_in_a_session_that_is_over(session: Session):
    assert conversation_end.end(session, by=session.owner.actor) is True
    assert conversation_end.end(session, by=session.owner.actor) is False
    with pytest.raises(SessionEndedError, match="in a new one"):
        ask(session, "And now?", by=session.owner.actor)


@pytest.mark.requirement("R106")
def test_the_last_long_answer_is_kept_once_as_an_insight(session: Session):
    ended(session)

    kept = Observation.objects.for_user(session.owner).filter(tags__contains=["session-summary"])
    assert [one.content for one in kept] == [(LONG + "Always.").strip()]
    assert not Observation.objects.filter(content__startswith="Available memory").exists()


@pytest.mark.requirement("R246")
def test_an_ended_session_leaves_a_summary_of_seven_days(session: Session):
    ended(session)
    finish_session(session)

    note = Note.objects.for_user(session.owner).get(kind="summary")
    assert (note.stability, note.ttl_days, note.source) == (
        "volatile", 7, f"session:{session.pk}",
    )  # fmt: skip
    assert "**Goal:** When do the reports come?" in note.content
    assert "2 messages from the user" in note.content and "port of Kobe" in note.content


@pytest.mark.requirement("R246")
def test_a_session_without_an_answer_leaves_only_what_was_asked(alice: Any, monkeypatch: Any):
    monkeypatch.setattr(connections, "language_model", lambda: pytest.fail("there is no answer"))
    unanswered = start(alice, "Reports")
    told(unanswered, "When do the reports come?", "")
    ended(unanswered)

    [note] = Note.objects.for_user(alice).exclude(kind__in=Note.IDENTITY)
    assert note.kind == "log" and "- When do the reports come?" in note.content


@pytest.mark.requirement("R246")
def test_a_model_may_sum_up_and_name_next_steps(session: Session, monkeypatch: Any):
    made = FakeLanguageModel({"result": "Fridays.", "next_steps": ["Ask about June."]})
    monkeypatch.setattr(connections, "language_model", lambda: made)
    ended(session)

    note = Note.objects.for_user(session.owner).get(kind="summary")
    assert "**Result:** Fridays." in note.content and "- Ask about June." in note.content


@pytest.mark.requirement("R247")
def test_what_was_asked_is_one_log_of_thirty_days(session: Session):
    told(session, "Remember that I am away in March.", "Noted.")
    ended(session)

    asked, noted = Note.objects.for_user(session.owner).filter(kind="log").order_by("-created")
    assert "- When do the reports come?" in asked.content
    assert "away in March" not in asked.content and "away in March" in noted.content
    assert (asked.stability, asked.ttl_days) == ("volatile", 30)


def test_a_short_session_is_not_looked_back_on(session: Session):
    reflection = ended(session)
    assert reflection.state == "skipped"
    assert "4 messages, including 2 from you" in reflection.why


@pytest.mark.requirement("R164")
def test_a_session_of_six_messages_leaves_a_dated_entry_without_a_model(session: Session):
    told(session, "Which port is looked at first?", LONG + "Then Osaka.")
    reflection = ended(session)

    assert (reflection.state, reflection.by) == ("done", "rules")
    entry = read_file(session.owner, reflection.changes[0]["path"]).content
    assert "We agreed that the reports come on Fridays" in entry


def test_the_model_looks_back_on_what_was_reported_and_called(session: Session, monkeypatch: Any):
    told(session, "Which port is looked at first?", LONG)
    wanted = ToolCall(
        "c1", "memory_append", {"path": "facts/memory.md", "entry": "- Reports: Fridays"}
    )
    made = FakeLanguageModel(
        {"result": "Fridays.", "next_steps": []},
        Answer("", Usage(5, 5), "fake", "tool_calls", tool_calls=(wanted,)),
        "Kept the day.",
    )
    monkeypatch.setattr(connections, "language_model", lambda: made)
    reflection = ended(session)

    assert (reflection.state, reflection.by) == ("done", "model")
    assert "Which port is looked at first?" in made.history[1].prompt
    assert "- Reports: Fridays" in read_file(session.owner, "facts/memory.md").content


def test_ending_stops_an_answer_that_is_still_worked_out(session: Session):
    waiting = ask(session, "One more?", by=session.owner.actor)
    conversation_end.end(session, by=session.owner.actor)

    waiting.refresh_from_db()
    assert (waiting.state, waiting.notice) == ("failed", "The conversation has ended.")
    assert conversation_turn.answer(waiting.pk) is False


def test_an_ended_session_waits_until_a_worker_has_finished_it(session: Session):
    conversation_end.end(session, by=session.owner.actor)
    assert Reflection.objects.due().count() == 1

    finish_session(session)
    assert not Reflection.objects.due().exists()
    assert finish_session(session) is False


def test_a_session_in_the_trash_leaves_nothing(session: Session):
    conversation_end.end(session, by=session.owner.actor)
    session.refresh_from_db()
    session.trash(by=session.owner.actor)
    finish_session(session)

    assert not Note.objects.for_user(session.owner).filter(kind="summary").exists()
    assert not Reflection.objects.due().exists()


def test_a_worker_that_lost_the_session_ends_nothing(session: Session, monkeypatch: Any):
    def another_claims(_session: Session) -> None:
        Reflection.objects.update(attempt=F("attempt") + 1)

    monkeypatch.setattr(conversation_end, "_summarise", another_claims)
    reflection = ended(session)

    assert (reflection.state, reflection.attempt) == ("running", 2)
    assert reflection.lease_until is not None and reflection.finished_at is None


@pytest.mark.requirement("R110")
def test_what_breaks_at_the_end_is_reported_and_the_session_stays_ended(
    session: Session, monkeypatch: Any
):
    def broken(*_args: Any, **_more: Any) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(conversation_end, "_summarise", broken)
    conversation_end.end(session, by=session.owner.actor)
    with pytest.raises(RuntimeError):
        finish_session(session)

    reflection = Reflection.objects.get(source=f"session:{session.pk}")
    assert (reflection.state, "something went wrong" in reflection.why) == ("failed", True)
    assert Session.objects.get(pk=session.pk).ended_at is not None
    assert Activity.objects.for_user(session.owner).filter(kind="session-ended").count() == 1
