"""Connections: outside services, for staff."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_httpserver import HTTPServer

from memory.models import Activity, Connection, User

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


def test_without_a_model_the_page_tells_what_works(browser: Client) -> None:
    body = browser.get(PAGE).content.decode()

    assert "No model is set up: here is what works" in body
    assert "Need no key" in body


def test_a_model_is_saved_with_its_key_and_prices(browser: Client) -> None:
    save(browser, base_url="http://h/v1/", model="m", secret=KEY, price_in="0.15")

    row = Connection.objects.get()
    assert (row.base_url, row.model, row.prices) == ("http://h/v1", "m", {"in": "0.15"})
    assert row.reveal_secret() == KEY


@pytest.mark.requirement("R236")
def test_a_stored_key_is_shown_by_its_last_four_characters_alone(browser: Client) -> None:
    body = save(browser, base_url="http://h/v1", model="m", secret=KEY)

    assert "ends in …1234" in body
    assert KEY not in body
    assert KEY not in str(Activity.objects.values())


def test_an_empty_key_keeps_the_stored_one_and_a_checkbox_removes_it(browser: Client) -> None:
    save(browser, base_url="http://h/v1", model="m", secret=KEY)
    save(browser, base_url="http://h/v1", model="other")
    assert Connection.objects.get().reveal_secret() == KEY

    save(browser, base_url="http://h/v1", model="other", remove_secret="on")
    assert Connection.objects.get().secret == ""


def test_a_stored_key_does_not_go_to_another_address(browser: Client) -> None:
    save(browser, base_url="http://h/v1", model="m", secret=KEY)

    body = save(browser, base_url="http://elsewhere/v1", model="m")

    assert "The stored key was given for another address" in body
    assert Connection.objects.get().base_url == "http://h/v1"


def test_over_htmx_the_section_comes_back_alone(browser: Client) -> None:
    body = save(browser, "serpapi", htmx=True, secret=KEY, engine="google_news")

    assert body.lstrip().startswith('<section id="connection_serpapi"')
    assert Connection.objects.get().profile["engine"] == "google_news"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("localhost:11434", "begins with http:// or https://"),
        ("ftp://h/v1", "begins with http:// or https://"),
        ("http://", "names no host"),
        ("http://h:port/v1", "cannot be read"),
        ("http://[::1/v1", "cannot be read"),
        ("http://me:secret@h/v1", "Leave name and password out"),
        ("http://h/v1?key=1", "what follows ? or #"),
        ("http://h/v1/chat/completions", "Leave out /chat/completions"),
    ],
)
def test_a_bad_address_is_explained(browser: Client, url: str, told: str) -> None:
    assert told in save(browser, base_url=url, model="m")
    assert not Connection.objects.exists()


def test_a_key_without_a_model_asks_for_the_model(browser: Client) -> None:
    assert "Name the model too" in save(browser, secret=KEY)


def test_the_environment_makes_its_fields_read_only(browser: Client, settings: Any) -> None:
    settings.BEACON_LLM_BASE_URL = "http://environment/v1"
    settings.OPENAI_API_KEY = KEY
    settings.BEACON_LLM_MODEL = "fixed"

    body = save(browser, base_url="http://mine/v1", secret="mine", model="mine", price_in="1")

    assert body.count("which wins over this page") == 3
    assert "http://environment/v1" in body
    assert KEY not in body
    row = Connection.objects.get()
    assert (row.base_url, row.model, row.secret) == ("", "", "")


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

    assert "It works" in body
    assert "ready" in body
    assert "tokens asked" in body
    assert httpserver.log[0][0].headers["Authorization"] == f"Bearer {KEY}"


def test_the_test_button_shows_the_models_real_error(
    browser: Client, httpserver: HTTPServer
) -> None:
    error = {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}
    httpserver.expect_request("/v1/chat/completions").respond_with_json(error, status=401)
    save(browser, base_url=httpserver.url_for("/v1"), model="m", secret=KEY)

    body = browser.post(f"{PAGE}model/test/").content.decode()

    assert "It does not work" in body
    assert "Incorrect API key provided" in body
    assert KEY not in body


def test_without_a_model_the_test_says_so(browser: Client) -> None:
    body = browser.post(f"{PAGE}model/test/", headers=HTMX).content.decode()

    assert "No model is set up" in body


def test_serpapi_is_tested_with_the_stored_key(browser: Client, httpserver: HTTPServer) -> None:
    found = {"organic_results": [{"link": "https://example.org/", "title": "An example"}]}
    httpserver.expect_request("/search.json").respond_with_json(found)
    save(browser, "serpapi", base_url=httpserver.url_for(""), secret=KEY)

    body = browser.post(f"{PAGE}serpapi/test/", headers=HTMX).content.decode()

    assert "An example" in body
    assert httpserver.log[0][0].args["api_key"] == KEY


def test_a_feed_is_read_as_a_run_would(
    browser: Client, httpserver: HTTPServer, settings: Any
) -> None:
    settings.BEACON_FETCH_ALLOW_HOSTS = frozenset({f"{httpserver.host}:{httpserver.port}"})
    feed = "<rss version='2.0'><channel><title>F</title><item><title>First</title>"
    feed += "<link>https://example.org/1</link></item></channel></rss>"
    httpserver.expect_request("/feed").respond_with_data(feed, content_type="application/rss+xml")

    body = browser.post(f"{PAGE}feeds/test/", {"url": httpserver.url_for("/feed")}, headers=HTMX)

    assert "The feed has one entry: “First”." in body.content.decode()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("file:///etc/passwd", "begins with http:// or https://"),
        ("http://127.0.0.1/", "such addresses are not opened"),
    ],
)
def test_a_feed_that_may_not_be_read_is_explained(browser: Client, url: str, told: str) -> None:
    body = browser.post(f"{PAGE}feeds/test/", {"url": url}).content.decode()

    assert told in body


@pytest.mark.parametrize("address", ["", "model/", "model/test/", "feeds/test/"])
def test_for_who_is_no_staff_there_are_no_connections(
    alice: User, client_of: Callable[[User], Client], address: str
) -> None:
    browser = client_of(alice)
    ask = browser.post if address else browser.get

    assert ask(PAGE + address).status_code == 404


def test_there_is_no_connection_of_another_name(browser: Client) -> None:
    assert browser.post(f"{PAGE}altavista/").status_code == 404
    assert browser.post(f"{PAGE}altavista/test/").status_code == 404


def test_the_page_asks_a_fixed_number_of_queries(
    browser: Client, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(9):
        browser.get(PAGE)
