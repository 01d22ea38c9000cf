"""The test button of a search service: its messages, its time limit, and no secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from beacon_site.net.http import Reply, ServiceHttp
from beacon_site.net.rate_limit import MinInterval
from beacon_site.providers.llm import probing
from beacon_site.providers.llm.probing import try_search
from beacon_site.providers.search.base import SearchProfile
from tests.providers.search_servers import SerpApiServer, result
from tests.providers.servers import slow, trickle

KEY = "probe-secret-0123456789"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[SerpApiServer]:
    with SerpApiServer([result(1), result(2)], key=KEY) as server:
        yield server


@pytest.fixture
def serp(endpoint: SerpApiServer) -> SerpApiServer:
    endpoint.forget()
    return endpoint


def test_it_says_what_came_and_searches_once(serp):
    outcome = try_search(serp.profile())

    assert (outcome.ok, outcome.count) == (True, 1)
    assert outcome.message == "SerpAPI responded. Its first result is “Result 1”."
    assert len(serp.asked) == 1


def test_a_refused_key_is_reported_and_not_shown(serp):
    outcome = try_search(serp.profile(key="wrong-key-99"))

    assert not outcome.ok and "Invalid API key: [key]" in outcome.message


@pytest.mark.parametrize("scene", [slow(3), trickle(3)])
def test_a_test_that_hangs_ends_with_a_clear_word(serp, monkeypatch, scene):
    monkeypatch.setattr(probing, "SEARCH_PROBE_PATIENCE", 0.5)
    serp.enqueue(scene)

    outcome = try_search(serp.profile())

    assert not outcome.ok and outcome.ms < 1500
    assert outcome.message.startswith("SerpAPI didn’t respond within 0.5 seconds.")


def test_a_turn_that_others_have_first_is_not_reported_as_the_vendors_fault(serp, monkeypatch):
    pace = MinInterval("SerpAPI", "127.0.0.1", seconds=3, patience=60)
    monkeypatch.setattr(ServiceHttp, "get", in_turn(pace, ServiceHttp.get))
    for _search in range(6):
        pace._reserved()

    outcome = try_search(serp.profile())

    assert not outcome.ok and outcome.ms < 2000 and not serp.asked
    assert outcome.message.startswith("SerpAPI allows one request every 3 seconds, and the next")


def in_turn(pace: MinInterval, get: Callable[..., Reply]) -> Callable[..., Reply]:
    def paced(http: ServiceHttp, url: str, params: Any, **more: Any) -> Reply:
        with pace.turn(url):
            return get(http, url, params, **more)

    return paced


@pytest.mark.parametrize(
    ("address", "word"),
    [
        ("127.0.0.1:8888", "starts with http"),
        ("serpapi.example", "starts with http"),
        ("ftp://serpapi.example", "starts with http"),
        ("http://", "has no host name"),
        ("http://[::1", "isn’t valid"),
        ("http://a.example:port", "isn’t valid"),
        (f"http://user:{KEY}@127.0.0.1:1", "username and password"),
        (f"http://127.0.0.1:1/?api_key={KEY}", "Remove the ? or #"),
        ("http://127.0.0.1:1", "can’t be reached"),
    ],
)
def test_a_wrong_address_is_explained_and_not_repeated(address, word):
    message = try_search(SearchProfile("serpapi", address, KEY)).message

    assert word in message
    assert KEY not in message


@pytest.mark.parametrize("tail", ["", "/", "/search", "/search.json", "/search.json/"])
def test_an_address_can_carry_the_path_or_a_closing_slash(serp, tail):
    assert try_search(serp.profile(base_url=serp.origin + tail)).ok


def test_an_address_with_another_path_is_distinguished(serp):
    message = try_search(serp.profile(base_url=serp.origin + "/v2")).message

    assert message == "SerpAPI wasn’t found at this URL (HTTP 404: Not found). Check the base URL."


def test_services_that_ask_no_one_say_so():
    assert try_search(SearchProfile("library")).ok
    assert try_search(SearchProfile("sample")).ok
    assert "enter its URL" in try_search(SearchProfile("feeds")).message


def test_an_unknown_service_is_named():
    assert "altavista" in try_search(SearchProfile("altavista")).message
