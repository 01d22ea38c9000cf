"""A request sent twice with one Idempotency-Key is processed once."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections
from django.utils import timezone

from memory.agents.tools import notes
from memory.api import observations
from memory.models import ApiAnswer, ModelCall, Note
from memory.services.llm import connections as site
from memory.services.records import acts as record_acts
from memory.tasks import forget_api_answers
from tests.api.cast import Program, problem
from tests.providers.fakes import FakeLanguageModel

NOTE = {"content": "The kettle is descaled on Mondays."}
KEY = {"Idempotency_Key": "one"}
STEP = {
    "step_name": "look",
    "step_type": "AGENT",
    "output": "We looked into the kitchen. " * 9,
    "store": True,
}


def written(owner: Any) -> int:
    return Note.objects.for_user(owner).filter(content=NOTE["content"]).count()


def test_the_same_request_is_answered_the_same_again(agent: Program) -> None:
    first, second = agent.post("/notes", NOTE, **KEY), agent.post("/notes", NOTE, **KEY)

    assert written(agent.owner) == 1
    assert (second.status_code, second.content) == (201, first.content)
    assert second["Location"] == first["Location"]
    assert (second["ETag"], second["Idempotent-Replayed"]) == (first["ETag"], "true")


def test_another_body_or_address_with_the_same_key_is_refused(agent: Program) -> None:
    agent.post("/notes", NOTE, **KEY)

    told = problem(agent.post("/notes", {"content": "Something else."}, **KEY), 422)
    assert "Idempotency-Key" in told["errors"]
    problem(agent.post("/observations", NOTE, **KEY), 422)
    assert Note.objects.for_user(agent.owner).filter(source="agent:desk").count() == 1


def test_a_refused_request_can_be_sent_again_with_its_key(agent: Program) -> None:
    problem(agent.post("/notes", {}, **KEY), 422)

    assert agent.post("/notes", NOTE, **KEY).status_code == 201


def test_each_token_has_its_own_keys(agent: Program, person: Program) -> None:
    assert agent.post("/notes", NOTE, **KEY).json() != person.post("/notes", NOTE, **KEY).json()


def test_after_a_day_a_key_is_new(agent: Program) -> None:
    agent.post("/notes", NOTE, **KEY)
    ApiAnswer.objects.update(created=timezone.now() - timedelta(hours=24))
    agent.post("/notes", {**NOTE, "kind": "summary"}, **KEY)

    assert written(agent.owner) == 2
    assert ApiAnswer.objects.old().count() == 0


def test_kept_answers_go_after_their_day(agent: Program) -> None:
    agent.post("/notes", NOTE, **KEY)
    agent.post("/notes", NOTE, Idempotency_Key="two")
    ApiAnswer.objects.filter(key="one").update(created=timezone.now() - timedelta(hours=24))
    forget_api_answers()

    assert [one.key for one in ApiAnswer.objects.all()] == ["two"]


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "a b", "a\tb", "ключ"])
def test_a_key_that_is_none_is_refused(agent: Program, key: str) -> None:
    problem(agent.post("/notes", NOTE, Idempotency_Key=key), 422)

    assert written(agent.owner) == 0


def test_what_is_deleted_permanently_is_gone_from_kept_answers_too(
    agent: Program, alice: Any
) -> None:
    key = agent.post("/notes", NOTE, **KEY).json()["id"]
    note = Note.objects.get(pk=key)
    note.trash(by=alice.actor)
    record_acts.purge(note, typed=record_acts.typed_name(note), by=alice.actor)

    assert not ApiAnswer.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_of_two_at_once_one_is_carried_out_and_the_other_waits(
    agent: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, go_on = threading.Event(), threading.Event()
    write = notes.write_note

    def slow(*args: Any, **kwargs: Any) -> Note:
        inside.set()
        go_on.wait(20)
        return write(*args, **kwargs)

    monkeypatch.setattr(notes, "write_note", slow)
    answers: list[Any] = []

    def send() -> None:
        try:
            answers.append(agent.post("/notes", NOTE, **KEY))
        finally:
            connections.close_all()

    thread = threading.Thread(target=send)
    thread.start()
    assert inside.wait(20)
    twin = agent.post("/notes", NOTE, **KEY)
    go_on.set()
    thread.join(20)

    problem(twin, 409)
    assert twin["Retry-After"] == "1"
    assert answers[0].status_code == 201
    assert written(agent.owner) == 1
    assert agent.post("/notes", NOTE, **KEY).content == answers[0].content


@pytest.mark.django_db(transaction=True)
def test_after_a_crash_there_is_neither_the_note_nor_the_answer(
    agent: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(ApiAnswer, "save_answer", crash)
        agent.client.raise_request_exception = False
        problem(agent.post("/notes", NOTE, **KEY), 500)
    assert written(agent.owner) == 0

    assert agent.post("/notes", NOTE, **KEY).status_code == 201
    assert written(agent.owner) == 1
    assert not connection.in_atomic_block


def test_what_a_failed_request_spent_on_a_model_stays_booked(
    agent: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = FakeLanguageModel({"findings": ["The kettle is new."], "insights": [], "lessons": []})
    monkeypatch.setattr(site, "language_model", lambda: model)
    monkeypatch.setattr(observations, "_remembered", _fails)
    agent.client.raise_request_exception = False

    told = problem(agent.post("/observations/extract", STEP, **KEY), 500)

    assert "may not have been saved" in told["detail"]
    assert ModelCall.objects.for_user(agent.owner).get().prompt_tokens > 0  # type: ignore[attr-defined]


def _fails(*_given: Any, **_more: Any) -> None:
    raise RuntimeError("something went wrong")
