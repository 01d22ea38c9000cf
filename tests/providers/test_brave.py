"""Brave Search against a loopback server that answers as the vendor documents."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, date, datetime

import pytest

from beacon_site.net.errors import (
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    ServiceRefused,
)
from beacon_site.providers.search.base import SearchOptions, SearchProfile, get_search
from beacon_site.providers.search.brave import PACE, BraveSearch
from tests.providers.loopback import cut, html, json_answer, status
from tests.providers.search_servers import BraveServer, brave_error

KEY = BraveServer.key


@pytest.fixture(scope="module")
def endpoint() -> Iterator[BraveServer]:
    with BraveServer() as server:
        yield server


@pytest.fixture
def brave(endpoint: BraveServer) -> BraveServer:
    endpoint.forget()
    endpoint.results = [BraveServer.result(number) for number in range(1, 46)]
    return endpoint


@pytest.fixture
def search(brave: BraveServer) -> BraveSearch:
    return BraveSearch(brave.profile())


def test_results_become_hits(search, brave):
    brave.results[0] |= {"page_age": "2026-03-04T10:00:00", "age": "March 4, 2026"}

    hits = search.search("solid-state batteries", SearchOptions(limit=2))

    assert [(hit.rank, hit.url[-2:]) for hit in hits] == [(1, "/1"), (2, "/2")]
    assert hits[0].snippet == "What result 1 says."
    assert [hit.published_at for hit in hits] == [date(2026, 3, 4), None]
    assert hits[0].service == "brave"


def test_pages_are_counted_from_zero_until_there_are_enough(search, brave):
    hits = search.search("x", SearchOptions(limit=42))

    assert [hit.rank for hit in hits] == list(range(1, 43))
    assert [(asked["offset"], asked["count"]) for asked in brave.asked] == [
        ("0", "20"),
        ("1", "20"),
        ("2", "20"),
    ]


def test_pages_end_where_brave_says_so_and_after_ten_at_most(search, brave):
    assert len(search.search("x", SearchOptions(limit=300))) == 45
    assert len(brave.asked) == 3
    brave.forget()
    brave.results = [BraveServer.result(number) for number in range(1, 500)]
    assert len(search.search("x", SearchOptions(limit=300))) == 200
    assert [asked["offset"] for asked in brave.asked] == list("0123456789")


def test_nothing_found_has_no_web_part_and_is_an_empty_list(search, brave):
    brave.results = []

    assert search.search("x", SearchOptions()) == []


@pytest.mark.parametrize(
    ("code", "language", "country"),
    [
        ("en", "en", "ALL"),
        ("en-GB", "en-gb", "GB"),
        ("en-US", "en", "US"),
        ("de", "de", "ALL"),
        ("de_AT", "de", "AT"),
        ("ja", "jp", "ALL"),
        ("zh", "zh-hans", "ALL"),
        ("zh-TW", "zh-hant", "TW"),
        ("zh-Hant", "zh-hant", "ALL"),
        ("pt", "pt-pt", "ALL"),
        ("pt-BR", "pt-br", "BR"),
        ("no", "nb", "ALL"),
        ("eo", None, "ALL"),
    ],
)
def test_languages_go_by_braves_own_names(search, brave, code, language, country):
    search.search("x", SearchOptions(languages=(code, "fr")))

    assert (brave.asked[0].get("search_lang"), brave.asked[0]["country"]) == (language, country)


def test_without_a_language_or_time_frame_none_is_sent(search, brave):
    search.search("x", SearchOptions())

    assert brave.asked[0] == {"q": "x", "count": "10", "offset": "0", "result_filter": "web"}


def test_a_time_frame_is_sent_as_a_range_of_days_and_older_hits_are_left_out(search, brave):
    brave.results[0]["page_age"] = "2019-03-04T10:00:00"

    hits = search.search("x", SearchOptions(since=date(2026, 1, 2)))

    today = datetime.now(UTC).date().isoformat()
    assert brave.asked[0]["freshness"] == f"2026-01-02to{today}"
    assert [hit.url[-2:] for hit in hits][:2] == ["/2", "/3"]


def test_a_query_is_cut_to_fifty_words(search, brave):
    search.search("word " * 70, SearchOptions())

    assert len(brave.asked[0]["q"].split()) == 50


def limited(detail: str, headers: dict[str, str]):
    return brave_error(429, "RATE_LIMITED", detail, headers)


@pytest.mark.parametrize(
    ("headers", "kind", "words"),
    [
        (BraveServer.limits("0, 1985", "1, 864000"), ProviderUnavailable, "rate limit"),
        (BraveServer.limits("1, 0", "1, 864000"), ProviderRejected, "resets in 10 days"),
        (BraveServer.limits("0, 0", "1, 864000"), ProviderRejected, "resets in 10 days"),
        (BraveServer.limits("1, 0", "1, 80000"), ProviderRejected, r"resets in 1 day\)"),
        # A plan paid by use has no limit of the month, told as 0.
        (BraveServer.limits("0, 0", "1, 864000", "50, 0"), ProviderUnavailable, "rate limit"),
        ({}, ProviderUnavailable, "rate limit"),
        ({"X-RateLimit-Remaining": "soon"}, ProviderUnavailable, "rate limit"),
    ],
)
def test_the_second_is_waited_for_and_the_month_is_not(search, brave, headers, kind, words):
    brave.enqueue(limited("limit exceeded", headers))

    with pytest.raises(kind, match=words) as failure:
        search.search("x", SearchOptions())
    assert getattr(failure.value, "retry_after", 1) == 1


def test_a_used_up_plan_without_headers_is_known_by_its_words(search, brave):
    brave.enqueue(limited("Request quota exceeded", {}))

    with pytest.raises(ProviderRejected, match=r"no searches left .*quota exceeded\)"):
        search.search("x", SearchOptions())


NO_TOKEN = {"error": {"code": "VALIDATION", "meta": {"loc": ["header", "x-subscription-token"]}}}


@pytest.mark.parametrize(
    ("scene", "kind", "words"),
    [
        (brave_error(422, "SUBSCRIPTION_TOKEN_INVALID", "no", {}), ServiceRefused, "HTTP 422: no"),
        (lambda _: json_answer(NO_TOKEN, 422), ProviderRejected, "rejected the key"),
        (
            brave_error(422, "VALIDATION", "bad q", {}),
            ProviderRejected,
            "rejected the search .*bad q",
        ),
        (status(401), ProviderRejected, "rejected the key"),
        (status(403), ProviderRejected, "rejected the key"),
        (status(404), ProviderRejected, "wasn’t found at this URL"),
        (status(500), ProviderUnavailable, "500"),
        (html(), ProviderUnavailable, "didn’t return JSON"),
        (cut(), ProviderUnavailable, "was lost"),
        (lambda _: json_answer({"ok": 1}), ProviderUnavailable, "unknown format"),
        (lambda _: json_answer({"web": {"results": 5}}), ProviderUnavailable, "unknown format"),
    ],
)
def test_each_failure_has_its_kind_and_is_asked_once(search, brave, scene, kind, words):
    brave.enqueue(scene)

    with pytest.raises(kind, match=words):
        search.search("x", SearchOptions())
    assert len(brave.asked) == 1


@pytest.mark.requirement("R236")
def test_the_key_reaches_the_service_and_nothing_else(search, brave, caplog):
    caplog.set_level(logging.DEBUG)
    leaky = BraveServer.result(1, title=f"t {KEY}", description=KEY, extra=[KEY])
    brave.results = [leaky, BraveServer.result(2, url=f"https://a.example/?k={KEY}")]
    hits = search.search("x", SearchOptions())
    brave.enqueue(brave_error(422, "SUBSCRIPTION_TOKEN_INVALID", f"no such token {KEY}", {}))
    with pytest.raises(ProviderError) as failure:
        search.search("x", SearchOptions())

    assert brave.asked[0].headers["x-subscription-token"] == KEY
    assert [hit.url for hit in hits] == ["https://news.example.org/1"]
    shown = f"{hits} {failure.value!r} {failure.value.__context__!r} {caplog.text} {brave.asked}"
    assert KEY not in shown and "[key]" in shown


def test_without_a_key_the_vendor_is_not_asked():
    with pytest.raises(ProviderRejected, match="BRAVE_API_KEY"):
        get_search(SearchProfile("brave")).search("x", SearchOptions())


def test_the_vendor_alone_is_asked_once_a_second(brave):
    assert PACE.covers("https://api.search.brave.com/res/v1/web/search")
    assert not PACE.covers(brave.origin)


@pytest.mark.parametrize("tail", ["", "/", "/res/v1", "/res/v1/web/search", "/res/v1/web/search/"])
def test_a_base_url_can_carry_the_path_or_a_closing_slash(brave, tail):
    search = get_search(brave.profile(base_url=brave.origin + tail))

    assert search.search("x", SearchOptions(limit=1))
    assert brave.asked[0].path == "/res/v1/web/search"
