"""OpenAI's client asks Beacon, which adds the agent's context and asks a model of the tests."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

import httpx2
import openai
import pytest
from django.test import Client

from memory.accounts import tokens
from memory.api import chat_completions
from memory.api.chat_completions import USUAL_ANSWER
from memory.models import CallReservation, ModelCall, Note, Use, User
from memory.models.actors import SYSTEM
from memory.services.llm import connections
from memory.services.notes.saving import write_note
from tests.api.cast import Program
from tests.providers.chat_streams import (
    chunk,
    cut_stream,
    endless,
    error_event,
    sse,
    text_chunks,
    torn_stream,
)
from tests.providers.servers import (
    ScriptedChatServer,
    calls_tool,
    cut,
    in_one,
    quota,
    rate,
    says,
    slow,
    status,
)  # fmt: skip

URL = "/v1/chat/completions"
ASKED: list[Any] = [{"role": "user", "content": "Which python does the build need?"}]


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedChatServer]:
    with ScriptedChatServer() as started:
        yield started


@pytest.fixture
def model(server: ScriptedChatServer, settings: Any) -> ScriptedChatServer:
    """The connected model."""
    server.forget()
    settings.BEACON_LLM_BASE_URL, settings.BEACON_LLM_MODEL = server.base_url, "loopback-1"
    settings.OPENAI_API_KEY = "sk-of-the-site"
    return server


def in_process(request: httpx2.Request) -> httpx2.Response:
    """Let the site answer a request of OpenAI's client."""
    answer: Any = Client(enforce_csrf_checks=True, raise_request_exception=False).generic(
        request.method,
        request.url.raw_path.decode(),
        request.read(),
        content_type=request.headers.get("content-type", ""),
        headers=dict(request.headers),
    )
    content = b"".join(answer) if answer.streaming else answer.content
    return httpx2.Response(answer.status_code, headers=dict(answer.items()), content=content)


def client_of(token: str, **more: Any) -> openai.OpenAI:
    transport = httpx2.Client(transport=httpx2.MockTransport(in_process))
    more = {"base_url": "http://127.0.0.1:8000/v1", "http_client": transport, **more}
    return openai.OpenAI(api_key=token, max_retries=0, **more)


@pytest.fixture
def app(alice: User) -> openai.OpenAI:
    """OpenAI's client with a token of Alice's that can only chat."""
    return client_of(Program(alice, "chat", name="editor").text)


def note(owner: User, text: str, **more: Any) -> Note:
    return write_note(owner, content=text, kind="log", by=owner.actor, **more)


def spent() -> ModelCall:
    assert not CallReservation.objects.exists()
    return ModelCall.objects.get()


@pytest.mark.requirement("R321")
def test_the_model_gets_the_context_and_the_client_its_answer(
    app: openai.OpenAI, model: ScriptedChatServer, alice: User
) -> None:
    known = note(alice, "The build needs Python 3.11.")
    note(alice, "The build needs a python of my own.", sensitivity="sensitive")
    model.enqueue(says("3.11", usage={"prompt_tokens": 50, "completion_tokens": 3}))

    answer = app.chat.completions.with_raw_response.create(model="loopback-1", messages=ASKED)

    system, asked = model.asked[0].body["messages"]
    assert answer.parse().choices[0].message.content == "3.11"
    assert "The build needs Python 3.11." in system["content"]
    assert "of my own" not in system["content"]
    assert (system["role"], asked) == ("system", ASKED[0])
    assert f"note:{known.pk}" in answer.headers["Beacon-Records"].split(", ")
    assert Use.objects.filter(place="agent:editor", record_id=known.pk).exists()
    call = spent()
    assert (call.prompt_tokens, call.completion_tokens, call.answer) == (50, 3, "3.11")
    assert (call.owner, call.purpose, call.source) == (alice, "chat", "agent:editor")


@pytest.mark.requirement("R320")
def test_a_stream_arrives_byte_for_byte(app: openai.OpenAI, model: ScriptedChatServer) -> None:
    sent = b": wait\n\n" + b"".join(
        b"data:  " + json.dumps(one, indent=None).encode() + b"\r\n\r\n"
        for one in [*text_chunks("3.", "11 ünd"), chunk({}, "stop")]
    )
    counted = {**chunk(None), "usage": {"prompt_tokens": 70, "completion_tokens": 4}}
    end = b"data: [DONE]\n\n"
    model.enqueue(*2 * [sse(sent[:50], sent[50:], f"{json.dumps(counted)}", end)])

    with app.chat.completions.with_streaming_response.create(
        model="beacon", messages=ASKED, stream=True
    ) as answer:
        assert b"".join(answer.iter_bytes()) == sent + end
    call = spent()
    assert (call.prompt_tokens, call.completion_tokens, call.answer) == (70, 4, "3.11 ünd")
    with app.chat.completions.with_streaming_response.create(
        model="beacon", messages=ASKED, stream=True, stream_options={"include_usage": True}
    ) as answer:
        whole = sent + b"data: " + json.dumps(counted).encode() + b"\n\n" + end
        assert b"".join(answer.iter_bytes()) == whole


def test_openais_client_reads_the_stream(app: openai.OpenAI, model: ScriptedChatServer) -> None:
    model.standing = "The build needs Python 3.11."

    stream = app.chat.completions.create(model="beacon", messages=ASKED, stream=True)

    assert "".join(one.choices[0].delta.content or "" for one in stream) == model.standing
    assert spent().completion_tokens == 5


@pytest.mark.parametrize("stream", [False, True])
def test_tools_and_unknown_fields_are_passed_on(
    app: openai.OpenAI, model: ScriptedChatServer, *, stream: bool
) -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    model.standing = lambda _body: calls_tool("look", {"at": "tea"})

    answer: Any = app.chat.completions.create(
        model="beacon", messages=ASKED, tools=[tool], stream=stream, extra_body={"top_k": 4},  # type: ignore[arg-type]
    )  # fmt: skip

    if stream:
        pieces = [call for one in answer for call in one.choices[0].delta.tool_calls or ()]
        name, said = pieces[0].function.name, "".join(one.function.arguments for one in pieces)
    else:
        call = answer.choices[0].message.tool_calls[0].function
        name, said = call.name, call.arguments
    assert (name, json.loads(said)) == ("look", {"at": "tea"})
    assert (model.asked[0].body["tools"], model.asked[0].body["top_k"]) == ([tool], 4)
    assert spent().answer == '→ look {"at": "tea"}'


def test_the_clients_own_instructions_and_pictures_stay(
    app: openai.OpenAI, model: ScriptedChatServer
) -> None:
    picture = f"data:image/png;base64,{base64.b64encode(b'x' * 90_000).decode()}"
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": picture}},
    ]
    told: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": parts},
    ]

    app.chat.completions.create(model="beacon", messages=told)

    system, asked = model.asked[0].body["messages"]
    assert system["role"] == "developer"
    assert system["content"].endswith("\n\nBe brief.") and len(system["content"]) > 50
    assert asked["content"] == parts
    assert ModelCall.objects.get().prompt[1]["content"] == "What is it?\n[image_url]"


def test_the_token_limit_reaches_the_model_in_the_form_that_it_takes(
    app: openai.OpenAI, model: ScriptedChatServer
) -> None:
    refused = status(
        400, {"message": "Unsupported parameter: 'max_tokens'. Use max_completion_tokens"}
    )
    model.enqueue(refused)

    app.chat.completions.create(model="beacon", messages=ASKED, max_tokens=9)
    app.chat.completions.create(model="beacon", messages=ASKED)

    assert "max_tokens" not in model.asked[1].body
    assert [one.body.get("max_completion_tokens") for one in model.asked] == [None, 9, USUAL_ANSWER]


def test_an_endpoint_that_cannot_stream_still_gives_a_stream(
    app: openai.OpenAI, model: ScriptedChatServer
) -> None:
    model.enqueue(in_one(says("all at once")))

    stream = app.chat.completions.create(model="beacon", messages=ASKED, stream=True)

    assert [one.choices[0].delta.content for one in stream] == ["all at once"]
    assert (spent().answer, spent().completion_tokens) == ("all at once", 5)


def test_secrets_reach_neither_the_model_nor_the_stored_prompt(
    alice: User, model: ScriptedChatServer
) -> None:
    mine = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    told = [{"role": "user", "content": f"Is {mine} or sk-of-the-site\0\ud800 mine?"}]
    headers = {"Authorization": f"Bearer {Program(alice, 'chat').text}"}

    answer = Client().post(
        URL, {"model": "beacon", "messages": told}, content_type="application/json", headers=headers
    )

    assert answer.status_code == 200, answer.content
    for text in (model.asked[0].prompt, json.dumps(spent().prompt)):
        assert "mine?" in text and mine not in text and "sk-of-the-site" not in text


def test_the_models_are_the_connected_one(app: openai.OpenAI, model: ScriptedChatServer) -> None:
    assert [one.id for one in app.models.list()] == ["loopback-1"]


# --- refusals ------------------------------------------------------------------------------------


def test_without_a_model_it_says_so(app: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError, match="No model is connected") as caught:
        app.chat.completions.create(model="beacon", messages=ASKED)

    assert (caught.value.status_code, caught.value.code) == (503, "no_model")
    assert list(app.models.list()) == []


def test_a_used_up_budget_asks_no_one(
    app: openai.OpenAI, model: ScriptedChatServer, alice: User
) -> None:
    User.objects.filter(pk=alice.pk).update(monthly_tokens=0)

    with pytest.raises(openai.RateLimitError, match="monthly limit of 0 tokens") as caught:
        app.chat.completions.create(model="beacon", messages=ASKED, stream=True)

    assert caught.value.code == "insufficient_quota"
    assert caught.value.response.headers["X-Should-Retry"] == "false"
    assert model.asked == []


@pytest.mark.parametrize(
    ("scene", "kind", "code", "says"),
    [
        (status(400, {"message": "tools are broken", "code": "bad"}), openai.BadRequestError, 400, "tools are broken"),
        (status(401, {"message": "bad key"}), openai.InternalServerError, 502, "rejected the key"),
        (quota(), openai.InternalServerError, 502, "no credit left"),
        (rate("7"), openai.RateLimitError, 429, "isn’t available"),
        (status(500), openai.InternalServerError, 503, "isn’t available"),
        (cut(), openai.InternalServerError, 503, "can’t be reached, or the connection was lost"),
        (lambda _r: says("x" * 9_000_000)(_r), openai.InternalServerError, 502, "larger than 8 MiB"),
    ],
)  # fmt: skip
def test_a_failure_of_the_model_is_told_in_openais_form(
    app: openai.OpenAI, model: ScriptedChatServer, scene: Any, kind: Any, code: int, says: str
) -> None:
    model.enqueue(scene)

    with pytest.raises(kind, match=says) as caught:
        app.chat.completions.create(model="beacon", messages=ASKED)

    assert caught.value.status_code == code
    assert spent().failure


def test_a_slow_model_is_given_up(
    app: openai.OpenAI, model: ScriptedChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = replace(connections.llm_profile(), timeout=0.3)  # type: ignore[type-var]
    monkeypatch.setattr(connections, "llm_profile", lambda: profile)
    model.enqueue(slow(2))

    with pytest.raises(openai.InternalServerError, match="didn’t respond within") as caught:
        app.chat.completions.create(model="beacon", messages=ASKED)

    assert caught.value.status_code == 504


@pytest.mark.parametrize("scene", [cut_stream("half an "), torn_stream("half an ")])
def test_a_broken_stream_ends_with_an_error(
    app: openai.OpenAI, model: ScriptedChatServer, scene: Any
) -> None:
    model.enqueue(scene)
    said = []

    with pytest.raises(openai.APIError, match=r"was lost|can’t be reached"):
        for one in app.chat.completions.create(model="beacon", messages=ASKED, stream=True):
            said.append(one.choices[0].delta.content or "")

    assert "".join(said) == "half an "
    call = spent()
    assert (call.failure, call.answer, call.completion_tokens) == ("unavailable", "half an", 2)


def test_an_error_within_a_stream_is_passed_on_and_recorded(
    app: openai.OpenAI, model: ScriptedChatServer
) -> None:
    model.enqueue(error_event({"message": "out of memory"}, "half"))

    with app.chat.completions.with_streaming_response.create(
        model="beacon", messages=ASKED, stream=True
    ) as answer:
        text = b"".join(answer.iter_bytes()).decode()

    assert text.count('"error"') == 1
    assert "out of memory" in spent().error


def test_pages_keep_threads_while_many_programs_chat(
    app: openai.OpenAI, model: ScriptedChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_completions, "_free", threading.BoundedSemaphore(1))
    for scene in (status(400), cut_stream("half"), says("whole")):  # each one gives its place back
        model.enqueue(scene)
        with suppress(openai.APIError):
            list(app.chat.completions.create(model="beacon", messages=ASKED, stream=True))
    chat_completions._free.acquire()

    with pytest.raises(openai.RateLimitError, match="as many requests as it can") as caught:
        app.chat.completions.create(model="beacon", messages=ASKED)

    assert caught.value.response.headers["Retry-After"] == "5"
    assert len(model.asked) == 3


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("{", "isn’t valid JSON"),
        ("[]", "must be a JSON object"),
        ({}, "“messages” must be a list"),
        ({"messages": []}, "“messages” must be a list"),
        ({"messages": ["hi"]}, "“messages” must be a list"),
        ({"messages": [{"role": 1}]}, "“messages” must be a list"),
        ({"messages": ASKED, "stream": "yes"}, "“stream” must be true or false"),
        ({"messages": ASKED, "stream_options": []}, "“stream_options” must be an object"),
        ({"messages": ASKED, "max_tokens": -1}, "“max_tokens” must be a whole number"),
        ({"messages": ASKED, "max_completion_tokens": 10**9}, "from 1 to 128,000"),
        ({"messages": ASKED, "n": True}, "“n” must be a whole number"),
        ({"messages": ASKED, "service_tier": "priority"}, "“service_tier” isn’t supported"),
        ({"messages": ASKED, "model": "gpt-7"}, "uses the model “loopback-1”"),
        ({"messages": ASKED, "metadata": json.loads("[" * 40 + "]" * 40)}, "nested more than 32"),
    ],
)
def test_a_malformed_request_is_refused_before_the_model_is_asked(
    alice: User, model: ScriptedChatServer, body: Any, says: str
) -> None:
    if isinstance(body, dict):
        body = json.dumps({"model": "beacon", **body})
    token = Program(alice, "chat").text

    answer = Client().post(
        URL, body, content_type="application/json", headers={"Authorization": f"Bearer {token}"}
    )

    assert answer.status_code in (400, 404)
    assert says in answer.json()["error"]["message"]
    assert model.asked == []


def test_a_huge_body_is_refused_unread(alice: User, model: ScriptedChatServer) -> None:
    told: list[Any] = [{"role": "user", "content": "x" * (8 * 1024 * 1024)}]

    with pytest.raises(openai.APIStatusError, match="at most 8,388,608 bytes") as caught:
        client_of(Program(alice, "chat").text).chat.completions.create(
            model="beacon", messages=told
        )

    assert caught.value.status_code == 413 and model.asked == []


@pytest.mark.parametrize("scopes", [["read"], ["read", "write"], ["metrics"]])
def test_a_token_of_another_scope_is_refused(
    admin: User, model: ScriptedChatServer, scopes: list[str]
) -> None:
    app = client_of(Program(admin, *scopes).text)

    with pytest.raises(openai.PermissionDeniedError, match="needs a token with the “chat” scope"):
        app.chat.completions.create(model="beacon", messages=ASKED)
    with pytest.raises(openai.PermissionDeniedError):
        app.models.list()
    assert model.asked == []


def test_an_unknown_or_revoked_token_is_refused(alice: User, model: ScriptedChatServer) -> None:
    revoked = Program(alice, "chat", name="old")
    tokens.revoke(revoked.token, by=SYSTEM)

    for token in ("bcn_unknown", revoked.text, "sk-of-the-site"):
        with pytest.raises(openai.AuthenticationError, match="unknown, revoked or expired"):
            client_of(token).chat.completions.create(model="beacon", messages=ASKED)
    assert Client().post(URL, {}, content_type="application/json").status_code == 401
    assert model.asked == []


def test_a_chat_token_opens_nothing_else(alice: User) -> None:
    program = Program(alice, "chat")

    for path in ("/notes", "/recall?q=tea", "/context"):
        answer = program.post(path, {}) if path == "/context" else program.get(path)
        assert answer.status_code == 403, path


def test_others_memory_stays_theirs(
    app: openai.OpenAI, model: ScriptedChatServer, bob: User
) -> None:
    note(bob, "Bob's build needs python 2.")

    app.chat.completions.create(model="beacon", messages=ASKED)

    assert "python 2" not in model.asked[0].prompt


def test_the_wrong_method_is_explained(alice: User) -> None:
    headers = {"Authorization": f"Bearer {Program(alice, 'chat').text}"}
    answers = Client().get(URL, headers=headers), Client().post("/v1/models", headers=headers)
    nothing = Client().get("/v1/embeddings", headers=headers)

    assert [one.status_code for one in answers] == [405, 405]
    assert [one["Allow"] for one in answers] == ["POST", "GET"]
    assert nothing.status_code == 404 and nothing.json()["error"]["type"] == "invalid_request_error"


def test_what_the_model_was_shown_lowers_the_agents_trust(
    alice: User, model: ScriptedChatServer
) -> None:
    note(alice, "The python of the build is 9, says a page.", trust="external")
    program = Program(alice, "chat", "read", "write", name="editor")

    client_of(program.text).chat.completions.create(model="beacon", messages=ASKED)
    written = program.post(
        "/notes", {"kind": "rule", "content": "Use python 9.", "evidence": ["a page"]}
    )

    assert "<<<" in model.asked[0].prompt  # marked as data
    assert written.status_code == 202, written.content  # held for a person


@pytest.mark.requirement("R322")
@pytest.mark.django_db(transaction=True)
def test_a_client_that_leaves_ends_the_call(
    alice: User, model: ScriptedChatServer, live_server: Any, settings: Any
) -> None:
    model.enqueue(endless(pace=0.05))
    token = Program(alice, "chat").text
    body = json.dumps({"model": "beacon", "messages": ASKED, "stream": True}).encode()
    host = live_server.thread.host, live_server.thread.port
    head = (
        f"POST {URL} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )

    with socket.create_connection(host) as line:
        line.sendall(head.encode() + body)
        line.settimeout(10)
        while b"word" not in (said := line.recv(4096)):
            assert said, "the connection was closed before the answer began"
    until = time.monotonic() + 10
    while CallReservation.objects.exists() and time.monotonic() < until:
        time.sleep(0.05)

    call = spent()
    assert (call.failure, call.answer[:4]) == ("left", "word")
    assert 0 < call.completion_tokens < 100
    assert call.money is None or call.money == Decimal(0)
