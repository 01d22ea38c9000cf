"""GDELT against a loopback server that answers as it does, plain text included."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest
from werkzeug import Response

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.providers.search import gdelt
from beacon_site.providers.search.base import SearchOptions, SearchProfile
from beacon_site.providers.search.gdelt import GdeltSearch
from tests.providers.loopback import json_answer
from tests.providers.open_servers import GDELT_TOO_OFTEN, GDELT_TOO_SHORT, GdeltServer, text


@pytest.fixture(scope="module")
def started() -> Iterator[GdeltServer]:
    with GdeltServer() as server:
        yield server


@pytest.fixture
def news(started: GdeltServer) -> GdeltServer:
    started.forget()
    started.results = [GdeltServer.result(number) for number in range(1, 31)]
    return started


@pytest.fixture
def search(news: GdeltServer) -> GdeltSearch:
    return GdeltSearch(SearchProfile("gdelt", news.origin))


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("postgres logical replication news 2026", "postgres logical replication"),
        ('"vector database" recall', '"vector database" recall'),
        ("solid-state batteries", '"solid state" batteries'),
        ("AI chips in the EU", "chips"),
        ("sourcelang:x OR (domain:y) chips", "sourcelang domain chips"),
    ],
)
def test_words_are_requested_as_gdelt_takes_them(search, news, query, asked):
    search.search(query, SearchOptions())

    assert news.asked[0]["query"] == asked


@pytest.mark.parametrize(
    ("languages", "filter_"),
    [
        (("en",), "sourcelang:english"),
        (("de-AT", "xx", "zh"), "(sourcelang:german OR sourcelang:chinese)"),
    ],
)
def test_articles_are_wanted_in_the_topics_languages(search, news, languages, filter_):
    search.search("chips", SearchOptions(languages=languages))

    assert news.asked[0]["query"] == f"chips {filter_}"


def test_a_long_query_is_cut_before_gdelt_refuses_it(search, news):
    words = " ".join(f"{'long' * 10}{number}" for number in range(20))
    search.search(words, SearchOptions(languages=("en",)))

    assert len(news.asked[0]["query"]) <= 240
    assert news.asked[0]["query"].endswith("sourcelang:english")


def test_one_page_of_articles_is_requested(search, news):
    hits = search.search("chips", SearchOptions(limit=20))

    assert [hit.rank for hit in hits] == list(range(1, 21))
    assert news.asked[0] == {
        "query": "chips",
        "mode": "artlist",
        "format": "json",
        "maxrecords": "60",
        "sort": "hybridrel",
        "timespan": "3months",
    }


def test_a_time_frame_begins_with_its_day_and_brings_the_newest_first(search, news):
    day = datetime.now(UTC).date() - timedelta(days=7)
    search.search("chips", SearchOptions(since=day))

    assert news.asked[0]["startdatetime"] == f"{day:%Y%m%d}000000"
    assert (news.asked[0]["sort"], "timespan" in news.asked[0]) == ("datedesc", False)


def test_a_time_frame_longer_than_gdelt_has_is_all_it_has(search, news):
    search.search("chips", SearchOptions(since=date(2020, 1, 1)))

    assert news.asked[0]["timespan"] == "3months"


def test_an_article_has_its_title_tidied_and_the_day_it_was_seen(search):
    hit = search.search("chips", SearchOptions(limit=1))[0]

    assert (hit.title, hit.snippet) == ("Result 1, they say", "")
    assert hit.published_at == date(2026, 11, 20)


def test_articles_from_before_are_left_out(search, news):
    news.results[0]["seendate"] = "20200101T000000Z"
    news.results[1]["seendate"] = "soon"

    hits = search.search("chips", SearchOptions(limit=2, since=date(2026, 11, 1)))

    assert [(hit.url[-1], hit.published_at) for hit in hits] == [
        ("2", None),
        ("3", date(2026, 11, 20)),
    ]


def test_a_story_that_many_papers_print_is_one_hit(search, news):
    news.results = [GdeltServer.result(number, title="Chips are scarce") for number in (1, 2)]

    assert [hit.url[-1] for hit in search.search("chips", SearchOptions())] == ["1"]


def test_a_reprint_further_down_does_not_move_the_best_story(search, news):
    titles = ["Chips are scarce", "Chips are cheap", "Chips are scarce"]
    news.results = [GdeltServer.result(number, title=title) for number, title in enumerate(titles)]

    assert [hit.url[-1] for hit in search.search("chips", SearchOptions())] == ["0", "1"]


def test_nothing_found_is_an_empty_object(search, news):
    news.results = []

    assert search.search("chips", SearchOptions()) == []


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (GDELT_TOO_SHORT, ProviderRejected),
        ("The specified phrase is too short.", ProviderRejected),
        ("Invalid/Unsupported Country.", ProviderRejected),
        (GDELT_TOO_OFTEN, ProviderUnavailable),
        ("An error occurred. Please try again later.", ProviderUnavailable),
        ("upstream connect error", ProviderUnavailable),
    ],
)
def test_its_words_come_as_plain_text_with_status_200(search, news, words, kind):
    news.enqueue(text(words))

    with pytest.raises(kind, match=words[:20]):
        search.search("chips", SearchOptions())


@pytest.mark.parametrize("code", [200, 429])
def test_being_asked_too_often_says_when_to_come_back(search, news, code):
    news.enqueue(text(GDELT_TOO_OFTEN, code))

    with pytest.raises(ProviderUnavailable) as told:
        search.search("chips", SearchOptions())
    assert told.value.retry_after == 6


def test_a_query_of_short_words_alone_is_explained_unasked(search, news):
    with pytest.raises(ProviderRejected, match="“AI” has none"):
        search.search("AI", SearchOptions())
    assert news.asked == []


def test_json_with_gdelts_own_faults_is_read(search, news):
    title = rb"It\'s 5\" of \\snow" + b"\n\tin May"
    body = b'{"articles": [{"url": "https://a.example/1", "title": "' + title + b'"}]}'
    news.enqueue(lambda _request: Response(body, content_type="application/json"))

    hit = search.search("chips", SearchOptions())[0]

    assert hit.title == "It\\'s 5\" of \\snow in May"


@pytest.mark.parametrize("body", [{"error": "x"}, {"articles": "x"}])
def test_json_that_is_not_gdelts_is_reported(search, news, body):
    news.enqueue(lambda _request: json_answer(body))

    with pytest.raises(ProviderUnavailable, match="unknown format"):
        search.search("chips", SearchOptions())


def test_gdelt_itself_is_asked_less_often_than_it_allows():
    assert gdelt.PACE.seconds >= 5
    assert gdelt.PACE.covers(f"{gdelt.VENDOR_URL}/api/v2/doc/doc")
