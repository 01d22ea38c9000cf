"""Hacker News against a loopback server that answers as Algolia does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pytest

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.providers.search.base import SearchOptions, SearchProfile
from beacon_site.providers.search.hackernews import HackerNewsSearch
from tests.providers.loopback import json_answer
from tests.providers.open_servers import HackerNewsServer

ITEM = "https://news.ycombinator.com/item?id=40000001"


@pytest.fixture(scope="module")
def started() -> Iterator[HackerNewsServer]:
    with HackerNewsServer() as server:
        yield server


@pytest.fixture
def news(started: HackerNewsServer) -> HackerNewsServer:
    started.forget()
    started.results = [HackerNewsServer.result(number) for number in range(1, 251)]
    return started


@pytest.fixture
def search(news: HackerNewsServer) -> HackerNewsSearch:
    return HackerNewsSearch(SearchProfile("hackernews", news.origin))


def test_stories_are_requested_by_the_words_of_the_subject(search, news):
    search.search("postgres logical replication news 2026", SearchOptions())

    assert news.asked[0].path == "/api/v1/search"
    assert news.asked[0] == {
        "query": "postgres logical replication",
        "tags": "story",
        "hitsPerPage": "10",
        "page": "0",
    }


def test_within_a_time_frame_the_newest_come_first(search, news):
    search.search("postgres", SearchOptions(since=date(2026, 11, 1)))

    assert news.asked[0].path == "/api/v1/search_by_date"
    assert news.asked[0]["numericFilters"] == "created_at_i>=1793491200"


def test_a_quoted_phrase_stays_one(search, news):
    search.search('"logical replication" postgres', SearchOptions())

    assert news.asked[0]["query"] == '"logical replication" postgres'
    assert news.asked[0]["advancedSyntax"] == "true"


def test_a_story_leads_to_what_it_links_to(search):
    hit = search.search("postgres", SearchOptions(limit=1))[0]

    assert hit.url == "https://news.example.org/1"
    assert hit.published_at == date(2026, 11, 20)


@pytest.mark.parametrize("url", [None, "", "javascript:alert(1)"])
def test_a_story_that_links_nowhere_leads_to_its_discussion(search, news, url):
    asked = {"url": url, "story_text": "<p>I wonder &amp; ask"}
    news.results = [HackerNewsServer.result(1, **asked)]

    hit = search.search("postgres", SearchOptions())[0]

    assert (hit.url, hit.snippet) == (ITEM, "I wonder & ask")


def test_one_without_an_address_or_a_number_is_left_out(search, news):
    news.results = [HackerNewsServer.result(1, url=None, objectID="x/../y"), "junk"]

    assert search.search("postgres", SearchOptions()) == []


def test_pages_are_requested_until_there_are_enough(search, news):
    hits = search.search("postgres", SearchOptions(limit=220))

    assert [hit.rank for hit in hits] == list(range(1, 221))
    assert [asked["page"] for asked in news.asked] == ["0", "1", "2"]


def test_the_last_page_ends_the_search(search, news):
    assert len(search.search("postgres", SearchOptions(limit=1000))) == 250
    assert len(news.asked) == 3


def test_stories_from_before_are_left_out_even_if_they_come(search, news):
    news.results = [
        HackerNewsServer.result(1, created_at="2020-01-01T00:00:00Z"),
        HackerNewsServer.result(2),
    ]

    hits = search.search("postgres", SearchOptions(since=date(2026, 11, 1)))

    assert [hit.title for hit in hits] == ["Result 2"]


def test_a_filter_that_it_refuses_is_reported_in_its_words(search, news):
    body = {"message": "invalid numeric attribute(created_at_x)", "status": 400}
    news.enqueue(lambda _request: json_answer(body, 400))

    with pytest.raises(ProviderRejected, match="invalid numeric attribute"):
        search.search("postgres", SearchOptions())


@pytest.mark.parametrize("body", [{}, {"hits": "x"}])
def test_json_that_is_not_algolias_is_reported(search, news, body):
    news.enqueue(lambda _request: json_answer(body))

    with pytest.raises(ProviderUnavailable, match="unknown format"):
        search.search("postgres", SearchOptions())
