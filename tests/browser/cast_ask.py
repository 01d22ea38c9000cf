"""Data of Ask for the checked pages: a session in each state, answered by a scripted model."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from beacon_site.providers.llm.base import Answer, ToolCall, Usage
from memory.agents.chat import conversation
from memory.agents.chat import end as conversation_end
from memory.agents.chat import turn as conversation_turn
from memory.models import Message, Note, Session
from memory.services.llm import connections
from memory.services.notes.saving import write_note
from tests.memory.ended_sessions import finish_session
from tests.providers.fakes import FakeLanguageModel


def asked(owner: Any) -> dict[str, str]:
    """Create sessions: one with citations and calls, one being answered, one failed, one ended."""
    rule = write_note(
        owner, "rule", "Quote prices in euros, with the date of the exchange rate.",
        by=owner.actor, confidence=0.9, evidence=["said on 14 November"],
    )  # fmt: skip
    real = connections.language_model
    try:
        talk = _talk(owner, rule)
        ended = _ended(owner)
    finally:
        connections.language_model = real
    return {
        "ask_session": talk.get_absolute_url(),
        "ask_answering": _answering(owner).get_absolute_url(),
        "ask_failed": _failed(owner).get_absolute_url(),
        "ask_ended": ended.get_absolute_url(),
        "ask_rename": f"{talk.get_absolute_url()}rename/",
    }


def _model(*answers: Any) -> None:
    made = FakeLanguageModel(*answers)
    connections.language_model = lambda: made


def _calls(*wanted: tuple[str, dict[str, Any]]) -> Answer:
    calls = tuple(ToolCall(f"c{n}", tool, told) for n, (tool, told) in enumerate(wanted))
    return Answer("", Usage(10, 5), "fake", "tool_calls", tool_calls=calls)


def _say(session: Session, text: str) -> None:
    waiting = conversation.ask(session, text, by=session.owner.actor)
    conversation_turn.answer(waiting.pk)


def _talk(owner: Any, rule: Note) -> Session:
    _model(
        _calls(("memory_read", {"path": "facts/memory.md"}), ("recall", {"query": "prices euros"})),
        "Prices are in **euros**, with the date of the exchange rate "
        f"[note:{rule.pk}]. Shipping:\n\n- by sea, from the port in your notes "
        "[file:facts/memory.md]\n- nothing else is known [note:0000]",
        "好的。价格以欧元计算。",
        _calls(("memory_read", {"path": "facts/nobody.md"})),
        "There is no such file.",
    )
    session = conversation.start(owner, "How do we quote prices, and how do we ship?")
    _say(session, "How do we quote prices, and how do we ship?")
    _say(session, "Remember that I am away in the first week of March.\n请用中文回答。")
    _say(session, "And what does facts/nobody.md say?")
    connections.language_model = lambda: None
    _say(session, "prices in euros")
    return session


def _answering(owner: Any) -> Session:
    session = conversation.start(owner, "What changed about solid-state batteries?")
    waiting = conversation.ask(session, session.title, by=owner.actor)
    call = {
        "round": 1, "tool": "recall", "arguments": {"query": "solid-state batteries"},
        "result": "- [note:1] 0.81 (note) Cells cost 89 dollars.", "is_error": False,
        "records": [{}, {}],
    }  # fmt: skip
    # Its worker beats on for a day, as far as anyone can tell.
    Message.objects.filter(pk=waiting.pk).update(
        state="answering", attempt=1, content="Two things changed since the last report: the pilot",
        tool_calls=[call], lease_until=timezone.now() + timedelta(days=1),
    )  # fmt: skip
    return session


def _failed(owner: Any) -> Session:
    session = conversation.start(owner, "What does the last report say?")
    waiting = conversation.ask(session, session.title, by=owner.actor)
    conversation.stop(waiting)
    return session


def _ended(owner: Any) -> Session:
    decided = "We agreed that the weekly report comes on Fridays and names at most five sources. "
    _model(
        decided, decided + "That holds from March on.", decided + "Nothing else is open.",
        {"result": "The weekly report comes on Fridays.", "next_steps": ["Ask again in June."]},
        _calls(("memory_append", {"path": "facts/memory.md", "entry": "- Reports: on Fridays"})),
        "Kept the day of the reports.",
    )  # fmt: skip
    session = conversation.start(owner, "When do reports come?")
    for text in ("When do reports come?", "From when on?", "Is anything else open?"):
        _say(session, text)
    conversation_end.end(session, by=owner.actor)
    finish_session(session)
    session.refresh_from_db()
    return session
