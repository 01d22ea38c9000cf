"""Connections: external services, for admins."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_httpserver import HTTPServer

from beacon_site.providers.llm.probing import ProbeResult
from memory.models import Activity, Connection, User
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


def test_without_a_model_the_page_tells_what_works(browser: Client) -> None:
    body = browser.get(PAGE).content.decode()

    assert "Without a model" in body
    assert ">ready</span>" in state(body, "free")
    assert "Topics with no services selected use Feeds, Library." in body


def test_prices_are_requested_once_there_is_a_model(browser: Client) -> None:
    assert "model-price_in" not in browser.get(PAGE).content.decode()

    body = save(browser, base_url="http://h/v1", model="m")
    assert "model-price_in" in body and "not set, so costs are unknown" in body

    body = save(browser, base_url="http://h/v1", model="m", price_in="0.15", price_out="0.6")
    assert "USD 0.15 in, USD 0.6 out per million tokens" in body


@pytest.mark.parametrize("secret", ["k\r\nX-Evil: 1", "ключ-длинный"])
def test_a_key_that_no_header_can_carry_replaces_none(browser: Client, secret: str) -> None:
    save(browser, base_url="http://h/v1", model="m", secret=KEY)
    body = save(browser, base_url="http://h/v1", model="m", secret=secret)

    assert "The key contains invalid characters" in body
    assert connections.stored("model").reveal_secret() == KEY


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

    assert "The stored key was entered for another URL" in body
    assert Connection.objects.get().base_url == "http://h/v1"


def test_over_htmx_the_section_comes_back_alone(browser: Client) -> None:
    body = save(browser, "serpapi", htmx=True, secret=KEY, engine="google_news")

    assert '<details id="connection_serpapi" class="service" open>' in body
    assert "<html" not in body
    assert Connection.objects.get().profile["engine"] == "google_news"


def test_serpapi_is_tested_with_the_stored_key(browser: Client, httpserver: HTTPServer) -> None:
    found = {"organic_results": [{"link": "https://example.org/", "title": "An example"}]}
    httpserver.expect_request("/search.json").respond_with_json(found)
    save(browser, "serpapi", base_url=httpserver.url_for(""), secret=KEY)

    body = browser.post(f"{PAGE}serpapi/test/", headers=HTMX).content.decode()

    assert "An example" in body
    assert httpserver.log[0][0].args["api_key"] == KEY


@pytest.mark.parametrize("name", ["serpapi", "tavily", "brave"])
def test_the_environments_key_of_a_service_goes_to_no_address_that_is_typed(
    browser: Client, settings: Any, name: str
) -> None:
    settings.SEARCH_KEYS = settings.SEARCH_KEYS | {name: KEY}

    body = save(browser, name, base_url="http://127.0.0.1:1/typed")

    assert f"ask your admin to set {name.upper()}_BASE_URL" in body
    assert 'value="http://127.0.0.1:1/typed"' in body
    assert not Connection.objects.exists()


def test_the_folded_line_of_a_service_follows_its_test(
    browser: Client, httpserver: HTTPServer
) -> None:
    httpserver.expect_oneshot_request("/search.json").respond_with_data("no", status=401)
    found = {"organic_results": [{"link": "https://example.org/", "title": "An example"}]}
    httpserver.expect_request("/search.json").respond_with_json(found)
    save(browser, "serpapi", base_url=httpserver.url_for(""), secret=KEY)

    failed, worked = (
        browser.post(f"{PAGE}serpapi/test/", headers=HTMX).content.decode() for _try in range(2)
    )

    tag = '<span id="tested_serpapi" class="tag bad"'
    assert f'{tag}  hx-swap-oob="true">last test failed</span>' in failed
    assert f'{tag} hidden hx-swap-oob="true"></span>' in worked


# --- two people at once -------------------------------------------------------------------------


def version(browser: Client, name: str) -> str:
    return version_in(browser.get(PAGE).content.decode(), name)


def version_in(body: str, name: str) -> str:
    found = re.search(rf'name="{name}-version" value="(\w+)"', body)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("htmx", [False, True])
def test_what_another_set_in_the_meantime_is_shown_and_replaced_only_at_the_second_try(
    browser: Client, htmx: bool
) -> None:
    seen = version(browser, "model")
    save(browser, base_url="http://theirs/v1", model="theirs", kind="vllm")

    mine = {"base_url": "http://mine/v1", "model": "mine", "htmx": htmx}
    body = save(browser, **mine, version=seen)  # type: ignore[arg-type]

    assert "Someone else has changed these settings" in body
    assert "Provider: vLLM; Base URL: http://theirs/v1; Model: theirs" in body
    assert 'value="http://mine/v1"' in body
    assert Connection.objects.get().model == "theirs"
    again = version_in(body, "model")
    assert "Saved" in save(browser, **mine, version=again)  # type: ignore[arg-type]
    assert Connection.objects.get().model == "mine"


def test_a_test_made_in_the_meantime_stands_in_no_ones_way(browser: Client) -> None:
    save(browser, "brave", secret=KEY)
    seen = version(browser, "brave")
    connections.keep_test(connections.stored("brave"), ProbeResult(True, "", 1))

    assert "Saved" in save(browser, "brave", version=seen)


def test_a_change_between_the_look_and_the_lock_is_seen(admin: User) -> None:
    opened = connections.stored("brave")
    seen = connections.version_of(opened)
    connections.save(connections.stored("brave"), by=admin, new_secret=KEY)

    with pytest.raises(connections.ConnectionChanged):
        connections.save(opened, by=admin, new_secret="BSA-another-key", version=seen)

    assert connections.stored("brave").reveal_secret() == KEY


# --- search services ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in connections.SET_UP if name != "serpapi"])
def test_each_service_is_set_up_by_the_fields_that_it_has(browser: Client, name: str) -> None:
    service = connections.SET_UP[name]
    body = save(browser, name, base_url="http://127.0.0.1:8888/", secret=KEY)

    row = Connection.objects.get()
    assert (row.name, row.base_url) == (name, "http://127.0.0.1:8888")
    assert bool(row.secret) is bool(service.key_variable)
    assert (f'name="{name}-secret"' in body) is bool(service.key_variable)


def state(body: str, name: str) -> str:
    section = body[body.index(f'id="connection_{name}"') :]
    return " ".join(section[: section.index("</summary>")].split())


def test_each_service_shows_what_it_lacks(browser: Client, settings: Any) -> None:
    settings.SEARCH_KEYS = settings.SEARCH_KEYS | {"brave": KEY}

    body = browser.get(PAGE).content.decode()

    for name, words in {
        "tavily": "no key",
        "brave": "set up",
        "searxng": "no URL",
        "arxiv": "ready",
    }.items():
        assert f">{words}</span>" in state(body, name)
    assert "Set by the environment variable BRAVE_API_KEY" in body
    assert KEY not in body


def test_a_service_that_beacon_search_leaves_out_says_so(browser: Client, settings: Any) -> None:
    settings.BEACON_SEARCH = ["library"]

    assert "not in BEACON_SEARCH" in state(browser.get(PAGE).content.decode(), "arxiv")


def test_what_a_topic_without_a_choice_asks_is_in_order(browser: Client, settings: Any) -> None:
    settings.BEACON_SEARCH = ["hackernews", "library", "tavily"]

    body = browser.get(PAGE).content.decode()

    assert "Topics with no services selected use Hacker News, Library, Tavily." in body


def test_without_a_contact_the_page_tells_who_wants_one(browser: Client, settings: Any) -> None:
    assert "BEACON_CONTACT isn’t set" in browser.get(PAGE).content.decode()

    settings.BEACON_CONTACT = "ops@example.org"
    assert "ops@example.org" in browser.get(PAGE).content.decode()


def test_a_services_test_is_kept_and_shown_until_it_changes(
    browser: Client, httpserver: HTTPServer
) -> None:
    found = {"results": [{"url": "https://example.org/", "title": "An example", "content": "x"}]}
    httpserver.expect_request("/search").respond_with_json(found)
    save(browser, "tavily", base_url=httpserver.url_for(""), secret=KEY)

    assert "An example" in browser.post(f"{PAGE}tavily/test/", headers=HTMX).content.decode()

    assert "Last test succeeded" in browser.get(PAGE).content.decode()
    save(browser, "tavily", base_url=httpserver.url_for(""), secret="tvly-another-key-9876")
    assert "Last test, with the previous settings" in browser.get(PAGE).content.decode()


def test_a_services_refusal_is_shown_without_javascript_in_its_place(
    browser: Client, httpserver: HTTPServer
) -> None:
    error = {"detail": {"error": "Unauthorized: missing or invalid API key."}}
    httpserver.expect_request("/search").respond_with_json(error, status=401)
    save(browser, "tavily", base_url=httpserver.url_for(""), secret=KEY)

    body = browser.post(f"{PAGE}tavily/test/").content.decode()

    assert '<details id="connection_tavily" class="service" name="service" open>' in body
    assert "Test failed" in body
    assert "last test failed" in state(body, "tavily")
    assert KEY not in body


def test_a_service_without_its_key_says_what_is_missing(browser: Client) -> None:
    body = browser.post(f"{PAGE}brave/test/", headers=HTMX).content.decode()

    assert "Test failed" in body
    assert "BRAVE_API_KEY" in body


@pytest.mark.parametrize("url", ["me@h", "http://me@h", "http://h?q=1", "http:// h", "h:1"])
def test_a_bad_address_of_a_service_is_explained_and_kept(browser: Client, url: str) -> None:
    body = save(browser, "searxng", base_url=url)

    assert "errorlist" in body
    assert f'value="{url}"' in body
    assert not Connection.objects.exists()


def test_a_refused_form_says_that_the_key_is_not_shown_again(browser: Client) -> None:
    body = save(browser, "tavily", base_url="h", secret=KEY)

    assert "Enter it again" in body
    assert KEY not in body


# --- feeds --------------------------------------------------------------------------------------


def test_a_feed_is_read_as_a_run_would(
    browser: Client, httpserver: HTTPServer, settings: Any
) -> None:
    settings.BEACON_FETCH_ALLOW_HOSTS = frozenset({f"{httpserver.host}:{httpserver.port}"})
    feed = "<rss version='2.0'><channel><title>F</title><item><title>First</title>"
    feed += "<link>https://example.org/1</link></item></channel></rss>"
    httpserver.expect_request("/feed").respond_with_data(feed, content_type="application/rss+xml")

    body = browser.post(f"{PAGE}feeds/test/", {"url": httpserver.url_for("/feed")}, headers=HTMX)

    assert "The feed has 1 entry: “First”." in body.content.decode()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("file:///etc/passwd", "starts with http:// or https://"),
        ("http://127.0.0.1/", "Beacon won’t open it"),
    ],
)
def test_a_feed_that_cannot_be_read_is_explained(browser: Client, url: str, told: str) -> None:
    body = browser.post(f"{PAGE}feeds/test/", {"url": url}).content.decode()

    assert told in body


@pytest.mark.parametrize("address", ["", "model/", "model/test/", "model/names/", "feeds/test/"])
def test_for_who_isnt_an_admin_there_are_no_connections(
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
    with django_assert_max_num_queries(11):
        browser.get(PAGE)
