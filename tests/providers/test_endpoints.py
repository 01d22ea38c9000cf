"""The kinds of endpoints: URLs, hints and missing features."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.providers.llm import endpoints
from beacon_site.providers.llm.base import LlmProfile, Message
from beacon_site.providers.llm.endpoints import (
    KINDS,
    address_of,
    complaint_about,
    context_tokens,
    embedding_dimensions,
    kind_by_address,
    list_models,
)
from beacon_site.providers.llm.openai_model import OpenAIModel
from tests.providers import servers
from tests.providers.servers import says, status

KEY = "sk-loopback-0123456789"
HELLO = [Message("user", "Hello?")]
LONG = [Message("user", "word " * 4000)]  # about 5,000 tokens by Beacon's estimate
AZURE = "https://res.openai.azure.com"


def address(base_url: str, kind: str = "compatible", model: str = "m") -> str:
    return address_of(LlmProfile(base_url, model, kind=kind)).base_url


# --- addresses ------------------------------------------------------------------------------------


def test_every_kind_has_a_place_to_begin():
    for name, kind in KINDS.items():
        assert kind.name == name
        assert 30 <= kind.seconds <= 300  # a run's task has 840
        assert kind.limit_field in ("max_tokens", "max_completion_tokens")
        assert str(kind.label) and str(kind.hint)


@pytest.mark.parametrize(
    ("base_url", "kind", "leads_to"),
    [
        ("", "openai", "https://api.openai.com/v1"),
        ("", "ollama", "http://127.0.0.1:11434/v1"),
        ("", "lmstudio", "http://127.0.0.1:1234/v1"),
        ("http://box:11434", "ollama", "http://box:11434/v1"),
        ("http://box:11434/", "ollama", "http://box:11434/v1"),
        (" https://h.example/v1/ ", "compatible", "https://h.example/v1"),
        ("https://h.example/v1/chat/completions", "compatible", "https://h.example/v1"),
        ("https://h.example/a/b/v2/", "compatible", "https://h.example/a/b/v2"),
        ("https://h.example", "compatible", "https://h.example"),
        (f"{AZURE}", "azure", f"{AZURE}/openai/v1"),
        (f"{AZURE}/openai/v1/", "azure", f"{AZURE}/openai/v1"),
        (f"{AZURE}?api-version=2024-10-21", "azure", f"{AZURE}/openai/deployments/m"),
        (
            f"{AZURE}/openai/deployments/d/chat/completions?api-version=2024-10-21",
            "azure",
            f"{AZURE}/openai/deployments/d",
        ),
    ],
)
def test_an_address_leads_where_its_kind_means(base_url: str, kind: str, leads_to: str):
    assert address(base_url, kind) == leads_to


@pytest.mark.parametrize(
    ("base_url", "kind"),
    [
        ("", "openai"),
        ("https://api.openai.com/v1", "openai"),
        (f"{AZURE}/openai/v1", "azure"),
        ("http://127.0.0.1:11434/v1", "ollama"),
        ("http://box:1234", "lmstudio"),
        ("https://h.example/v1", "compatible"),
        ("http://[::1", "compatible"),
        ("http://h:99999999", "compatible"),
    ],
)
def test_an_address_speaks_for_a_kind(base_url: str, kind: str):
    assert kind_by_address(base_url) == kind


def test_a_form_can_ask_what_is_wrong_with_an_address():
    assert complaint_about("http://box:11434/v1") == ""
    assert "username and password" in complaint_about("http://me@box:11434/v1")
    assert "isn’t a valid model URL" in complaint_about("box:11434")
    assert "key=1" not in complaint_about("ftp://box/?key=1")


def test_azures_classic_interface_gets_its_version_and_its_header(chat):
    base_url = f"{chat.origin}/openai/deployments/d?api-version=2024-10-21"
    profile = LlmProfile(base_url, "d", api_key=KEY, kind="azure")
    chat.pages["/openai/models"] = {"data": [{"id": "gpt"}]}

    OpenAIModel(profile).ask(HELLO, on_text=lambda _text: None)

    assert chat.asked[0].path == "/openai/deployments/d/chat/completions"
    assert chat.asked[0].query == "api-version=2024-10-21"
    assert chat.asked[0].headers["api-key"] == KEY
    assert list_models(profile) == ["gpt"]
    assert chat.looked == ["/openai/models?api-version=2024-10-21"]


# --- what an endpoint tells -----------------------------------------------------------------------


def test_the_models_are_listed_by_name(chat):
    chat.models = ["a", {"id": "b", "max_model_len": 4096}, {"no": "name"}]

    assert list_models(LlmProfile(chat.base_url, "a", api_key=KEY)) == ["a", "b"]


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        (servers.html(), ProviderRejected),
        (status(401, f"no {KEY}"), ProviderRejected),
        ({"data": "none"}, ProviderRejected),
        (servers.slow(3), ProviderUnavailable),
    ],
)
def test_an_endpoint_that_shows_no_models_isnt_a_crash(chat, page, kind):
    chat.pages["/v1/models"] = page

    with pytest.raises(kind) as failure:
        list_models(LlmProfile(chat.base_url, "a", api_key=KEY), timeout=0.5)
    assert KEY not in str(failure.value)


@pytest.mark.parametrize(
    ("kind", "path", "page"),
    [
        ("vllm", "/v1/models", {"data": [{"id": "m", "max_model_len": 8192}]}),
        ("llamacpp", "/v1/models", {"data": [{"id": "x.gguf", "meta": {"n_ctx": 8192}}]}),
        ("llamacpp", "/props", {"default_generation_settings": {"n_ctx": 8192}}),
        ("compatible", "/v1/models", {"data": [{"id": "m", "context_length": 8192}, {"id": "n"}]}),
        ("ollama", "/api/ps", {"models": [{"name": "m:latest", "context_length": 8192}]}),
        (
            "lmstudio",
            "/api/v0/models",
            {"data": [{"id": "m", "loaded_context_length": 8192, "max_context_length": 32768}]},
        ),
    ],
)
def test_the_size_of_the_window_is_read_where_a_kind_shows_it(chat, kind, path, page):
    chat.pages[path] = page

    assert context_tokens(LlmProfile(chat.base_url, "m", kind=kind)) == 8192


@pytest.mark.parametrize("absurd", [-1, 0, "8192", True, 10**12, None])
def test_an_absurd_window_isnt_a_window(chat, absurd):
    chat.models = [{"id": "m", "max_model_len": absurd}]

    assert context_tokens(LlmProfile(chat.base_url, "m", kind="vllm")) is None


# --- what is missing there ------------------------------------------------------------------------

NO_MODEL = [
    ("openai", 404, {"message": "The model `gone` does not exist", "code": "model_not_found"}),
    ("vllm", 404, {"message": "The model `gone` does not exist.", "type": "NotFoundError"}),
    ("ollama", 404, {"message": 'model "gone" not found, try pulling it first'}),
    ("lmstudio", 400, {"message": 'Invalid model identifier "gone".', "code": "model_not_found"}),
    ("compatible", 400, "gone is no such model"),
]


@pytest.mark.parametrize(("kind", "code", "error"), NO_MODEL)
def test_a_model_that_has_vanished_is_reported_with_those_that_are_there(chat, kind, code, error):
    chat.models = [f"m{number}" for number in range(12)]
    chat.enqueue(status(code, error))

    with pytest.raises(ProviderRejected, match="has no model “gone”") as failure:
        OpenAIModel(LlmProfile(chat.base_url, "gone", kind=kind)).ask(HELLO)

    assert "It has “m0”, “m1”" in str(failure.value)
    assert "and 4 more" in str(failure.value)
    assert len(chat.asked) == 1


def test_no_model_loaded_is_reported_with_those_that_could_be(chat):
    chat.enqueue(status(400, "No models loaded. Please load a model in the developer page."))

    with pytest.raises(ProviderRejected, match="It has “loopback-1”"):
        OpenAIModel(LlmProfile(chat.base_url, "gone", kind="lmstudio")).ask(HELLO)


def test_a_deployment_that_azure_does_not_have_is_reported_without_a_list(chat):
    told = {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}
    chat.enqueue(status(404, told))

    with pytest.raises(ProviderRejected, match="no deployment “gone”") as failure:
        OpenAIModel(LlmProfile(chat.base_url, "gone", kind="azure")).ask(HELLO)
    assert "loopback-1" not in str(failure.value)


def test_the_models_are_not_looked_for_beyond_the_time_of_the_question(chat):
    chat.enqueue(status(404, "no such model"))
    chat.pages["/v1/models"] = servers.slow(4)
    began = time.monotonic()

    with pytest.raises(ProviderRejected):
        OpenAIModel(LlmProfile(chat.base_url, "gone"), ends_at=began + 1).ask(HELLO)
    assert time.monotonic() - began < 2.5


@pytest.mark.parametrize("before", [180, 195, 290])
def test_a_key_that_a_long_reason_repeats_is_taken_out_before_it_is_cut(chat, before):
    chat.pages["/v1/embeddings"] = status(400, {"message": "x" * before + KEY})

    with pytest.raises(ProviderRejected) as failure:
        embedding_dimensions(LlmProfile(chat.base_url, "m", api_key=KEY), "e", timeout=2)
    assert KEY[:5] not in str(failure.value)


def test_a_server_that_does_not_run_is_reported_without_the_systems_numbers():
    with pytest.raises(ProviderUnavailable, match="connection was lost: Connection ref") as failure:
        OpenAIModel(LlmProfile("http://127.0.0.1:9/v1", "m")).ask(HELLO)
    assert "Errno" not in str(failure.value)


def test_a_wrong_address_is_told_from_a_missing_model(chat):
    chat.enqueue(status(404, "404 page not found"))
    chat.pages["/v1/models"] = status(404)

    with pytest.raises(ProviderRejected, match="or the base URL is wrong"):
        OpenAIModel(LlmProfile(chat.base_url, "tiny")).ask(HELLO)


def test_azures_content_filter_is_named(chat):
    told = {"code": "content_filter", "message": "The response was filtered."}
    chat.enqueue(status(400, told))

    with pytest.raises(ProviderRejected, match=r"content filter at .* rejected"):
        OpenAIModel(LlmProfile(chat.base_url, "tiny", kind="azure")).ask(HELLO)
    assert len(chat.asked) == 1


@pytest.mark.parametrize(
    ("kind", "error", "way_out"),
    [
        ("vllm", "This model's maximum context length is 4096 tokens.", "--max-model-len"),
        ("llamacpp", "request (6031 tokens) exceeds the available context size", "--ctx-size"),
        ("ollama", "the prompt exceeds the context length of 4096", "OLLAMA_CONTEXT_LENGTH"),
        ("lmstudio", "Reached context length of 4096 tokens", "larger context length"),
    ],
)
def test_a_question_that_is_too_long_is_reported_with_the_way_out(chat, kind, error, way_out):
    chat.enqueue(status(400, error))

    with pytest.raises(ProviderRejected, match="too long") as failure:
        OpenAIModel(LlmProfile(chat.base_url, "tiny", kind=kind)).ask(HELLO)
    assert way_out in str(failure.value)


def test_a_question_that_was_cut_short_in_silence_is_warned_of(chat):
    chat.enqueue(says("hm", usage={"prompt_tokens": 2050, "completion_tokens": 1}))
    profile = LlmProfile(chat.base_url, "tiny", kind="ollama")

    warning = OpenAIModel(profile).ask(LONG).warning

    assert "read only 2050 of about 5000 tokens" in warning
    assert "OLLAMA_CONTEXT_LENGTH" in warning


def test_a_question_that_was_read_whole_is_not(chat):
    for usage in ({"prompt_tokens": 4200, "completion_tokens": 1}, {}):
        chat.enqueue(says("hm", usage=usage))
        assert OpenAIModel(LlmProfile(chat.base_url, "t", kind="ollama")).ask(LONG).warning == ""


def test_an_unknown_kind_is_an_endpoint_like_any_other():
    assert endpoints.kind_of(LlmProfile("", "m", kind="new")).name == "compatible"


def test_every_kind_is_in_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "providers.md").read_text()

    for kind in KINDS.values():
        assert f"| {kind.label} |" in page
        assert kind.default_url in page
