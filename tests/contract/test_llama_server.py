"""Compares Beacon's assumptions about an endpoint with a real llama-server.  Run it manually.

BEACON_TEST_LLAMA_SERVER=…/llama-server BEACON_TEST_LLAMA_MODEL=…/model.gguf \\
    .venv/bin/python -m pytest tests/contract -n0

docs/dev/llama-server.md says how to get both, and what came out.  What a model says is
never asserted, only that the server keeps to the interface: the smallest one will do.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from pydantic import BaseModel

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.providers.llm.base import LlmProfile, Message, ToolCall
from beacon_site.providers.llm.endpoints import (
    context_tokens,
    embedding_dimensions,
    list_models,
)
from beacon_site.providers.llm.openai_model import OpenAIModel
from beacon_site.providers.llm.probing import TOOL, probe

CONTEXT = 4096
SEA = [Message("user", "Tell me about the sea.")]


# A template that speaks of tools, for a model whose own does not: in the way of Hermes and Qwen.
TEMPLATE = """\
{%- if tools %}<|im_start|>system
You may call these tools:
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
To call one, write {"name": <its name>, "arguments": <an object>} within <tool_call></tool_call>.
<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


class City(BaseModel):
    city: str
    country: str
    rivers: list[str]


@dataclass(frozen=True, slots=True)
class Llama:
    """A llama-server that was started for these tests."""

    origin: str
    process: subprocess.Popen[bytes]

    @property
    def profile(self) -> LlmProfile:
        return LlmProfile(f"{self.origin}/v1", "whatever", kind="llamacpp", timeout=60)

    @property
    def is_busy(self) -> bool:
        return any(slot["is_processing"] for slot in httpx.get(f"{self.origin}/slots").json())


@contextlib.contextmanager
def llama(*arguments: str | Path) -> Iterator[Llama]:
    """Start a server on a free port; end only that server afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # One thread: two wait for each other wherever something else runs too.
    command = [os.environ["BEACON_TEST_LLAMA_SERVER"], "-m", os.environ["BEACON_TEST_LLAMA_MODEL"]]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port), "-t", "1", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        origin = f"http://127.0.0.1:{port}"
        _wait_until_ready(origin)
        yield Llama(origin, process)
    finally:
        process.terminate()
        process.wait(10)


def _wait_until_ready(origin: str) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{origin}/health").status_code == 200:
                return
        time.sleep(0.2)
    raise AssertionError("llama-server did not become ready")


@pytest.fixture(scope="module")
def server() -> Iterator[Llama]:
    with llama("-c", str(CONTEXT), "--jinja", "--slots") as started:
        yield started


@pytest.fixture
def model(server: Llama) -> OpenAIModel:
    return OpenAIModel(server.profile)


def test_it_chats_whatever_name_is_requested_and_counts_its_tokens(model: OpenAIModel):
    answer = model.ask(SEA, max_tokens=40)

    assert answer.text
    assert not answer.usage.estimated
    assert answer.model != "whatever"


def test_it_keeps_the_token_limit_and_says_that_it_cut(model: OpenAIModel):
    answer = model.ask(SEA, max_tokens=12)

    assert (answer.finish_reason, answer.usage.completion_tokens) == ("length", 12)


def test_it_streams_and_counts_the_stream(model: OpenAIModel):
    heard: list[str] = []

    answer = model.ask(SEA, max_tokens=120, on_text=heard.append)

    assert len(heard) > 2
    assert heard[-1].strip() == answer.text
    assert not answer.usage.estimated
    assert (model.learned.streams, model.learned.stream_counts) == (True, True)


@pytest.mark.parametrize("on_text", [None, lambda _text: None], ids=["whole", "in pieces"])
def test_it_keeps_to_a_schema(model: OpenAIModel, on_text):
    question = [Message("user", "Describe Paris: city, country, two rivers.")]

    answer = model.ask(question, max_tokens=300, schema=City, on_text=on_text)

    assert isinstance(answer.parsed, City)
    assert model.learned.rung == 0


def test_tools_are_called_answered_and_called_again(tmp_path: Path):
    # The smallest model calls nothing of itself; shown how, four times, it does.
    template = tmp_path / "tools.jinja"
    template.write_text(TEMPLATE)
    talk: list[Message] = []
    for city in ("Rome", "Oslo", "Lima", "Cairo"):
        call = ToolCall(f"call-{city}", TOOL.name, {"city": city})
        talk += [
            Message("user", f"Weather in {city}?"),
            Message("assistant", "", (call,)),
            Message("tool", "sunny", (), call.id),
            Message("assistant", f"It is sunny in {city}."),
        ]
    talk.append(Message("user", "Weather in Paris?"))

    with llama("-c", "2048", "--jinja", "--temp", "0", "--chat-template-file", template) as started:
        model = OpenAIModel(started.profile)
        answers = [
            model.ask(talk, max_tokens=60, tools=[TOOL], on_text=way)
            for way in (None, lambda _text: None)
        ]

    for answer in answers:
        called = [(call.name, call.arguments) for call in answer.tool_calls]
        assert called == [(TOOL.name, {"city": "Paris"})]


def test_a_model_whose_template_knows_no_tools_is_never_told_of_them(model: OpenAIModel):
    plain = model.ask(SEA, max_tokens=5).usage.prompt_tokens

    assert model.ask(SEA, max_tokens=5, tools=[TOOL]).usage.prompt_tokens == plain


def test_a_listener_that_stops_frees_the_server(server: Llama, model: OpenAIModel):
    class Stopped(Exception):
        pass

    def listen(text: str) -> None:
        if text:
            raise Stopped

    with pytest.raises(Stopped):
        model.ask(SEA, max_tokens=2000, on_text=listen)

    until = time.monotonic() + 3
    while server.is_busy and time.monotonic() < until:
        time.sleep(0.1)
    assert not server.is_busy


def test_a_question_that_is_too_long_is_reported_with_the_way_out(model: OpenAIModel):
    with pytest.raises(ProviderRejected, match=r"too long .* --ctx-size"):
        model.ask([Message("user", "word " * 6000)], max_tokens=10)


def test_it_shows_its_models_and_its_window(server: Llama):
    assert len(list_models(server.profile)) == 1
    assert context_tokens(server.profile) == CONTEXT


def test_a_wrong_path_is_told_from_a_missing_model(server: Llama):
    wrong = replace(server.profile, base_url=f"{server.origin}/wrong")

    with pytest.raises(ProviderRejected, match="the base URL is wrong"):
        OpenAIModel(wrong).ask(SEA)


def test_the_test_button_finds_out_what_it_can_do(server: Llama):
    result = probe(server.profile)

    assert (result.ok, result.json_mode, result.streams) == (True, "schema", True)
    assert result.context_tokens == CONTEXT
    assert not result.tools  # its template knows none
    assert "--embeddings" in result.message
    assert result.ms < 45_000


def test_it_embeds_where_it_was_started_to():
    with llama("--embeddings", "--pooling", "mean", "-c", "512") as started:
        assert embedding_dimensions(started.profile, "whatever", timeout=10) > 100


def test_a_server_that_is_killed_in_mid_answer_broke_off():
    with llama("-c", str(CONTEXT)) as started:

        def kill(text: str) -> None:
            if text:
                started.process.kill()

        with pytest.raises(ProviderUnavailable, match=r"broke off|cannot be reached"):
            OpenAIModel(started.profile).ask(SEA, max_tokens=2000, on_text=kill)


def test_a_key_that_is_wrong_is_refused_and_not_shown():
    with llama("--api-key", "the-right-key-1234") as started:
        profile = replace(started.profile, api_key="a-wrong-key-5678")
        with pytest.raises(ProviderRejected, match="rejected the key") as failure:
            OpenAIModel(profile).ask(SEA)
        assert "5678" not in str(failure.value)
        assert OpenAIModel(replace(profile, api_key="the-right-key-1234")).ask(SEA, max_tokens=5)
