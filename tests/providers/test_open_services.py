"""Common tests of all search services without a key, with their loopback servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest

from beacon_site.net import http
from beacon_site.net.errors import ProviderError, ProviderRejected, ProviderUnavailable
from beacon_site.providers.search.answers import distinct
from beacon_site.providers.search.base import (
    SearchOptions,
    SearchProfile,
    SearchProvider,
    get_search,
)
from tests.providers.open_servers import OPEN_SERVERS, FeedServer
from tests.providers.scenarios import PATIENCE, SearchServer

QUERY = "postgres logical replication news 2026"
OUTCOMES = [
    ("ok", 3),
    ("empty", 0),
    ("unauthorized", ProviderRejected),
    ("rate", ProviderUnavailable),
    ("quota", ProviderRejected),
    ("slow", ProviderUnavailable),
    ("cut", ProviderUnavailable),
    ("500 then ok", ProviderUnavailable),
]


@pytest.fixture(scope="module")
def started() -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        servers = [stack.enter_context(server()) for server in (*OPEN_SERVERS, FeedServer)]
        yield {server.service: server for server in servers}


@pytest.fixture(params=[server.service for server in OPEN_SERVERS])
def server(request: pytest.FixtureRequest, started: dict[str, Any]) -> SearchServer:
    found = started[request.param]
    found.forget()
    found.results = []
    return found


@pytest.fixture
def provider(server: SearchServer, monkeypatch: pytest.MonkeyPatch) -> SearchProvider:
    monkeypatch.setattr(http, "PATIENCE", PATIENCE)
    return get_search(server.profile())


@pytest.fixture
def feed_server(started: dict[str, Any]) -> FeedServer:
    found: FeedServer = started["feeds"]
    found.forget()
    found.results = []
    return found


def outcome_of(provider: SearchProvider, options: SearchOptions) -> Any:
    """Return how many hits there were, or the failure's kind."""
    try:
        return len(provider.search(QUERY, options))
    except ProviderError as exc:
        assert str(exc)
        return ProviderRejected if isinstance(exc, ProviderRejected) else ProviderUnavailable


@pytest.mark.parametrize(("scenario", "outcome"), [*OUTCOMES, ("html", ProviderUnavailable)])
def test_each_scenario_comes_out_as_hits_or_one_of_two_failures(
    server, provider, scenario, outcome
):
    server.play(scenario)

    assert outcome_of(provider, SearchOptions()) == outcome
    assert len(server.asked) == 1  # the caller decides about further tries


@pytest.mark.parametrize(("scenario", "outcome"), [*OUTCOMES, ("html", ProviderRejected)])
def test_each_scenario_of_a_feed_has_the_same_outcome(feed_server, scenario, outcome):
    feed_server.play(scenario)

    assert outcome_of(feed_server.provider(), feed_server.options()) == outcome


def test_a_feed_that_failed_is_asked_again(feed_server):
    feed_server.play("500 then ok")
    provider = feed_server.provider()
    outcome_of(provider, feed_server.options())

    assert outcome_of(provider, feed_server.options()) == 3


def test_a_service_that_failed_is_asked_again(server, provider):
    server.play("500 then ok")
    outcome_of(provider, SearchOptions())

    assert [hit.rank for hit in provider.search(QUERY, SearchOptions())] == [1, 2, 3]


def test_queries_that_come_down_to_the_same_are_asked_once(server, provider):
    server.play("ok")
    queries = [QUERY, "Postgres logical replication latest November 2026", QUERY] * 3
    found: list[Any] = []

    def ask(query: str) -> None:
        found.append(provider.search(query.casefold(), SearchOptions()))

    threads = [threading.Thread(target=ask, args=(query,)) for query in queries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(server.asked) == 1
    assert [len(hits) for hits in found] == [3] * 9


def test_of_queries_that_are_one_question_the_first_is_asked(provider):
    queries = [f"{QUERY} latest", "tidal power", QUERY, "Tidal power news since 2026-11-01"]

    asked = distinct(provider, queries, SearchOptions())

    assert asked == queries[:2]


def test_a_service_that_takes_queries_as_they_are_is_asked_each(feed_server):
    queries = ["tidal power", "tidal power news"]

    assert distinct(feed_server.provider(), queries, SearchOptions()) == queries


ORDERS = {
    "arxiv": ("relevance", "submittedDate"),
    "gdelt": ("hybridrel", "datedesc"),
    "hackernews": ("/api/v1/search", "/api/v1/search_by_date"),
}


def test_a_topic_that_was_researched_before_gets_the_newest(server, provider):
    server.play("ok")
    provider.search(QUERY, SearchOptions())
    get_search(server.profile()).search(QUERY, SearchOptions(last_asked=datetime.now(UTC)))

    told = [asked.get("sortBy") or asked.get("sort") or asked.path for asked in server.asked]
    assert tuple(told) == ORDERS.get(server.service, ("/w/api.php", "/w/api.php"))


def test_another_limit_is_another_question(server, provider):
    server.play("ok")

    assert len(provider.search(QUERY, SearchOptions(limit=2))) == 2
    assert len(provider.search(QUERY, SearchOptions(limit=10))) == 3


def test_the_service_learns_whom_to_write_to(server):
    server.play("ok")
    profile = SearchProfile(server.service, server.origin, "", "ops@beacon.example")
    get_search(profile).search(QUERY, SearchOptions())

    assert server.asked[0].headers["user-agent"].endswith("(ops@beacon.example)")


@pytest.mark.parametrize("tail", ["", "/", "path", "path/"])
def test_a_base_url_can_carry_the_path_already(server, tail):
    server.play("ok")
    get_search(server.profile()).search(QUERY, SearchOptions())
    base = server.origin + tail.replace("path", server.asked[0].path)

    assert len(get_search(server.profile(base_url=base)).search(QUERY, SearchOptions())) == 3


@pytest.mark.parametrize("base", ["nonsense", "http://", "http://u:secret@127.0.0.1/", "ftp://a.b"])
def test_a_base_url_that_is_none_is_explained_and_not_repeated(server, base):
    with pytest.raises(ProviderRejected, match="base URL") as told:
        get_search(server.profile(base_url=base)).search(QUERY, SearchOptions())
    assert "secret" not in str(told.value)


def test_a_query_without_a_word_asks_nothing(server, provider):
    try:
        assert provider.search("?! …", SearchOptions()) == []
    except ProviderRejected as exc:
        assert "GDELT requires words" in str(exc)
    assert server.asked == []


def test_texts_are_clean(server, provider):
    server.results = [server.result(1, title="a\n b &amp; <i>c</i>")]

    hit = provider.search(QUERY, SearchOptions())[0]

    assert "\n" not in hit.title and hit.service == server.service
