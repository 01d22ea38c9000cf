"""Cost and duration of a request over all its attempts and formats."""

from __future__ import annotations

import time

import pytest
from pydantic import BaseModel

from beacon_site.net.errors import ProviderNonsense, ProviderUnavailable
from beacon_site.providers.llm.base import LlmProfile, Message, Usage
from beacon_site.providers.llm.openai_model import OpenAIModel, learned_about
from tests.providers import chat_streams, servers
from tests.providers.chat_streams import sse, text_chunks
from tests.providers.raw_server import RawServer
from tests.providers.servers import ScriptedChatServer, says

HELLO = [Message("user", "Hello?")]


class Plan(BaseModel):
    queries: list[str]


GOOD = Plan(queries=["one"]).model_dump_json()


@pytest.fixture
def model(endpoint: ScriptedChatServer) -> OpenAIModel:
    learned_about.cache_clear()
    endpoint.forget()
    made = OpenAIModel(LlmProfile(endpoint.base_url, "tiny", timeout=2))
    assert made.wire  # loaded, so that no test takes the time of the first import
    return made


def test_a_second_try_ends_with_the_time_of_the_first(model, endpoint):
    endpoint.enqueue(sse(*text_chunks("half an ", "ans"), pace=0.3), servers.slow(4))
    began = time.monotonic()

    with pytest.raises(ProviderUnavailable):
        model.ask(HELLO, on_text=lambda _text: None)

    assert len(endpoint.asked) == 2
    assert time.monotonic() - began < 3  # of 2 seconds; each try by itself would end at 3.4


@pytest.mark.parametrize("about", ["Streaming is not supported", "no such response_format"])
def test_what_a_refused_form_had_said_is_counted_too(model, endpoint, about):
    endpoint.enqueue(chat_streams.error_event({"message": about, "code": 400}, "half"), says(GOOD))

    answer = model.ask(HELLO, schema=Plan, on_text=lambda _text: None)

    assert answer.usage == Usage(10 + 2, 5 + 1, estimated=True)  # "half" is one token


@pytest.mark.parametrize(
    ("broken", "cost"),
    [(chat_streams.cut_stream(), 3 + 3), (servers.in_one(servers.huge()), 1024)],
)
def test_a_repair_that_breaks_off_is_counted_too(model, endpoint, broken, cost):
    endpoint.enqueue(says("no JSON"), broken, broken)

    with pytest.raises(ProviderNonsense) as failure:
        model.ask(HELLO, schema=Plan, on_text=lambda _text: None)
    assert failure.value.completion_tokens == 5 + cost


def test_headers_that_come_a_byte_at_a_time_end_with_the_time():
    def drip(connection):
        for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 500:
            connection.sendall(bytes([byte]))
            time.sleep(0.05)

    with RawServer(drip) as server:
        began = time.monotonic()
        with pytest.raises(ProviderUnavailable, match="within 1 seconds"):
            OpenAIModel(LlmProfile(f"{server.url}v1", "tiny", timeout=1)).ask(HELLO)
    assert time.monotonic() - began < 3
