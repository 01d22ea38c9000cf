"""The test button: four tiny calls, their results, and a time limit."""

from __future__ import annotations

import time
from typing import Any

import pytest

from beacon_site.providers.llm import probing
from beacon_site.providers.llm.base import LlmProfile
from beacon_site.providers.llm.openai_model import learned_about
from beacon_site.providers.llm.probing import probe
from tests.providers import chat_streams, servers
from tests.providers.loopback import Scene
from tests.providers.servers import ScriptedChatServer, calls_tool, in_one, says, status

KEY = "sk-loopback-0123456789"
PARIS = {"city": "Paris", "country": "France"}


@pytest.fixture
def chat(endpoint: ScriptedChatServer) -> ScriptedChatServer:
    """An endpoint that can do everything, its chat apart."""
    learned_about.cache_clear()
    endpoint.forget()
    endpoint.standing = able
    endpoint.models = ["tiny", "nomic-embed-text"]
    endpoint.embeddings = {"nomic-embed-text": 768}
    return endpoint


def able(body: dict[str, Any]) -> str | dict[str, Any] | Scene:
    if body.get("tools"):
        return calls_tool("weather_of", {"city": "Paris"})
    return PARIS if "response_format" in body else "ready"


def test_an_endpoint_that_can_do_all_is_known_by_four_tiny_calls(chat):
    result = probe(LlmProfile(chat.base_url, "tiny", api_key=KEY))

    assert (result.ok, result.answer, result.json_mode) == (True, "ready", "schema")
    assert (result.tools, result.streams) == (True, True)
    assert (result.embedding_model, result.embedding_dimensions) == ("nomic-embed-text", 768)
    assert (len(chat.asked), result.usage.total, result.notes) == (3, 45, ())


def test_the_real_error_is_shown_and_not_the_key(chat):
    chat.enqueue(status(401, {"message": f"Incorrect API key provided: {KEY}"}))

    result = probe(LlmProfile(chat.base_url, "tiny", api_key=KEY))

    assert not result.ok
    assert "Incorrect API key provided: [key]" in result.message


def test_an_endpoint_that_can_only_chat_says_so_of_each_of_the_rest(chat):
    chat.standing = "ready"
    chat.models = ["tiny"]

    result = probe(LlmProfile(chat.base_url, "tiny"))

    assert (result.ok, result.json_mode, result.tools) == (True, "", False)
    assert "Beacon will use fallbacks" in result.notes[0]
    assert result.notes[1:] == (
        "The model didn’t call the tool it was offered.",
        "The endpoint has no embedding model.",
    )
    assert all(note in result.message for note in result.notes)


@pytest.mark.parametrize("first", [{"capital": "Paris"}, "Paris, in France"])
def test_an_endpoint_that_claims_a_schema_and_ignores_it_is_found_out(chat, first):
    def ignores(body: dict[str, Any]) -> Any:
        if "JSON Schema" in str(body["messages"]):
            return PARIS
        return first if "response_format" in body else able(body)

    chat.standing = ignores

    result = probe(LlmProfile(chat.base_url, "tiny"))

    assert result.json_mode == "prompt"
    assert "doesn’t follow it" in result.message


def test_an_endpoint_that_does_not_stream_is_known_for_it(chat):
    chat.standing = lambda body: in_one(says(str(able(body)).replace("'", '"')))

    result = probe(LlmProfile(chat.base_url, "tiny"))

    assert (result.ok, result.streams) == (True, False)


@pytest.mark.parametrize(
    ("error", "tools", "words"),
    [
        (status(400, {"message": "tiny does not support tools"}), False, "doesn’t support tools"),
        (
            status(400, {"message": '"auto" tool choice requires --enable-auto-tool-choice'}),
            False,
            "--tool-call-parser",
        ),
        (status(503, "later"), None, "Tools couldn’t be tested"),
        (calls_tool("weather_of", "{bad"), False, "valid JSON"),
    ],
)
def test_tools_that_do_not_work_have_their_sentence(chat, error, tools, words):
    chat.standing = lambda body: error if body.get("tools") else able(body)

    result = probe(LlmProfile(chat.base_url, "tiny", kind="vllm"))

    assert (result.ok, result.tools) == (True, tools)
    assert words in result.message


def test_a_chosen_embedding_model_that_is_not_there_has_its_sentence(chat):
    result = probe(LlmProfile(chat.base_url, "tiny", embedding_model="gone"))

    assert (result.embedding_model, result.embedding_dimensions) == ("", None)
    assert "can’t create embeddings with “gone” (HTTP 404: nothing is here)" in result.message


@pytest.mark.parametrize("kind", ["compatible", "llamacpp", "ollama"])
def test_all_of_a_test_ends_within_its_time(chat, kind, monkeypatch):
    monkeypatch.setattr(probing, "WHOLE_SECONDS", 1.5)
    chat.standing = lambda body: servers.slow(4) if "stream" not in body else "ready"
    for path in ("/v1/embeddings", "/v1/models", "/props", "/api/ps"):
        chat.pages[path] = servers.slow(4)

    result = probe(LlmProfile(chat.base_url, "tiny", kind=kind))

    assert result.ok and result.ms < 2500
    assert "Tools couldn’t be tested: the test reached its limit of 1.5 seconds" in result.message


@pytest.mark.parametrize(
    "scene", [servers.slow(5), chat_streams.falls_silent(5, "re"), servers.trickle(5)]
)
def test_a_test_that_hangs_ends_with_a_word(chat, scene, monkeypatch):
    monkeypatch.setattr(probing, "PATIENCE", 1.0)
    chat.enqueue(scene)
    began = time.monotonic()

    result = probe(LlmProfile(chat.base_url, "tiny", timeout=60))

    assert not result.ok
    assert "1 seconds" in result.message
    assert time.monotonic() - began < 3


def test_an_endpoint_that_hangs_at_every_call_but_the_first_ends_too(chat, monkeypatch):
    monkeypatch.setattr(probing, "PATIENCE", 1.0)
    chat.standing = lambda body: servers.slow(4) if "stream" not in body else "ready"
    for path in ("/v1/embeddings", "/v1/models"):
        chat.pages[path] = servers.slow(6)
    began = time.monotonic()

    result = probe(LlmProfile(chat.base_url, "tiny"))

    assert (result.ok, result.json_mode, result.tools) == (True, "", None)
    assert time.monotonic() - began < 12


@pytest.mark.parametrize("kind", ["openai", "compatible"])
@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("nonsense", "isn’t a valid model URL"),
        ("http://[::1", "isn’t a valid model URL"),
        ("http://127.0.0.1:notaport/v1", "isn’t a valid model URL"),
        ("http://user:secretword@127.0.0.1:9", "username and password"),
        ("http://secretword@127.0.0.1:9/v1", "username and password"),
    ],
)
def test_a_wrong_address_is_explained_without_its_password(kind, address, words):
    result = probe(LlmProfile(address, "tiny", kind=kind))

    assert not result.ok
    assert words in result.message
    assert "secretword" not in result.message


@pytest.mark.parametrize("tail", ["/", "/chat/completions", "/chat/completions/", "/models"])
def test_an_address_copied_from_an_example_works(chat, tail):
    assert probe(LlmProfile(chat.base_url + tail, "tiny")).ok
    assert chat.asked[0].path == "/v1/chat/completions"


def test_an_address_without_its_path_is_told_what_is_missing(chat):
    chat.enqueue(status(404, "Not Found"))

    result = probe(LlmProfile(chat.origin, "tiny"))

    assert not result.ok
    assert "usually ends in /v1" in result.message


@pytest.mark.parametrize("kind", ["openai", "ollama", "vllm", "llamacpp", "lmstudio"])
def test_a_kind_that_always_has_the_same_path_needs_none(chat, kind):
    assert probe(LlmProfile(chat.origin, "tiny", kind=kind)).ok


def test_a_page_of_html_is_told_from_a_model(chat):
    chat.standing = lambda _body: servers.html()

    result = probe(LlmProfile(chat.base_url, "tiny"))

    assert not result.ok
    assert "it doesn’t seem to be a model server: “Sign in Please sign in”" in result.message
