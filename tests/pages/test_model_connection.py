"""Connections: the form of the language model, its test and the list of its models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_httpserver import HTTPServer

from beacon_site.providers.llm.endpoints import KINDS
from beacon_site.providers.llm.probing import ProbeResult
from memory.models import Connection, User
from memory.pages.connections.forms import ModelForm
from memory.services.llm import connections

HTMX = {"HX-Request": "true"}
PAGE = "/settings/connections/"
KEY = "sk-very-secret-1234"


@pytest.fixture
def browser(admin: User, client_of: Callable[[User], Client]) -> Client:
    """The admin's browser."""
    return client_of(admin)


def save(browser: Client, name: str = "model", *, htmx: bool = False, **fields: str) -> str:
    data = {f"{name}-{field}": value for field, value in fields.items()}
    headers = HTMX if htmx else {}
    response = browser.post(f"{PAGE}{name}/", data, headers=headers, follow=not htmx)
    return str(response.content.decode())


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("localhost:11434", "starts with http:// or https://"),
        ("ftp://h/v1", "starts with http:// or https://"),
        ("http://", "has no host name"),
        ("http://h:port/v1", "isn’t valid"),
        ("http://[::1/v1", "isn’t valid"),
        ("http://me:secret@h/v1", "Remove the username and password"),
        ("http://h/v1?key=1", "the ? or # and everything after it"),
    ],
)
def test_a_bad_address_is_explained(browser: Client, url: str, told: str) -> None:
    assert told in save(browser, base_url=url, model="m")
    assert not Connection.objects.exists()


@pytest.mark.parametrize("end", ["/chat/completions", "/chat/completions/"])
def test_an_address_copied_from_an_example_loses_its_end(browser: Client, end: str) -> None:
    assert "Saved" in save(browser, base_url=f"http://h/v1{end}", model="m")
    assert Connection.objects.get().base_url == "http://h/v1"


def test_a_key_without_a_model_asks_for_the_model(browser: Client) -> None:
    assert "Enter a model too" in save(browser, secret=KEY)


def test_the_test_button_shows_the_models_real_answer(
    browser: Client, httpserver: HTTPServer
) -> None:
    answer = {
        "model": "real-model",
        "choices": [
            {"message": {"role": "assistant", "content": "ready"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2},
    }
    httpserver.expect_request("/v1/chat/completions").respond_with_json(answer)
    save(browser, base_url=httpserver.url_for("/v1"), model="real-model", secret=KEY)

    body = browser.post(f"{PAGE}model/test/", headers=HTMX).content.decode()

    assert "Test succeeded" in body
    assert "ready" in body
    assert "input tokens" in body
    assert httpserver.log[0][0].headers["Authorization"] == f"Bearer {KEY}"


def test_the_test_button_shows_the_models_real_error(
    browser: Client, httpserver: HTTPServer
) -> None:
    error = {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}
    httpserver.expect_request("/v1/chat/completions").respond_with_json(error, status=401)
    save(browser, base_url=httpserver.url_for("/v1"), model="m", secret=KEY)

    body = browser.post(f"{PAGE}model/test/").content.decode()

    assert "Test failed" in body
    assert "Incorrect API key provided" in body
    assert KEY not in body


def test_without_a_model_the_test_says_so(browser: Client) -> None:
    body = browser.post(f"{PAGE}model/test/", headers=HTMX).content.decode()

    assert "No model is set up" in body


def test_a_model_is_saved_with_its_key_and_prices(browser: Client) -> None:
    given = {"price_in": "0.15", "price_out": "0", "embedding_model": "e"}
    save(browser, base_url="http://h/v1/", model="m", secret=KEY, **given)

    row = Connection.objects.get()
    assert (row.base_url, row.model) == ("http://h/v1", "m")
    assert (row.prices, row.profile["embedding_model"]) == ({"in": "0.15", "out": "0"}, "e")
    assert row.reveal_secret() == KEY


def test_the_environment_makes_its_fields_read_only(browser: Client, settings: Any) -> None:
    settings.BEACON_LLM_BASE_URL = "http://environment/v1"
    settings.OPENAI_API_KEY = KEY
    settings.BEACON_LLM_MODEL = "fixed"

    body = save(browser, base_url="http://mine/v1", secret="mine", model="mine")

    assert body.count("which overrides this page") == 3
    assert "http://environment/v1" in body
    assert KEY not in body
    row = Connection.objects.get()
    assert (row.base_url, row.model, row.secret) == ("", "", "")


# --- what a test found --------------------------------------------------------------------------


def probed(**found: Any) -> None:
    given = {"answer": "ready", "model": "m1", "json_mode": "object", "streams": True, **found}
    Connection.objects.create(kind="model", name="model", base_url="http://h/v1", model="m1")
    profile = connections.llm_profile()
    assert profile is not None
    connections.keep_probe(profile, ProbeResult(True, "", 1, **given))


def page(browser: Client) -> str:
    return " ".join(browser.get(PAGE).content.decode().split())


def test_what_the_last_test_found_is_on_the_page(browser: Client) -> None:
    probed(tools=False, embedding_model="e", embedding_dimensions=384, context_tokens=8192)

    body = page(browser)

    for words in (
        "“ready”",
        "you can read a report while it’s being written",
        "json_object (each response is checked)",
        "not called by the model",
        "e, 384 dimensions",
        "8,192 tokens",
    ):
        assert words in body


def test_what_could_not_be_found_out_is_explained(browser: Client) -> None:
    probed(json_mode="", streams=None)

    body = page(browser)

    assert "not supported, so Beacon uses fallbacks" in body
    assert "couldn’t be tested" in body
    assert "not reported (Beacon assumes 32,768 tokens)" in body


@pytest.mark.parametrize(
    "change", [{"model": "m2"}, {"base_url": "http://h/v2"}, {"secret": KEY}, {"kind": "ollama"}]
)
def test_a_test_of_what_has_changed_since_is_marked(
    browser: Client, change: dict[str, str]
) -> None:
    probed()
    assert "Test again." not in page(browser)

    save(browser, **({"base_url": "http://h/v1", "model": "m1"} | change))

    assert "The URL, model or key has changed since this test. Test again." in page(browser)


def test_a_test_that_fails_leaves_what_an_earlier_one_found(
    browser: Client, httpserver: HTTPServer
) -> None:
    save(browser, base_url=httpserver.url_for("/v1"), model="m1")
    profile = connections.llm_profile()
    assert profile is not None
    connections.keep_probe(profile, ProbeResult(True, "", 1, json_mode="object", model="m1"))
    httpserver.expect_request("/v1/chat/completions").respond_with_data("gone", status=404)

    browser.post(f"{PAGE}model/test/")

    assert "json_object (each" in page(browser)
    assert ">no</span>" in page(browser)
    after = connections.llm_profile()
    assert after is not None
    assert after.json_mode == "object"


# --- the model's form ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"price_in": "-1", "price_out": "1"}, "Prices can’t be negative"),
        ({"price_in": "cheap", "price_out": "1"}, "Enter a price in US dollars"),
        ({"price_in": "NaN", "price_out": "1"}, "Enter a price in US dollars"),
        ({"price_in": "1"}, "Enter both prices or neither"),
        ({"price_in": "1e9", "price_out": "1"}, "less than or equal to 100000"),
        ({"context_tokens": "12"}, "Ensure this value is greater than or equal to 1024"),
        ({"kind": "azure", "base_url": ""}, "Azure has a separate URL for each resource"),
        ({"kind": "magic"}, "magic is not one of the available choices"),
    ],
)
def test_a_bad_field_of_the_model_is_explained_and_nothing_is_stored(
    browser: Client, given: dict[str, str], told: str
) -> None:
    body = save(browser, **({"base_url": "http://h/v1", "model": "kept-name"} | given))

    assert told in body
    assert 'value="kept-name"' in body
    assert not Connection.objects.exists()


def test_a_model_of_ones_own_machine_is_selected_as_free(browser: Client) -> None:
    save(browser, base_url="http://h/v1", model="m", costs_nothing="on")

    assert connections.stored("model").prices == {"in": "0", "out": "0"}
    form = ModelForm(row=connections.stored("model"))
    assert (form.initial["costs_nothing"], form.initial["price_in"]) == (True, None)


def test_a_model_that_is_free_and_has_a_price_is_asked_about(browser: Client) -> None:
    given = {"costs_nothing": "on", "price_in": "1", "price_out": "2"}

    answer = save(browser, base_url="http://h/v1", model="m", **given)

    assert "At least one price is set below" in answer


def test_a_price_left_empty_is_not_known_and_zero_costs_nothing(browser: Client) -> None:
    save(browser, base_url="http://h/v1", model="m")
    unknown = connections.llm_profile()
    save(browser, base_url="http://h/v1", model="m", price_in="0", price_out="0")
    free = connections.llm_profile()

    assert unknown and free
    assert (unknown.price_in, free.price_in, free.price_out) == (None, 0, 0)


def test_azures_classic_address_keeps_its_version(browser: Client) -> None:
    url = "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21"
    save(browser, kind="azure", base_url=url, model="d", secret=KEY)

    assert Connection.objects.get().base_url == url


def test_a_stored_key_does_not_follow_a_change_of_kind_to_another_host(browser: Client) -> None:
    save(browser, kind="openai", model="m", secret=KEY)

    body = save(browser, kind="ollama", model="m")

    assert "The stored key was entered for another URL" in body


@pytest.mark.parametrize(
    ("stored", "now", "kind"),
    [
        ("https://api.openai.com/v1", "https://gateway.example/v1", "compatible"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:11434/v1", "ollama"),
        ("http://127.0.0.1:11434/v1", "http://box.example:11434/v1", "ollama"),
        ("http://127.0.0.1:11434/v1", "http://127.0.0.1:8080/v1", "ollama"),
        ("http://127.0.0.1:11434/v1", "https://gateway.example/v1", "compatible"),
        ("http://127.0.0.1:11434/v1", "", "ollama"),
    ],
)
def test_the_provider_follows_a_change_of_only_the_url(
    browser: Client, stored: str, now: str, kind: str
) -> None:
    save(browser, base_url=stored, model="m")
    before = ModelForm(row=connections.stored("model")).initial["kind"]

    save(browser, kind=before, base_url=now, model="m")

    assert connections.stored("model").profile["kind"] == kind


def test_a_provider_selected_for_a_url_stays(browser: Client) -> None:
    save(browser, kind="openai", model="m")
    save(browser, kind="vllm", base_url="http://gateway.example/v1", model="m")
    save(browser, kind="vllm", base_url="http://gateway.example/v2", model="m")

    assert connections.stored("model").profile["kind"] == "vllm"


def test_the_provider_is_requested_first_and_known_from_a_stored_address(browser: Client) -> None:
    form = ModelForm(row=connections.stored("model"))
    assert form.asks_for_provider
    assert "choose-first" in browser.get(PAGE).content.decode()

    save(browser, base_url="http://127.0.0.1:11434/v1", model="m")
    form = ModelForm(row=connections.stored("model"))
    assert (form.initial["kind"], form.asks_for_provider) == ("ollama", False)
    assert "choose-first" not in browser.get(PAGE).content.decode()


def test_a_rejected_form_without_a_provider_shows_its_fields(browser: Client) -> None:
    assert "choose-first" not in save(browser, base_url="http://h/v1", secret=KEY)


def test_every_kind_has_its_hint_on_the_page(browser: Client) -> None:
    body = browser.get(PAGE).content.decode()

    assert body.count('<p class="note hint-') == len(KINDS)
    assert "http://127.0.0.1:11434/v1" in body


# --- the models that an endpoint has ------------------------------------------------------------


def models(browser: Client, *, htmx: bool = True, **fields: str) -> str:
    data = {f"model-{field}": value for field, value in fields.items()}
    answer = browser.post(f"{PAGE}model/names/", data, headers=HTMX if htmx else {})
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_the_endpoints_models_are_offered_before_anything_is_saved(
    browser: Client, httpserver: HTTPServer
) -> None:
    listed = {"data": [{"id": "small"}, {"id": "<large>"}]}
    httpserver.expect_request("/v1/models").respond_with_json(listed)

    body = models(browser, base_url=httpserver.url_for("/v1"), secret=KEY)

    assert '<option value="small">' in body
    assert '<option value="&lt;large&gt;">' in body
    assert httpserver.log[0][0].headers["Authorization"] == f"Bearer {KEY}"
    assert not Connection.objects.exists()


def test_without_javascript_the_list_comes_with_all_that_was_typed(
    browser: Client, httpserver: HTTPServer
) -> None:
    httpserver.expect_request("/v1/models").respond_with_json({"data": [{"id": "small"}]})

    body = models(
        browser, htmx=False, base_url=httpserver.url_for("/v1"), model="typed", secret=KEY
    )

    assert '<option value="small">' in body
    assert 'value="typed"' in body
    assert "Enter it again" in body
    assert KEY not in body


def test_a_stored_key_is_not_sent_to_another_host_to_list_its_models(
    browser: Client, httpserver: HTTPServer
) -> None:
    httpserver.expect_request("/v1/models").respond_with_json({"data": []})
    save(browser, base_url="http://h/v1", model="m", secret=KEY)

    body = models(browser, base_url=httpserver.url_for("/v1"))

    assert "listed no models" in body
    assert "Authorization" not in httpserver.log[0][0].headers


def test_the_environments_key_is_not_sent_to_an_address_that_is_typed(
    browser: Client, httpserver: HTTPServer, settings: Any
) -> None:
    settings.OPENAI_API_KEY, settings.BEACON_LLM_MODEL = KEY, "m"
    told = "ask your admin to set BEACON_LLM_BASE_URL"

    assert told in models(browser, base_url=httpserver.url_for("/v1"))
    assert told in save(browser, base_url=httpserver.url_for("/v1"))
    Connection.objects.create(kind="model", name="model", base_url=httpserver.url_for("/v1"))
    browser.post(f"{PAGE}model/test/")

    assert KEY not in str([asked.headers for asked, _answer in httpserver.log])
    assert "Saved" in save(browser, base_url="https://api.openai.com/v1")


@pytest.mark.parametrize(
    ("url", "told"),
    [("localhost:1", "starts with http"), ("http://127.0.0.1:1/v1", "callout bad")],
)
def test_a_list_that_cannot_be_had_is_explained(browser: Client, url: str, told: str) -> None:
    assert told in models(browser, base_url=url)
