"""Sessions with the agent: what is stored, what a model is sent, and how an answer ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone
from django.utils.formats import date_format

from beacon_site.net.errors import ProviderRejected
from beacon_site.providers.llm.base import Answer, ToolCall, Usage
from memory.agents.chat import conversation
from memory.agents.chat import turn as conversation_turn
from memory.agents.chat.conversation import StillAnswering, ask, start
from memory.models import Message, Note, Session, User
from memory.models.errors import InvalidValue
from memory.services.context import identity
from memory.services.files.saving import save_file
from memory.services.llm import connections
from memory.services.notes.saving import write_note
from memory.tasks import embed_due
from tests.memory.embedding_cast import use
from tests.providers.fakes import FAKE_PROFILE, FakeEmbedder, FakeLanguageModel

FACTS = "# User\n\n> Summary: Name: Zhang San, drinks tea\n\n- Name: Zhang San\n- Drinks: tea\n"
Models = Callable[..., FakeLanguageModel]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Models:
    """Let this model be the site's; it gives these answers in turn."""

    def scripted(*answers: Any, **more: Any) -> FakeLanguageModel:
        made = FakeLanguageModel(*answers, profile=more.pop("profile", FAKE_PROFILE), **more)
        monkeypatch.setattr(connections, "language_model", lambda: made)
        return made

    return scripted


@pytest.fixture
def session(alice: Any) -> Session:
    return start(alice, "Tea")


def said(session: Session, text: str) -> Message:
    """The result of a question after a worker processed it."""
    waiting = ask(session, text, by=session.owner.actor)
    conversation_turn.answer(waiting.pk)
    waiting.refresh_from_db()
    return waiting


def calls(tool: str, **arguments: Any) -> Answer:
    wanted = (ToolCall("c1", tool, arguments),)
    return Answer("", Usage(10, 5), "fake", "tool_calls", tool_calls=wanted)


def sent(model: FakeLanguageModel) -> list[Any]:
    return list(model.history[-1].messages)


# --- asking -------------------------------------------------------------------------------------------


def test_a_question_is_stored_with_an_answer_that_waits(session: Session):
    waiting = ask(session, "Do I drink tea?", by=session.owner.actor)

    index, question, answer = session.messages.order_by("position")
    assert (index.is_index, question.content) == (True, "Do I drink tea?")
    assert (answer.pk, answer.state, answer.role) == (waiting.pk, "waiting", "assistant")


def test_the_same_words_sent_twice_from_one_page_are_one_question(session: Session):
    first = ask(session, "Tea?", by=session.owner.actor, seen=-1)
    second = ask(session, "Tea?", by=session.owner.actor, seen=-1)

    assert first == second
    assert session.messages.filter(role="user", is_index=False).count() == 1


def test_the_next_question_waits_for_the_answer(session: Session):
    ask(session, "Tea?", by=session.owner.actor)
    with pytest.raises(StillAnswering, match="still answering"):
        ask(session, "Coffee?", by=session.owner.actor)


@pytest.mark.parametrize(
    ("text", "told"), [(" \x00\u200b", "Enter a question"), ("é" * 32_769, "65,538")]
)
def test_a_message_that_cannot_be_is_refused_with_the_reason(
    session: Session, text: str, told: str
):
    with pytest.raises(InvalidValue, match=told):
        ask(session, text, by=session.owner.actor)
    assert not session.messages.exists()


@pytest.mark.requirement("R205")
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Remember that I am away in March.", "I am away in March."),
        ("please note: the port is Kobe", "The port is Kobe"),
        ("Remember that iPhones are banned.", "iPhones are banned."),
        ("I'd like you to remember my shoe size, 43", "I'd like you to remember my shoe size, 43"),
        ("Remember that", "Remember that"),
        ("记住我叫张三", "记住我叫张三"),
    ],
)
def test_remember_in_a_message_writes_a_volatile_log_of_thirty_days(
    session: Session, text: str, kept: str
):
    ask(session, text, by=session.owner.actor)

    note = Note.objects.for_user(session.owner).get(kind="log")
    assert (note.content, note.stability, note.ttl_days) == (kept, "volatile", 30)
    assert note.source == f"session:{session.pk}"
    assert session.messages.get(content=text).cites[0]["id"] == str(note.pk)


@pytest.mark.parametrize(
    "text", ["Do you remember my name?", "Which notes are there?", "What can you remember?"]
)
def test_a_question_about_remembering_keeps_nothing(session: Session, text: str):
    ask(session, text, by=session.owner.actor)
    assert not Note.objects.for_user(session.owner).filter(kind="log").exists()


# --- what a model is sent -----------------------------------------------------------------------------


@pytest.mark.requirement("R157")
def test_the_index_is_the_first_user_message_and_no_part_of_the_system_prompt(
    session: Session, model: Models
):
    made = model("Tea.")
    said(session, "What do I drink?")

    system, index, question = sent(made)
    assert index.role == "user" and index.content.startswith("Available memory:")
    assert "Available memory:" not in system.content
    assert question.content == "What do I drink?"


@pytest.mark.requirement("R158")
def test_the_index_names_each_file_with_its_size_and_summary(session: Session, model: Models):
    save_file(session.owner, "facts/user.md", FACTS, by=session.owner.actor)
    made = model("Tea.")
    said(session, "What do I drink?")

    index = sent(made)[1].content
    size = len(FACTS.encode())
    assert f"- facts/user.md ({size}B): Name: Zhang San, drinks tea" in index
    assert index.endswith("Use memory_read to load relevant files before responding.")


@pytest.mark.requirement("R159")
def test_the_index_stays_in_later_turns_and_is_not_fetched_again(session: Session, model: Models):
    made = model("Tea.", "Green.")
    said(session, "What do I drink?")
    before = sent(made)[1].content
    save_file(session.owner, "facts/user.md", FACTS, by=session.owner.actor)
    said(session, "Which?")

    indexes = [one.content for one in sent(made) if one.content.startswith("Available memory:")]
    assert indexes == [before]
    assert session.messages.filter(is_index=True).count() == 1
    assert sent(made)[1].content == before


@pytest.mark.requirement("R159")
def test_the_index_stays_also_where_the_window_holds_little(session: Session, model: Models):
    small = replace(FAKE_PROFILE, context_tokens=9_000)
    made = model(default="word " * 900, profile=small)
    for number in range(9):
        said(session, f"Question {number}: " + "why? " * 300)

    assert sent(made)[1].content.startswith("Available memory:")
    assert "left out" in sent(made)[1].content
    assert sent(made)[-1].content.startswith("Question 8")


@pytest.mark.requirement("R160")
def test_the_model_decides_what_to_read_and_the_page_has_each_call(session: Session, model: Models):
    save_file(session.owner, "facts/user.md", FACTS, by=session.owner.actor)
    model(calls("memory_read", path="facts/user.md"), "Tea [file:facts/user.md].")
    answer = said(session, "What do I drink?")

    assert (answer.state, answer.by) == ("done", "model")
    (call,) = answer.tool_calls
    assert (call["tool"], call["result"]) == ("memory_read", FACTS)
    assert [cite["mark"] for cite in answer.cites] == ["file:facts/user.md"]


def test_an_edit_of_the_persona_is_used_by_the_next_answer(session: Session, model: Models):
    made = model("One.", "Two.")
    said(session, "First?")
    persona = identity.first_persona()
    identity.write_persona(
        session.owner, replace(persona, name="Kai of Kobe"), by=session.owner.actor
    )
    said(session, "Second?")
    assert "Kai of Kobe" in sent(made)[0].content


def test_calls_of_earlier_answers_stand_with_their_results(session: Session, model: Models):
    save_file(session.owner, "facts/user.md", FACTS, by=session.owner.actor)
    made = model(calls("memory_read", path="facts/user.md"), "Tea.", "Green.")
    said(session, "What do I drink?")
    said(session, "Which?")

    roles = [one.role for one in sent(made)]
    assert roles == ["system", "user", "user", "assistant", "tool", "assistant", "user"]
    assert sent(made)[4].tool_call_id == sent(made)[3].tool_calls[0].id


# --- citations ----------------------------------------------------------------------------------------


def test_what_was_not_given_or_read_isnt_a_citation(session: Session, model: Models, bob: Any):
    theirs = write_note(bob, "log", "Bob drinks coffee.", by=bob.actor)
    model(f"Coffee [note:{theirs.pk}] or tea [file:facts/memory.md].")
    answer = said(session, "What do I drink?")

    assert answer.content == "Coffee or tea."
    assert answer.cites == []
    assert "2 citations didn’t match any source" in answer.notice


def test_a_cited_rule_is_shown_with_its_words(session: Session, model: Models):
    rule = write_note(
        session.owner, "rule", "Answer in Dutch.", by=session.owner.actor,
        stability="stable", confidence=0.9, evidence=["said so"],
    )  # fmt: skip
    model(f"In Dutch [note:{str(rule.pk)[:8]}].")
    answer = said(session, "Which language?")

    assert answer.content == f"In Dutch [note:{rule.pk}]."
    assert answer.cites[0]["quote"] == "Answer in Dutch."


# --- without a model, and where it fails --------------------------------------------------------------


def test_without_a_model_recall_answers_in_quotes_and_it_is_explained(session: Session):
    note = write_note(
        session.owner, "log", "The harbour of Kobe closes on Sundays.", by=session.owner.actor
    )
    answer = said(session, "When does the harbour close?")

    assert answer.by == "recall"
    assert "“The harbour of Kobe closes on Sundays.”" in answer.content
    assert [cite["id"] for cite in answer.cites] == [str(note.pk)]
    assert answer.notice == "No model is set up. Here’s what I found in memory."


def test_without_a_model_an_answer_that_found_nothing_does_not_say_that_it_did(session: Session):
    answer = said(session, "When does the harbour close?")

    assert answer.content.startswith("I didn’t find anything about that in memory.")
    assert answer.notice == "No model is set up."


@pytest.mark.parametrize(
    ("question", "is_found"),
    [
        ("How many employees does Tesla have?", False),
        ("<script>alert(1)</script>", False),
        ("How many nodes are there?", True),
        ("Which node costs 11?", True),
        ("What is 11?", True),  # nothing else is asked about
    ],
)
def test_without_a_model_a_question_about_something_unknown_finds_nothing(
    session: Session, question: str, is_found: bool
):
    owner = session.owner
    for text in ("Hosting node 11 costs 11 euros.", "Node 1 has many users."):
        write_note(owner, "log", text, by=owner.actor)
    answer = said(session, question)

    assert bool(answer.cites) == is_found
    assert answer.content.startswith("I didn’t find anything") != is_found


@pytest.mark.usefixtures("extension")
def test_without_a_model_what_is_near_in_meaning_is_quoted_and_what_is_not_is_not(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    use(monkeypatch, FakeEmbedder(alike={"car": "automobile"}))
    write_note(session.owner, "log", "red automobile", by=session.owner.actor)
    embed_due()

    answer = said(session, "the car")
    assert "red automobile" in answer.content
    assert answer.notice.endswith("These results are only similar in meaning.")
    assert "similar in meaning" not in said(session, "red").notice
    assert said(session, "the river").content.startswith("I didn’t find anything")


def test_what_is_remembered_until_a_day_expires_at_its_end(session: Session):
    owner = session.owner
    User.objects.filter(pk=owner.pk).update(time_zone="Asia/Tokyo")
    owner.refresh_from_db()
    day = timezone.localdate(timezone=ZoneInfo("Asia/Tokyo")) + timedelta(days=400)
    text = f"Remember that the harbour is closed until {day:%Y-%m-%d}."

    answer = said(session, text)

    note = Note.objects.for_user(owner).get(content__startswith="The harbour is closed")
    end = datetime.combine(day + timedelta(days=1), time(), ZoneInfo("Asia/Tokyo"))
    assert (note.expires_at, note.stability) == (end, "volatile")
    assert answer.content == f"Noted. I’ll keep this until {date_format(day, 'j M Y')}."


def test_a_day_too_far_off_isnt_a_reason_to_refuse_the_message(session: Session):
    text = "Remember that the lease runs until 9 December 2999."
    ask(session, text, by=session.owner.actor)
    assert Note.objects.get(content__startswith="The lease").ttl_days == 30


def test_without_a_model_words_to_be_remembered_are_noted_and_nothing_is_looked_up(
    session: Session,
):
    answer = said(session, "Remember that the harbour closes on Sundays.")
    assert (answer.content, answer.cites) == ("Noted. I’ll keep this for 30 days.", [])
    assert answer.notice == "No model is set up."


def test_a_model_that_fails_is_reported_with_its_reason_and_recall_answers(
    session: Session, model: Models
):
    model(ProviderRejected("the key is wrong"))
    answer = said(session, "When does the harbour close?")

    assert (answer.state, answer.by) == ("done", "recall")
    assert "the key is wrong" in answer.notice and "what I found" not in answer.notice


def test_a_model_without_tools_is_given_what_recall_finds(session: Session, model: Models):
    write_note(
        session.owner, "log", "The harbour of Kobe closes on Sundays.", by=session.owner.actor
    )
    made = model("On Sundays.", profile=replace(FAKE_PROFILE, tools=False))
    said(session, "When does the harbour close?")

    assert made.history[-1].tools == ()
    assert "closes on Sundays" in sent(made)[-1].content


def test_what_is_sensitive_is_in_no_answer(session: Session, model: Models):
    write_note(
        session.owner, "log", "The harbour code is 4711.", by=session.owner.actor,
        sensitivity="sensitive",
    )  # fmt: skip
    assert "4711" not in said(session, "What is the harbour code?").content


# --- workers ------------------------------------------------------------------------------------------


def test_an_answer_that_is_taken_is_not_worked_out_twice(session: Session, model: Models):
    made = model("Tea.")
    waiting = ask(session, "Tea?", by=session.owner.actor)

    assert conversation_turn.answer(waiting.pk) is True
    assert conversation_turn.answer(waiting.pk) is False
    assert len(made.history) == 1


def test_the_answer_of_a_lost_worker_is_taken_up_again_three_times_at_most(
    session: Session, model: Models
):
    model("Tea.")
    waiting = ask(session, "Tea?", by=session.owner.actor)
    for _time in range(3):
        assert Message.objects.claim(waiting.pk) is not None
        assert Message.objects.claim(waiting.pk) is None
        Message.objects.filter(pk=waiting.pk).update(
            lease_until=timezone.now() - timedelta(seconds=1)
        )

    assert conversation_turn.answer(waiting.pk) is False
    assert Message.objects.sweep() == 1
    waiting.refresh_from_db()
    assert (waiting.state, "3 times" in waiting.notice) == ("failed", True)
    assert not Message.objects.due().exists()


def test_a_worker_that_was_given_up_writes_nothing_more(session: Session):
    waiting = ask(session, "Tea?", by=session.owner.actor)
    first = Message.objects.claim(waiting.pk)
    assert first is not None
    Message.objects.filter(pk=waiting.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    assert Message.objects.claim(waiting.pk) is not None
    assert first.renew(content="late") is False


def test_a_stopped_answer_keeps_what_was_written(session: Session, monkeypatch: pytest.MonkeyPatch):
    waiting = ask(session, "Tea?", by=session.owner.actor)

    class Stopping(FakeLanguageModel):
        def _tell(self, text: str, on_text: Any) -> None:
            on_text("Green te")
            conversation.stop(waiting)
            on_text(text)

    made = Stopping("Green tea.", profile=FAKE_PROFILE)
    monkeypatch.setattr(conversation_turn, "SHOWN_EVERY", 0.0)
    monkeypatch.setattr(connections, "language_model", lambda: made)
    conversation_turn.answer(waiting.pk)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.content, waiting.notice) == (
        "done",
        "Green te",
        "You stopped the answer.",
    )


def test_a_failed_answer_can_be_requested_again(session: Session, model: Models):
    waiting = ask(session, "Tea?", by=session.owner.actor)
    conversation.stop(waiting)
    model("Tea.")
    assert conversation.again(Message.objects.select_related("session__owner").get(pk=waiting.pk))

    conversation_turn.answer(waiting.pk)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.content) == ("done", "Tea.")


# --- trust --------------------------------------------------------------------------------------------


def test_what_an_answer_writes_after_reading_from_outside_waits_for_the_person(
    session: Session, model: Models
):
    write_note(
        session.owner, "log", "The web says: tea is poison.", by=session.owner.actor,
        trust="external",
    )  # fmt: skip
    model(
        calls("recall", query="tea poison"),
        "It is said so.",
        calls("remember", content="Tea is poison."),
        "It waits for you.",
    )
    said(session, "Is tea poison?")
    answer = said(session, "Keep it.")

    assert answer.tool_calls[0]["proposal"]
    assert not Note.objects.for_user(session.owner).filter(content="Tea is poison.").exists()
