"""Streamed answers: joined, passed on as they arrive, and handled if they break."""

from __future__ import annotations

import gzip
import json
import time
from itertools import pairwise

import pytest
from pydantic import BaseModel

from beacon_site.net.errors import ProviderNonsense, ProviderRejected, ProviderUnavailable
from beacon_site.providers.llm import openai_client, openai_reply
from beacon_site.providers.llm.base import LlmProfile, Message, Tool, ToolCall, Usage
from beacon_site.providers.llm.openai_model import OpenAIModel
from tests.providers import chat_streams, servers
from tests.providers.chat_streams import DONE, chunk, sse, text_chunks
from tests.providers.raw_server import RawServer
from tests.providers.servers import ScriptedChatServer, says, status

KEY = "sk-loopback-0123456789"
HELLO = [Message("user", "Hello?")]
WEATHER = Tool("weather", "Tells the weather.", {"type": "object", "properties": {}})
LAST = chunk({}, "stop")


class Plan(BaseModel):
    queries: list[str]


@pytest.fixture
def model(chat: ScriptedChatServer) -> OpenAIModel:
    return OpenAIModel(LlmProfile(chat.base_url, "tiny", api_key=KEY, timeout=2))


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What on_text was called with, with no pause between two of its calls."""
    monkeypatch.setattr(openai_reply, "EVERY", 0.0)
    return []


def test_the_text_is_reported_as_it_grows_and_the_answer_is_the_whole(model, chat, heard):
    chat.enqueue(says("one two three four"))

    answer = model.ask(HELLO, on_text=heard.append)

    assert (answer.text, answer.finish_reason) == ("one two three four", "stop")
    assert heard[-1] == "one two three four"
    assert len(heard) > 3 and all(b.startswith(a) for a, b in pairwise(heard))


def test_it_asks_for_a_stream_that_counts_its_tokens(model, chat, heard):
    answer = model.ask(HELLO, on_text=heard.append)

    assert chat.asked[0].body["stream"] is True
    assert chat.asked[0].body["stream_options"] == {"include_usage": True}
    assert (answer.usage, answer.model) == (Usage(10, 5), "loopback-1")


def test_no_one_who_listens_is_nothing_streamed(model, chat):
    model.ask(HELLO)

    assert "stream" not in chat.asked[0].body


def test_text_is_reported_at_most_five_times_a_second(model, chat):
    told: list[float] = []
    chat.enqueue(sse(*text_chunks(*["word "] * 40), LAST, DONE, pace=0.02))

    model.ask(HELLO, on_text=lambda _text: told.append(time.monotonic()))

    assert len(told) <= 7  # 0.84 s of stream, its first word and its end
    assert told[-1] - told[0] > 0.5


@pytest.mark.parametrize("times", [1, 2])
def test_an_endpoint_that_does_not_stream_is_as_good(model, chat, heard, times):
    for _time in range(times):
        chat.enqueue(servers.in_one(says("all at once")))
        answer = model.ask(HELLO, on_text=heard.append)

    assert (answer.text, answer.usage) == ("all at once", Usage(10, 5))
    assert heard == ["all at once"] * times
    assert [asked.body.get("stream") for asked in chat.asked] == [True, None][:times]


def test_a_schema_holds_over_a_stream(model, chat, heard):
    chat.enqueue(servers.bare({"queries": ["one", "two"]}))

    assert model.ask(HELLO, schema=Plan, on_text=heard.append).parsed == Plan(
        queries=["one", "two"]
    )
    assert heard[-1] == '{"queries": ["one", "two"]}'


def test_an_answer_that_is_repaired_is_reported_again(model, chat, heard):
    chat.enqueue(servers.another_language(), servers.bare({"queries": []}))

    assert model.ask(HELLO, schema=Plan, on_text=heard.append).usage == Usage(20, 10)
    assert heard[-1] == '{"queries": []}'


@pytest.mark.parametrize(
    ("error", "field"),
    [
        ("Unrecognized request argument supplied: stream_options", "stream_options"),
        ([{"type": "extra_forbidden", "loc": ["body", "stream_options"]}], "stream_options"),
        ("Streaming is not supported by this model", "stream"),
    ],
)
def test_what_an_endpoint_refuses_of_a_stream_is_left_out_from_then_on(model, chat, error, field):
    chat.enqueue(status(400, {"message": error}))
    model.ask(HELLO, on_text=print)
    model.ask(HELLO, on_text=print)

    assert [field in asked.body for asked in chat.asked] == [True, False, False]


def test_a_profile_that_is_known_not_to_stream_is_not_asked_to(chat, heard):
    profile = LlmProfile(chat.base_url, "tiny", streams=False)

    OpenAIModel(profile).ask(HELLO, on_text=heard.append)

    assert "stream" not in chat.asked[0].body
    assert heard == ["hello"]


# --- how it is written on the wire ----------------------------------------------------------------


def raw(*lines: bytes) -> bytes:
    return b"".join(lines)


def data(event: object) -> bytes:
    return b"data: " + json.dumps(event, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "events",
    [
        [b": keep-alive\n\n", data(chunk({"content": "é😀"})), b"\n\n", data(LAST), b"\n\n"],
        [data(chunk({"content": "é😀"})), b"\r\n\r\n", data(LAST), b"\r\n\r\ndata: [DONE]\r\n"],
        [data(chunk({"content": "é😀"})).replace(b"data: ", b"data:"), b"\n", data(LAST), b"\n"],
        [b"\xef\xbb\xbfevent: m\nid: 1\n", data(chunk({"content": "é😀"})), b"\n\ndata: [DONE]"],
        [b"\n" * 200, data(chunk({"content": "é😀"})), b"\n\n", data(LAST), b"\n\n"],
        [b"data: {broken\n\n", data(chunk({"content": "é😀"})), b"\n\n", data(LAST), b"\n\n"],
        [
            b'data: {"choices": [{"index": 0, "delta": {"content": "\xc3\xa9\\ud83d"}}]}\n\n',
            b'data: {"choices": [{"index": 0, "delta": {"content": "\\ude00"}}]}\n\n',
            data(LAST),
            b"\n\n",
        ],
        [
            data({"choices": [], "prompt_filter_results": []}),
            b"\n\n",
            data(chunk({"content": "é😀"})),
            b"\n\n",
            data(LAST),
            b"\n\n",
        ],
    ],
    ids=[
        "comment",
        "crlf",
        "no space",
        "bom",
        "blanks",
        "broken event",
        "split character",
        "empty choices",
    ],
)
def test_every_way_to_write_a_stream_is_read(model, chat, heard, events):
    everything = raw(*events)
    chat.enqueue(sse(*(everything[at : at + 1] for at in range(len(everything)))))

    assert model.ask(HELLO, on_text=heard.append).text == "é😀"
    assert heard[-1] == "é😀"


def test_the_end_is_the_word_done_and_not_the_closing_of_the_connection(model, chat, heard):
    chat.enqueue(sse(*text_chunks("ready"), LAST, DONE, b": still here\n\n" * 9, pace=0.3))
    chat.enqueue(chat_streams.falls_silent(5, "x"))

    began = time.monotonic()
    assert model.ask(HELLO, on_text=heard.append).text == "ready"
    assert time.monotonic() - began < 2


def test_a_finished_answer_is_taken_though_the_server_does_not_close(model, chat, monkeypatch):
    monkeypatch.setattr("beacon_site.providers.llm.openai_client.CLOSING_SECONDS", 0.3)

    chat.enqueue(chat_streams.falls_silent(3, "ready", closing=LAST))

    assert model.ask(HELLO, on_text=lambda _text: None).text == "ready"


# --- tools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_text", [None, lambda _text: None], ids=["whole", "in pieces"])
def test_a_tool_is_offered_and_its_call_read_back(model, chat, on_text):
    chat.enqueue(servers.calls_tool("weather", {"city": "Görlitz"}))

    answer = model.ask(HELLO, tools=[WEATHER], on_text=on_text)

    assert answer.tool_calls == (ToolCall("call-1", "weather", {"city": "Görlitz"}),)
    assert chat.asked[0].body["tools"][0]["function"]["name"] == "weather"


def test_the_result_of_a_tool_goes_back_with_its_call(model, chat):
    call = ToolCall("call-1", "weather", {"city": "Görlitz"})
    model.ask([*HELLO, Message("assistant", "", (call,)), Message("tool", "rain", (), "call-1")])

    _asked, called, told = chat.asked[0].body["messages"]
    assert json.loads(called["tool_calls"][0]["function"]["arguments"]) == {"city": "Görlitz"}
    assert told == {"role": "tool", "content": "rain", "tool_call_id": "call-1"}


@pytest.mark.parametrize(
    "pieces",
    [
        [{"id": "1", "function": {"name": "weather", "arguments": '{"a": 1}'}}],
        [{"index": 0, "id": "1", "function": {"name": "weather", "arguments": {"a": 1}}}],
        [
            {"id": "1", "function": {"name": "weather", "arguments": ""}},
            {"function": {"arguments": '{"a":'}},
            {"function": {"arguments": " 1}"}},
        ],
    ],
    ids=["no index", "arguments as an object", "no index, in pieces"],
)
def test_calls_are_read_as_the_servers_write_them(model, chat, pieces):
    events = [chunk({"tool_calls": [piece]}) for piece in pieces]
    chat.enqueue(sse(*events, chunk({}, "tool_calls"), DONE))

    answer = model.ask(HELLO, tools=[WEATHER], on_text=lambda _text: None)

    assert answer.tool_calls == (ToolCall("1", "weather", {"a": 1}),)


def test_arguments_that_are_no_json_are_kept_as_text_over_a_stream_too(model, chat):
    chat.enqueue(servers.calls_tool("weather", '{"city": '))

    answer = model.ask(HELLO, tools=[WEATHER], on_text=lambda _text: None)

    assert answer.tool_calls[0].arguments == {"_unparsed": '{"city": '}


# --- what breaks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", [chat_streams.cut_stream(), chat_streams.torn_stream()])
def test_a_stream_that_breaks_off_is_asked_again_and_both_are_counted(model, chat, broken):
    chat.enqueue(broken, says("whole"))

    answer = model.ask(HELLO, on_text=lambda _text: None)

    assert answer.text == "whole"
    assert answer.usage == Usage(10 + 2, 5 + 3, estimated=True)  # "half an ans" is 3 tokens


def test_a_stream_that_breaks_off_twice_says_so_and_what_it_cost(model, chat):
    chat.enqueue(chat_streams.cut_stream(), chat_streams.cut_stream())

    with pytest.raises(
        ProviderUnavailable, match="was lost before its response was complete"
    ) as failure:
        model.ask(HELLO, on_text=lambda _text: None)

    assert len(chat.asked) == 2
    assert (failure.value.prompt_tokens, failure.value.completion_tokens) == (4, 6)


@pytest.mark.parametrize(
    ("scene", "kind", "words"),
    [
        (chat_streams.endless(pace=0.05), ProviderUnavailable, "didn’t finish within 2 sec"),
        (chat_streams.endless("word " * 200), ProviderNonsense, "far more tokens than allowed"),
        (sse(*[b": " + b"x" * 20_000 + b"\n"] * 200), ProviderNonsense, "larger than 3 MiB"),
        (chat_streams.falls_silent(4, "well"), ProviderUnavailable, "didn’t finish within 2 sec"),
        (servers.trickle(4), ProviderUnavailable, "within 2 seconds"),
        (servers.slow(4), ProviderUnavailable, "within 2 seconds"),
        (servers.html(), ProviderRejected, "Check the base URL"),
        (servers.in_one(servers.huge()), ProviderNonsense, "larger than 2 MiB"),
        (sse("[]", "null", "5"), ProviderUnavailable, "was lost"),
        (status(401, {"message": f"no {KEY}"}), ProviderRejected, "rejected the key"),
        (servers.quota(), ProviderRejected, "no credit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_stream_that_goes_wrong_ends_in_time_with_clear_words(
    model, chat, scene, kind, words, monkeypatch
):
    monkeypatch.setattr(openai_client, "MAX_STREAM", 3 * 2**20)
    monkeypatch.setattr("beacon_site.providers.llm.openai_client.MAX_STREAM", 3 * 2**20)
    chat.enqueue(scene, scene)
    began = time.monotonic()

    with pytest.raises(kind, match=words) as failure:
        model.ask(HELLO, on_text=lambda _text: None)

    assert type(failure.value) is kind
    assert KEY not in str(failure.value)
    assert time.monotonic() - began < 5


def test_a_stream_that_falls_silent_is_given_up_before_its_time_is_over(chat, monkeypatch):
    monkeypatch.setattr(openai_client, "IDLE_SECONDS", 0.5)
    chat.enqueue(chat_streams.falls_silent(5, "well"))
    began = time.monotonic()

    with pytest.raises(ProviderUnavailable, match="sent nothing"):
        OpenAIModel(LlmProfile(chat.base_url, "tiny", timeout=60)).ask(HELLO, on_text=print)
    assert time.monotonic() - began < 3


@pytest.mark.parametrize(
    ("error", "kind", "words", "calls"),
    [
        ({"message": "the engine died", "type": "server_error"}, ProviderUnavailable, "died", 2),
        ({"message": f"no {KEY}", "code": 400}, ProviderRejected, r"no \[key\]", 1),
        ("plain words", ProviderUnavailable, "plain words", 2),
        ({"message": "odd", "code": "²"}, ProviderUnavailable, "odd", 2),
        ({"message": "odd", "code": "5" * 5000}, ProviderUnavailable, "odd", 2),
        ({"message": "odd", "code": "422"}, ProviderRejected, "odd", 1),
        ({"message": "maximum context length is 9", "code": 400}, ProviderRejected, "too long", 1),
    ],
)
def test_an_error_inside_a_stream_has_its_kind_and_words(model, chat, error, kind, words, calls):
    chat.enqueue(*[chat_streams.error_event(error, "half")] * 2)

    with pytest.raises(kind, match=words) as failure:
        model.ask(HELLO, on_text=lambda _text: None)

    assert len(chat.asked) == calls
    assert failure.value.completion_tokens == calls  # "half" is one token


def test_an_error_event_by_its_name_is_an_error(model, chat):
    chat.enqueue(*[sse(b'event: error\ndata: {"message": "overloaded"}\n\n')] * 2)

    with pytest.raises(ProviderUnavailable, match="overloaded"):
        model.ask(HELLO, on_text=lambda _text: None)


# --- the listener can stop it ---------------------------------------------------------------------


def test_a_stream_whose_events_are_packed_each_for_itself_is_told_to_its_end():
    pause = b": " + b"." * 150_000  # more than is unpacked at once
    events = [pause, data(chunk({"content": "one two"})), data(LAST), b"data: [DONE]"]

    def stream(connection):
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n"
        packed = b"".join(gzip.compress(event + b"\n\n") for event in events)
        connection.sendall(f"{head}Content-Length: {len(packed)}\r\n\r\n".encode() + packed)

    with RawServer(stream) as server:
        profile = LlmProfile(f"{server.url}v1", "tiny")
        answer = OpenAIModel(profile).ask(HELLO, on_text=lambda _text: None)

    assert (answer.text, answer.finish_reason) == ("one two", "stop")


class Stopped(Exception):
    """What a run raises that is cancelled."""


def test_a_listener_that_raises_ends_the_reading_and_closes_the_connection():
    closed: list[float] = []

    def stream(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        try:
            while True:
                connection.sendall(data(chunk({"content": "word "})) + b"\n\n")
                time.sleep(0.02)
        except OSError:
            closed.append(time.monotonic())

    def listen(text: str) -> None:
        if text:
            raise Stopped

    with RawServer(stream) as server:
        began = time.monotonic()
        with pytest.raises(Stopped):
            OpenAIModel(LlmProfile(f"{server.url}v1", "tiny")).ask(HELLO, on_text=listen)
        assert time.monotonic() - began < 2
        while not closed and time.monotonic() - began < 3:
            time.sleep(0.02)
    assert closed
