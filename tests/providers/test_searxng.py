"""SearXNG against a loopback server that answers as a real one does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.providers.llm.probing import try_search
from beacon_site.providers.search.base import SearchOptions, SearchProfile, get_search
from beacon_site.providers.search.searxng import SearxngSearch
from tests.providers.loopback import cut, html, json_answer, status
from tests.providers.search_servers import SearxngServer


@pytest.fixture(scope="module")
def endpoint() -> Iterator[SearxngServer]:
    with SearxngServer() as server:
        yield server


@pytest.fixture
def searx(endpoint: SearxngServer) -> SearxngServer:
    endpoint.forget()
    endpoint.results = [SearxngServer.result(number) for number in range(1, 26)]
    return endpoint


@pytest.fixture
def search(searx: SearxngServer) -> SearxngSearch:
    return SearxngSearch(searx.profile())


def test_results_become_hits(search, searx):
    searx.results[0]["publishedDate"] = "2026-03-04T10:00:00"

    hits = search.search("solid-state batteries", SearchOptions(limit=2))

    assert [(hit.rank, hit.url[-2:]) for hit in hits] == [(1, "/1"), (2, "/2")]
    assert (hits[0].title, hits[0].snippet) == ("Result 1", "What result 1 says.")
    assert [hit.published_at for hit in hits] == [date(2026, 3, 4), None]


def test_pages_are_counted_from_one_until_there_are_enough(search, searx):
    hits = search.search("x", SearchOptions(limit=22))

    assert [hit.rank for hit in hits] == list(range(1, 23))
    assert [asked["pageno"] for asked in searx.asked] == ["1", "2", "3"]


def test_pages_end_with_the_first_that_brings_nothing_new(search, searx):
    searx.results = [SearxngServer.result(1)] * 40

    assert len(search.search("x", SearchOptions(limit=30))) == 1
    assert len(searx.asked) == 2


def test_it_is_asked_for_json_and_nothing_that_was_not_wanted(search, searx):
    search.search("a b", SearchOptions())

    assert searx.asked[0] == {"q": "a b", "format": "json", "pageno": "1"}


@pytest.mark.parametrize(
    ("code", "language"),
    [("de", "de"), ("pt-BR", "pt-BR"), ("zh_cn", "zh-CN"), ("zh-Hant", "zh"), ("x-klingon", None)],
)
def test_a_language_is_sent_if_searxng_takes_it(search, searx, code, language):
    search.search("x", SearchOptions(languages=(code, "fr")))

    assert searx.asked[0].get("language") == language


@pytest.mark.parametrize(
    ("days", "reach"),
    [(0, "day"), (1, "day"), (2, "week"), (30, "month"), (60, "year"), (800, None)],
)
def test_the_time_range_is_the_shortest_that_reaches_back(search, searx, days, reach):
    search.search("x", SearchOptions(since=datetime.now(UTC).date() - timedelta(days=days)))

    assert searx.asked[0].get("time_range") == reach


def test_results_that_are_older_all_the_same_are_left_out(search, searx):
    searx.results[0]["publishedDate"] = "2019-03-04"

    hits = search.search("x", SearchOptions(since=date(2026, 1, 1), limit=2))

    assert [hit.url[-2:] for hit in hits] == ["/2", "/3"]


def test_a_word_of_a_query_is_never_a_command(search, searx):
    search.search("!!g :de <5 ?what c++ a!b", SearchOptions())

    assert searx.asked[0]["q"] == "g de 5 what c++ a!b"


def test_json_that_is_not_enabled_is_explained_with_the_place_to_enable_it(search, searx):
    searx.json = False

    with pytest.raises(ProviderRejected, match=r"“json” to search.formats .* settings\.yml"):
        search.search("x", SearchOptions())


def test_engines_that_did_not_answer_are_named_once_where_nothing_was_found(search, searx):
    searx.results = []
    searx.unresponsive = [["google", "timeout"], ["brave", "too many requests"], ["odd"]]

    assert search.search("x", SearchOptions()) == search.search("y", SearchOptions()) == []
    begins = "SearXNG found nothing, and some of its engines didn’t respond"
    assert search.warnings == [f"{begins}: google (timeout); brave (too many requests); odd."]


def test_engines_that_did_not_answer_are_no_matter_where_others_found_something(search, searx):
    searx.unresponsive = [["google", "timeout"]]

    assert search.search("x", SearchOptions())
    assert search.warnings == []


def test_nothing_found_is_an_empty_list(search, searx):
    searx.results = []

    assert search.search("x", SearchOptions()) == search.warnings == []


@pytest.mark.parametrize(
    ("scene", "kind", "words"),
    [
        (status(400, "Invalid value"), ProviderRejected, "rejected the search"),
        (html(401), ProviderRejected, "rejected the search .*need a key"),
        (html(403), ProviderRejected, "settings.yml"),
        (html(404), ProviderRejected, "wasn’t found at this URL"),
        (html(429), ProviderUnavailable, "rate limit"),
        (html(502), ProviderUnavailable, "502"),
        (status(302), ProviderRejected, "redirects"),
        (html(), ProviderUnavailable, "didn’t return JSON"),
        (cut(), ProviderUnavailable, "was lost"),
        (lambda _: json_answer({"ok": 1}), ProviderUnavailable, "unknown format"),
        (lambda _: json_answer({"results": {}}), ProviderUnavailable, "unknown format"),
    ],
)
def test_each_failure_has_its_kind_and_is_asked_once(search, searx, scene, kind, words):
    searx.enqueue(scene)

    with pytest.raises(kind, match=words):
        search.search("x", SearchOptions())
    assert len(searx.asked) == 1


def test_without_an_address_it_says_where_to_enter_one():
    with pytest.raises(ProviderRejected, match="SEARXNG_BASE_URL"):
        get_search(SearchProfile("searxng")).search("x", SearchOptions())


@pytest.mark.parametrize("tail", ["", "/", "/search", "/search/"])
def test_a_base_url_can_carry_the_path_or_a_closing_slash(searx, tail):
    assert try_search(searx.profile(base_url=searx.origin + tail)).ok
    assert searx.asked[0].path == "/search"


def test_a_folder_in_the_base_url_is_kept_for_servers_behind_a_proxy(searx):
    outcome = try_search(searx.profile(base_url=searx.origin + "/searxng/"))

    assert searx.asked[0].path == "/searxng/search"
    assert "wasn’t found at this URL" in outcome.message


def test_the_test_button_shows_what_the_engines_said(searx):
    searx.results, searx.unresponsive = [], [["google", "timeout"]]

    assert "google (timeout)" in try_search(searx.profile()).message
