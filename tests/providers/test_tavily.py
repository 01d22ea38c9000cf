"""Tavily against a loopback server that answers as the vendor documents."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import date

import pytest

from beacon_site.net.errors import ProviderError, ProviderRejected, ProviderUnavailable
from beacon_site.providers.search.base import SearchOptions, SearchProfile, get_search
from beacon_site.providers.search.tavily import TavilySearch
from tests.providers.loopback import cut, html, json_answer, status
from tests.providers.search_servers import TavilyServer, told

KEY = TavilyServer.key


@pytest.fixture(scope="module")
def endpoint() -> Iterator[TavilyServer]:
    with TavilyServer() as server:
        yield server


@pytest.fixture
def tavily(endpoint: TavilyServer) -> TavilyServer:
    endpoint.forget()
    endpoint.results = [TavilyServer.result(number) for number in range(1, 26)]
    return endpoint


@pytest.fixture
def search(tavily: TavilyServer) -> TavilySearch:
    return TavilySearch(tavily.profile())


def test_results_become_hits(search, tavily):
    hits = search.search("solid-state batteries", SearchOptions(limit=2))

    assert [(hit.rank, hit.url) for hit in hits] == [
        (1, "https://news.example.org/1"),
        (2, "https://news.example.org/2"),
    ]
    assert (hits[0].title, hits[0].snippet) == ("Result 1", "What result 1 says.")
    assert hits[0].service == "tavily"


def test_it_is_asked_by_post_with_what_the_topic_wants(search, tavily):
    search.search("a b", SearchOptions(limit=7, since=date(2026, 1, 2), languages=("de",)))

    assert tavily.asked[0].body == {
        "query": "a b",
        "search_depth": "basic",
        "topic": "general",
        "max_results": 7,
        "start_date": "2026-01-02",
    }
    assert tavily.asked[0] == {}  # nothing in the address, where proxies would log it


def test_who_asks_google_for_news_gets_news_with_their_days(search, tavily):
    dated = TavilyServer.result(1, published_date="Tue, 04 Mar 2025 10:00:00 GMT")
    tavily.results = [dated]

    hits = search.search("x", SearchOptions(engine="google_news"))

    assert tavily.asked[0].body["topic"] == "news"
    assert hits[0].published_at == date(2025, 3, 4)


def test_a_query_that_is_too_long_is_cut_behind_a_word(search, tavily):
    search.search("battery " * 80, SearchOptions())

    asked = tavily.asked[0].body["query"]
    assert 390 < len(asked) < 400 and asked.endswith(" battery")


@pytest.mark.parametrize("limit", [20, 50])
def test_no_more_than_twenty_are_requested_in_one_request(search, tavily, limit):
    assert len(search.search("x", SearchOptions(limit=limit))) == 20
    assert [asked.body["max_results"] for asked in tavily.asked] == [20]


def test_nothing_found_is_an_empty_list(search, tavily):
    tavily.results = []

    assert search.search("x", SearchOptions()) == []


@pytest.mark.parametrize(
    ("scene", "kind", "words"),
    [
        (told(400, "Query is too long."), ProviderRejected, "rejected the search .*too long"),
        (told(401, "Unauthorized: invalid"), ProviderRejected, "rejected the key .*401"),
        (told(429, "Too many"), ProviderUnavailable, "rate limit"),
        (told(432, "exceeds your plan"), ProviderRejected, "no searches left .*exceeds"),
        (told(433, "pay as you go"), ProviderRejected, "no searches left .*pay"),
        (status(433, {}), ProviderRejected, "no reason given"),
        (status(503), ProviderUnavailable, "isn’t available .*503"),
        (status(302), ProviderRejected, "redirects"),
        (html(), ProviderUnavailable, "didn’t return JSON"),
        (html(404), ProviderRejected, "wasn’t found at this URL"),
        (cut(), ProviderUnavailable, "was lost"),
        (lambda _: json_answer({"ok": True}), ProviderUnavailable, "unknown format"),
        (lambda _: json_answer({"results": "x"}), ProviderUnavailable, "unknown format"),
        (lambda _: json_answer([]), ProviderUnavailable, "didn’t return JSON"),
    ],
)
def test_each_failure_has_its_kind_and_is_asked_once(search, tavily, scene, kind, words):
    tavily.enqueue(scene)

    with pytest.raises(kind, match=words):
        search.search("x", SearchOptions())
    assert len(tavily.asked) == 1


def test_hits_that_no_reader_could_open_or_that_are_too_old_are_left_out(search, tavily):
    old = TavilyServer.result(3, published_date="2019-03-04")
    bad = [TavilyServer.result(4, url="javascript:alert(1)"), TavilyServer.result(5, url=None), 5]
    tavily.results = [old, *bad, TavilyServer.result(1), TavilyServer.result(1)]

    hits = search.search("x", SearchOptions(since=date(2026, 1, 1)))

    assert [(hit.rank, hit.url[-2:]) for hit in hits] == [(1, "/1")]


def test_a_snippet_fits_the_database(search, tavily):
    tavily.results = [TavilyServer.result(1, content="a\x00b", score=float("nan"))]

    assert search.search("x", SearchOptions())[0].snippet == "a b"


@pytest.mark.requirement("R236")
def test_the_key_reaches_the_service_and_nothing_else(search, tavily, caplog):
    caplog.set_level(logging.DEBUG)
    leaky = TavilyServer.result(1, title=f"t {KEY}", content=KEY, extra=[KEY])
    tavily.results = [leaky, TavilyServer.result(2, url=f"https://a.example/?k={KEY}")]
    hits = search.search("x", SearchOptions())
    tavily.enqueue(told(401, f"no such key: Bearer {KEY}"))
    with pytest.raises(ProviderError) as failure:
        search.search("x", SearchOptions())

    assert tavily.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert [hit.url for hit in hits] == ["https://news.example.org/1"]
    shown = f"{hits} {failure.value!r} {failure.value.__context__!r} {caplog.text} {tavily.asked}"
    assert KEY not in shown and "[key]" in shown


def test_without_a_key_the_vendor_is_not_asked():
    with pytest.raises(ProviderRejected, match="TAVILY_API_KEY"):
        get_search(SearchProfile("tavily")).search("x", SearchOptions())


@pytest.mark.parametrize("tail", ["", "/", "/search", "/search/"])
def test_a_base_url_can_carry_the_path_or_a_closing_slash(tavily, tail):
    search = get_search(tavily.profile(base_url=tavily.origin + tail))

    assert search.search("x", SearchOptions(limit=1))
    assert tavily.asked[0].path == "/search"
