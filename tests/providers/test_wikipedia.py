"""Wikipedia against a loopback MediaWiki."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pytest

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.rate_limit import MaxConcurrent
from beacon_site.providers.search import wikipedia
from beacon_site.providers.search.base import SearchOptions, SearchProfile, get_search
from beacon_site.providers.search.wikipedia import WikipediaSearch
from tests.providers.loopback import json_answer
from tests.providers.open_servers import WikipediaServer, wikipedia_error


@pytest.fixture(scope="module")
def started() -> Iterator[WikipediaServer]:
    with WikipediaServer() as server:
        yield server


@pytest.fixture
def wiki(started: WikipediaServer) -> WikipediaServer:
    started.forget()
    started.path = "/w/api.php"
    started.results = [WikipediaServer.result(number) for number in range(1, 131)]
    return started


@pytest.fixture
def search(wiki: WikipediaServer) -> WikipediaSearch:
    return WikipediaSearch(SearchProfile("wikipedia", wiki.origin))


def test_the_words_of_the_subject_are_requested_as_wikimedia_wishes(search, wiki):
    search.search('"logical replication" in Postgres, latest news 2026', SearchOptions(limit=3))

    asked = wiki.asked[0]
    assert asked["srsearch"] == '"logical replication" Postgres'
    assert (asked["list"], asked["maxlag"], asked["formatversion"]) == ("search", "5", "2")
    assert (asked["srlimit"], asked["sroffset"]) == ("3", "0")


def test_an_article_is_a_hit_without_a_date_for_its_timestamp_is_an_edit(search, wiki):
    hit = search.search("postgres", SearchOptions(limit=1))[0]

    assert (hit.title, hit.snippet) == ("Result 1", "What result 1 says & means")
    assert hit.url == f"{wiki.origin}/wiki/Result_1"
    assert hit.published_at is None


def test_pages_are_requested_until_there_are_enough(search, wiki):
    hits = search.search("postgres", SearchOptions(limit=120))

    assert [hit.rank for hit in hits] == list(range(1, 121))
    assert [asked["sroffset"] for asked in wiki.asked] == ["0", "50", "100"]


def test_articles_that_no_one_edited_since_then_are_left_out(search, wiki):
    wiki.results[0]["timestamp"] = "2019-01-01T00:00:00Z"

    hits = search.search("postgres", SearchOptions(limit=2, since=date(2026, 11, 1)))

    assert [hit.title for hit in hits] == ["Result 2", "Result 3"]


@pytest.mark.parametrize(
    ("title", "path"),
    [
        ("C++", "C%2B%2B"),
        ("Größe & Maß", "Gr%C3%B6%C3%9Fe_%26_Ma%C3%9F"),
        ("AC/DC", "AC/DC"),
        ("What?", "What%3F"),
    ],
)
def test_addresses_are_those_that_wikipedia_itself_writes(search, wiki, title, path):
    wiki.results = [WikipediaServer.result(1, title=title)]

    assert search.search("x1", SearchOptions())[0].url == f"{wiki.origin}/wiki/{path}"


@pytest.mark.parametrize(
    ("languages", "host"),
    [
        ((), "en.wikipedia.org"),
        (("de", "en"), "de.wikipedia.org"),
        (("zh-CN",), "zh.wikipedia.org"),
        (("../evil",), "en.wikipedia.org"),
    ],
)
@pytest.mark.parametrize("base", ["", "https://en.wikipedia.org/"])
def test_the_leading_language_chooses_the_wikipedia(languages, host, base):
    api = WikipediaSearch(SearchProfile("wikipedia", base))._api(SearchOptions(languages=languages))

    assert api == f"https://{host}/w/api.php"


def test_a_wiki_of_ones_own_answers_for_every_language(search, wiki):
    search.search("postgres", SearchOptions(languages=("de",)))

    assert wiki.asked[0].path == "/w/api.php"


def test_a_wiki_in_another_folder_is_linked_by_page_number(wiki):
    wiki.path = "/mediawiki/api.php"
    search = WikipediaSearch(SearchProfile("wikipedia", f"{wiki.origin}/mediawiki/api.php"))

    hit = search.search("postgres", SearchOptions(limit=1))[0]

    assert hit.url == f"{wiki.origin}/mediawiki/index.php?curid=1001"


@pytest.mark.parametrize(
    ("code", "kind", "wait"),
    [
        ("maxlag", ProviderUnavailable, 5),
        ("ratelimited", ProviderUnavailable, None),
        ("internal_api_error_DBQueryError", ProviderUnavailable, None),
        ("cirrussearch-too-busy-error", ProviderUnavailable, None),
        ("srsearch-error", ProviderRejected, None),
        ("missingparam", ProviderRejected, None),
    ],
)
def test_errors_that_come_with_status_200_have_their_kind(search, wiki, code, kind, wait):
    wiki.enqueue(wikipedia_error(code, "Waiting for db1: 7.3 seconds lagged."))

    with pytest.raises(kind, match="seconds lagged") as told:
        search.search("postgres", SearchOptions())
    assert getattr(told.value, "retry_after", None) == wait


def test_a_lagging_database_says_when_to_come_back(search, wiki):
    wiki.enqueue(wikipedia_error("maxlag", "Waiting", {"Retry-After": "11"}))

    with pytest.raises(ProviderUnavailable) as told:
        search.search("postgres", SearchOptions())
    assert told.value.retry_after == 11


@pytest.mark.parametrize("body", [{}, {"query": []}, {"query": {"search": "x"}}])
def test_json_that_isnt_mediawikis_is_reported(search, wiki, body):
    wiki.enqueue(lambda _request: json_answer(body))

    with pytest.raises(ProviderUnavailable, match="unknown format"):
        search.search("postgres", SearchOptions())


def test_at_most_three_are_asked_at_once(search, wiki, monkeypatch):
    held = MaxConcurrent("Wikipedia", "127.0.0.1", count=3, patience=0)
    monkeypatch.setattr(wikipedia, "PACE", held)
    places = [held._entered() for _number in range(3)]

    with pytest.raises(ProviderUnavailable, match="Wikipedia allows 3 searches at once"):
        search.search("postgres", SearchOptions())
    held._free(places[0])
    assert len(search.search("postgres", SearchOptions(limit=2))) == 2
    for place in places[1:]:
        held._free(place)


def test_wikipedia_itself_is_what_is_paced():
    assert wikipedia.PACE.count == 3
    assert wikipedia.PACE.covers("https://de.wikipedia.org/w/api.php")
    assert get_search(SearchProfile("wikipedia")).service == "wikipedia"
