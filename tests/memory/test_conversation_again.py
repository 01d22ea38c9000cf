"""Asked twice, gone back to, interrupted: nothing said is put into another session, nothing written twice."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from beacon_site.net.errors import ProviderRejected
from beacon_site.providers.llm.base import Answer, ToolCall, Usage
from memory.agents.chat import conversation
from memory.agents.chat import end as conversation_end
from memory.agents.chat import turn as conversation_turn
from memory.agents.chat.conversation import ask, begin, rename, start
from memory.models import Message, Note, Session
from memory.services.llm import connections
from tests.providers.fakes import FAKE_PROFILE, FakeLanguageModel

pytestmark = pytest.mark.django_db


def remembering(text: str) -> Answer:
    wanted = (ToolCall("c1", "remember", {"content": text}),)
    return Answer("", Usage(10, 5), "fake", "tool_calls", tool_calls=wanted)


# --- the first question ---------------------------------------------------------------------------


def test_the_same_first_question_sent_twice_begins_one_session(alice: Any):
    key = uuid.uuid4()
    first = begin(alice, "Tea?", key=key)
    ask(first, "Tea?", by=alice.actor, seen=-1)

    assert begin(alice, "Tea?", key=key) == first


def test_another_question_from_the_same_page_begins_another_session(alice: Any):
    key = uuid.uuid4()
    first = begin(alice, "Tea?", key=key)
    ask(first, "Tea?", by=alice.actor, seen=-1)
    second = begin(alice, "Coffee?", key=key)
    ask(second, "Coffee?", by=alice.actor, seen=-1)

    assert second != first
    assert begin(alice, "Coffee?", key=key) == second


@pytest.mark.parametrize("over", ["ended", "trashed"])
def test_a_question_whose_session_is_over_begins_again(alice: Any, over: str):
    key = uuid.uuid4()
    first = begin(alice, "Tea?", key=key)
    ask(first, "Tea?", by=alice.actor, seen=-1)
    if over == "ended":
        conversation_end.end(first, by=alice.actor)
    else:
        first.refresh_from_db()
        first.trash(by=alice.actor)

    again = begin(alice, "Tea?", key=key)

    assert again != first
    assert ask(again, "Tea?", by=alice.actor, seen=-1).state == "waiting"


def test_a_key_of_someone_elses_begins_ones_own(alice: Any, bob: Any):
    theirs = begin(bob, "Tea?", key=uuid.uuid4())

    assert begin(alice, "Tea?", key=theirs.pk).owner == alice
    assert Session.objects.for_user(bob).count() == 1


def test_the_same_new_title_sent_twice_isnt_a_conflict(alice: Any):
    session = start(alice, "Tea")
    rename(session, "Coffee", by=alice.actor, expected_version=session.version)
    again = Session.objects.get(pk=session.pk)
    rename(again, "Coffee", by=alice.actor, expected_version=again.version - 1)

    assert Session.objects.get(pk=session.pk).title == "Coffee"


# --- an answer that is continued -----------------------------------------------------------------


class Killed(BaseException):
    """The worker is gone."""


def killed_behind_its_write(owner: Any, monkeypatch: pytest.MonkeyPatch) -> Message:
    """An answer whose worker remembered something, and was killed as the model continued."""
    made = FakeLanguageModel(remembering("Tea at five."), Killed(), profile=FAKE_PROFILE)
    monkeypatch.setattr(connections, "language_model", lambda: made)
    waiting = ask(start(owner, "Tea"), "When is tea?", by=owner.actor)
    with pytest.raises(Killed):
        conversation_turn.answer(waiting.pk)
    Message.objects.filter(pk=waiting.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    return waiting


def test_a_worker_that_takes_an_answer_up_knows_what_was_written(
    alice: Any, monkeypatch: pytest.MonkeyPatch
):
    waiting = killed_behind_its_write(alice, monkeypatch)
    made = FakeLanguageModel("At five.", profile=FAKE_PROFILE)
    monkeypatch.setattr(connections, "language_model", lambda: made)
    conversation_turn.answer(waiting.pk)

    waiting.refresh_from_db()
    question, call, result = made.history[-1].messages[-3:]
    assert (question.content, call.tool_calls[0].name, result.role) == (
        "When is tea?", "remember", "tool",
    )  # fmt: skip
    assert Note.objects.for_user(alice).filter(content="Tea at five.").count() == 1
    assert [one["tool"] for one in waiting.tool_calls] == ["remember"]
    assert (waiting.state, waiting.content) == ("done", "At five.")


def test_trying_again_continues_behind_what_was_written(
    alice: Any, monkeypatch: pytest.MonkeyPatch
):
    waiting = killed_behind_its_write(alice, monkeypatch)
    Message.objects.filter(pk=waiting.pk).update(state="failed", lease_until=None)
    waiting.refresh_from_db()
    assert conversation.again(waiting)
    made = FakeLanguageModel("At five.", profile=FAKE_PROFILE)
    monkeypatch.setattr(connections, "language_model", lambda: made)
    conversation_turn.answer(waiting.pk)

    assert made.history[-1].messages[-1].role == "tool"


def test_without_the_model_what_was_written_is_still_told(
    alice: Any, monkeypatch: pytest.MonkeyPatch
):
    waiting = killed_behind_its_write(alice, monkeypatch)
    made = FakeLanguageModel(ProviderRejected("no credit"), profile=FAKE_PROFILE)
    monkeypatch.setattr(connections, "language_model", lambda: made)
    conversation_turn.answer(waiting.pk)

    waiting.refresh_from_db()
    assert (waiting.by, [one["tool"] for one in waiting.tool_calls]) == ("recall", ["remember"])
