"""Every error is problem+json that says what to do, and nothing is partly stored."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from redis.connection import Connection

from memory.accounts import tokens
from memory.api import frame
from memory.api import notes as notes_api
from memory.api.auth import caller_of
from memory.models import Note, Topic
from tests.api.cast import ROOT, Program, problem

DEEP = "[" * 40 + "]" * 40
BAD_JSON = {
    "not JSON": "{",
    "prose": "hello",
    "NaN": '{"content": "x", "confidence": NaN}',
    "infinite": '{"content": "x", "confidence": -Infinity}',
    "twice": '{"content": "x", "content": "y"}',
    "twice, behind many": "{" + "".join(f'"k{n}": 0, ' for n in range(60_000)) + '"z": 0, "z": 0}',
    "deep": f'{{"content": {DEEP}}}',
    "very deep": "[" * 100_000,
    "long number": '{"content": "x", "ttl_days": ' + "9" * 5_000 + "}",
    "bytes": b'{"content": "\xff\xfe"}',
}


@pytest.mark.timeout(30, func_only=True)
@pytest.mark.parametrize("body", BAD_JSON.values(), ids=BAD_JSON.keys())
def test_json_that_is_none_deep_or_ambiguous_is_refused(agent: Program, body: Any) -> None:
    told = problem(agent.post("/notes", body), 400)

    assert told["detail"].endswith("Nothing was changed.")
    assert not Note.objects.for_user(agent.owner).filter(source="agent:desk").exists()


WRONG = {
    "missing": ({}, "content"),
    "empty": ({"content": ""}, "content"),
    "blank": ({"content": " \u200b "}, "content"),
    "not text": ({"content": 5}, "content"),
    "a list": ({"content": ["x"]}, "content"),
    "unknown kind": ({"content": "x", "kind": "memo"}, "kind"),
    "unknown field": ({"content": "x", "colour": "red"}, "colour"),
    "number as text": ({"content": "x", "confidence": "0.5"}, "confidence"),
    "too sure": ({"content": "x", "confidence": 1.5}, "confidence"),
    "no days": ({"content": "x", "stability": "volatile"}, "ttl_days"),
    "days for ever": ({"content": "x", "stability": "permanent", "ttl_days": 3}, "ttl_days"),
    "rule without evidence": ({"content": "x", "kind": "rule"}, "evidence"),
    "scope": ({"content": "x", "scope": "everybody"}, "scope"),
    "topic": ({"content": "x", "topic": "none-such"}, "topic"),
    "another's source": ({"content": "x", "source": "human:alice"}, "source"),
    "large": ({"content": "é" * 40_000}, "content"),
}


@pytest.mark.parametrize(("body", "field"), WRONG.values(), ids=WRONG.keys())
def test_a_field_that_does_not_fit_is_named(agent: Program, body: Any, field: str) -> None:
    told = problem(agent.post("/notes", body), 422)

    assert field in told["errors"]
    assert all(told["errors"][field])
    assert not Note.objects.for_user(agent.owner).filter(source="agent:desk").exists()


def test_invalid_fields_are_explained_in_plain_language(agent: Program) -> None:
    told = problem(agent.post("/notes", {"content": "", "colour": "red", "confidence": 2}), 422)
    assert told["errors"] == {
        "content": ["can’t be empty"],
        "colour": ["isn’t a known field"],
        "confidence": ["must be at most 1.0"],
    }
    assert "nothing was changed" in told["detail"]
    told = problem(agent.get("/notes?limit=many"), 422)
    assert told["errors"]["limit"] == ["must be a whole number"]
    assert "changed" not in told["detail"]


def test_a_body_that_isnt_an_object_is_refused(agent: Program) -> None:
    for body in ("[]", '"x"', "5", "null"):
        problem(agent.post("/notes", body), 422)


def test_a_body_of_another_type_is_refused(agent: Program) -> None:
    answer = agent.client.post(
        f"{ROOT}/notes",
        {"content": "x"},
        headers={"Authorization": f"Bearer {agent.text}"},
    )

    assert "application/json" in problem(answer, 415)["detail"]


def test_a_body_that_is_too_large_is_refused_before_it_is_read(agent: Program) -> None:
    answer = agent.post("/notes", '{"content": "' + "x" * frame.MAX_BODY + '"}')

    told = problem(answer, 413)
    assert told["most"] == frame.MAX_BODY
    assert "1,048,576 bytes" in told["detail"]


def test_a_body_in_chunks_is_refused(agent: Program) -> None:
    problem(agent.post("/notes", {"content": "x"}, Transfer_Encoding="chunked"), 411)


def test_an_address_that_is_none_is_a_problem_and_not_a_page(agent: Program) -> None:
    for path in ("/nothing", "/notes/nothing", "/notes/", "/"):
        assert "openapi.json" in problem(agent.get(path), 404)["detail"]
    problem(Client().get("/api/nothing"), 404)
    problem(Client().post("/api/nothing"), 404)


def test_another_method_is_told_which_there_are(agent: Program) -> None:
    answer = agent.send("PUT", "/notes", {"content": "x"})

    problem(answer, 405)
    assert set(answer["Allow"].split(", ")) == {"GET", "POST"}


def test_characters_that_cannot_be_stored_are_removed_and_that_is_explained(
    agent: Program,
) -> None:
    answer = agent.post("/notes", r'{"content": "a\u0000b\ud800c", "tags": ["t\u0007"]}')

    assert answer.status_code == 201
    assert answer["Beacon-Cleaned"] == "content, tags"
    assert answer.json()["content"] == "abc"


@pytest.mark.parametrize(
    "query", ["kind=%00", "tag=%00", "cursor=%00", "limit=%00", "topic=%ED%A0%80"]
)
def test_nothing_in_a_query_string_breaks_the_server(agent: Program, query: str) -> None:
    assert agent.get(f"/notes?{query}").status_code in (200, 422)


def test_too_many_requests_are_told_when_to_come_again(agent: Program, settings: Any) -> None:
    settings.BEACON_API_REQUESTS_PER_MINUTE = 2
    # Five, because a new minute can begin between two of them.
    answers = [agent.get("/notes") for _ in range(5)]
    refused = [one for one in answers if one.status_code != 200]

    assert refused
    problem(refused[0], 429)
    assert 1 <= int(refused[0]["Retry-After"]) <= 60


def test_a_request_is_counted_in_one_round_trip(
    agent: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_here", tokens._Here())
    frame.check(caller_of(agent.token))  # connects
    sent: list[Any] = []
    send = Connection.send_packed_command

    def noted(connection: Connection, command: Any, *more: Any, **told: Any) -> Any:
        sent.append(command)
        return send(connection, command, *more, **told)

    monkeypatch.setattr(Connection, "send_packed_command", noted)
    frame.check(caller_of(agent.token))

    assert len(sent) == 1


def test_without_redis_each_process_counts_by_itself(
    agent: Program, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_here", tokens._Here())
    monkeypatch.setattr(tokens, "time", SimpleNamespace(time=lambda: 6e8, monotonic=time.monotonic))
    settings.BEACON_API_REQUESTS_PER_MINUTE = 2
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": "redis://127.0.0.1:1/0",
        }
    }
    answers = [agent.get("/notes").status_code for _ in range(3)]

    assert answers == [200, 200, 429]


def test_a_database_that_is_away_is_503_and_says_when_to_come_again(
    agent: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(notes_api, "listing", gone)
    answer = agent.get("/notes")

    problem(answer, 503)
    assert answer["Retry-After"] == "5"


def test_an_error_inside_is_a_problem_too_and_tells_nothing(
    agent: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(notes_api, "listing", broken)
    agent.client.raise_request_exception = False
    answer = agent.get("/notes")

    assert "secret" not in str(problem(answer, 500))


def test_a_query_parameter_that_does_not_exist_is_refused_with_those_that_do(
    agent: Program, person: Program
) -> None:
    listed = problem(agent.get("/notes?kindd=rule&limit=3"), 422)
    none = problem(person.post("/topics?title=x", {"title": "x"}), 422)

    assert listed["detail"] == (
        "Unknown query parameters: kindd. This call accepts "
        "limit, cursor, kind, tag, scope, topic, state, as_of."
    )
    assert listed["errors"] == {"kindd": ["isn’t a known parameter"]}
    assert none["detail"] == "Unknown query parameters: title. This call accepts none."
    assert not Topic.objects.exists()
    assert agent.get("/notes?kind=rule&limit=3").status_code == 200
