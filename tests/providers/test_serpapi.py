"""SerpAPI against a loopback server that answers as the vendor documents."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import date

import pytest

from beacon_site.net.errors import ProviderError, ProviderRejected, ProviderUnavailable
from beacon_site.providers.search.answers import parse_date, usable_url
from beacon_site.providers.search.base import SERVICES, SearchOptions, SearchProfile, get_search
from beacon_site.providers.search.serpapi import ENGINES, SerpApiSearch
from tests.providers import servers
from tests.providers.loopback import json_answer
from tests.providers.servers import SerpApiServer, result, status

KEY = "serp-secret/+0123456789"
TODAY = date(2026, 11, 21)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[SerpApiServer]:
    with SerpApiServer(key=KEY) as server:
        yield server


@pytest.fixture
def serp(endpoint: SerpApiServer) -> SerpApiServer:
    endpoint.forget()
    endpoint.results, endpoint.pagination = [result(n) for n in range(1, 26)], True
    return endpoint


@pytest.fixture
def search(serp: SerpApiServer) -> SerpApiSearch:
    return SerpApiSearch(SearchProfile("serpapi", serp.base_url, KEY))


def answer(**body: object) -> servers.Scene:
    return lambda _request: json_answer(body)


@pytest.mark.requirement("R238")
@pytest.mark.parametrize("engine", ENGINES)
def test_each_engine_is_asked_by_name(search, serp, engine):
    hits = search.search("solid-state batteries", SearchOptions(limit=3, engine=engine))

    assert [hit.url[-2:] for hit in hits] == ["/1", "/2", "/3"]
    assert serp.asked[0] | {"api_key": ""} == {
        "engine": engine,
        "q": "solid-state batteries",
        "api_key": "",
    }


def test_an_engine_that_it_does_not_know_is_refused_unasked(search, serp):
    with pytest.raises(ProviderRejected, match="google_news"):
        search.search("x", SearchOptions(engine="altavista"))
    assert serp.asked == []


@pytest.mark.parametrize("pagination", [True, False])
def test_pages_are_requested_until_there_are_enough(search, serp, pagination):
    serp.pagination = pagination

    hits = search.search("x", SearchOptions(limit=22))

    assert [hit.rank for hit in hits] == list(range(1, 23))
    assert [asked.get("start", "0") for asked in serp.asked] == ["0", "10", "20"]


def test_pages_that_repeat_themselves_end_the_search(search, serp):
    page = [result(n) for n in range(10)]
    serp.enqueue(*[answer(organic_results=page)] * 9)

    assert len(search.search("x", SearchOptions(limit=100))) == 10
    assert len(serp.asked) == 2


def test_a_next_page_whose_address_is_none_is_requested_by_its_query_alone(search, serp):
    odd = {"next": "http://[::1?start=10"}
    serp.enqueue(answer(organic_results=[result(1)], serpapi_pagination=odd))

    search.search("x", SearchOptions(limit=20))

    assert serp.asked[1]["start"] == "10"


def test_nothing_found_is_an_empty_list_not_a_failure(search, serp):
    serp.results = []

    assert search.search("x", SearchOptions()) == []


@pytest.mark.parametrize(
    ("scene", "kind", "words"),
    [
        (status(401, "Invalid API key."), ProviderRejected, "Invalid API key"),
        (status(400, "Missing query `q` parameter."), ProviderRejected, "Missing query"),
        (status(429, servers.OUT_OF_SEARCHES), ProviderRejected, "no searches left"),
        (status(429, servers.HOURLY), ProviderUnavailable, "hourly"),
        (status(503), ProviderUnavailable, "503"),
        (servers.html(), ProviderUnavailable, "didn’t return JSON"),
        (servers.html(502), ProviderUnavailable, "502"),
        (servers.cut(), ProviderUnavailable, "was lost"),
        (servers.huge(), ProviderRejected, "larger than"),
        (status(302), ProviderRejected, "base URL"),
        (answer(error="Invalid API key."), ProviderRejected, "Invalid"),
        (answer(error="boom", search_metadata={"status": "Error"}), ProviderUnavailable, "boom"),
        (answer(organic_results="x"), ProviderUnavailable, "unknown format"),
        (answer(), ProviderUnavailable, "unknown format"),
        (servers.says("no results here"), ProviderUnavailable, "unknown format"),
    ],
)
def test_each_failure_has_its_kind_and_is_not_tried_again_here(search, serp, scene, kind, words):
    serp.enqueue(scene)

    with pytest.raises(kind, match=words):
        search.search("x", SearchOptions())
    assert len(serp.asked) == 1


@pytest.mark.parametrize("scene", [servers.slow(2), servers.trickle(3)])
def test_a_slow_service_is_given_up(search, serp, scene):
    search._http.timeout = 1
    serp.enqueue(scene)

    with pytest.raises(ProviderUnavailable, match="within 1 seconds"):
        search.search("x", SearchOptions())


def test_a_rate_limit_says_when_to_come_back(search, serp):
    serp.enqueue(status(429, servers.HOURLY, {"Retry-After": "60"}))

    with pytest.raises(ProviderUnavailable) as failure:
        search.search("x", SearchOptions())
    assert failure.value.retry_after == 60


def test_hits_without_a_web_address_are_dropped(search, serp):
    bad = [{"title": "none"}, {"link": "javascript:alert(1)"}, {"link": "ftp://a.b/"}, None, 5]
    serp.enqueue(answer(organic_results=[*bad, result(7)]))

    hits = search.search("x", SearchOptions())

    assert [hit.url for hit in hits] == ["https://news.example.org/7"]


def test_news_come_out_of_their_groups_and_jobs_lead_to_where_one_applies(search, serp):
    story = {"title": "s", "link": "https://n.example/2", "iso_date": "2025-03-07T08:00:00Z"}
    serp.enqueue(
        answer(news_results=[{"title": "g", "highlight": result(1), "stories": [story]}]),
        answer(jobs_results=[{"title": "j", "apply_options": [{"link": "https://j.example/"}]}]),
    )

    news = search.search("x", SearchOptions(engine="google_news"))
    jobs = search.search("x", SearchOptions(engine="google_jobs"))

    assert [hit.published_at for hit in news] == [None, date(2025, 3, 7)]
    assert jobs[0].url == "https://j.example/"


def test_languages_and_time_frame_are_sent_as_google_takes_them(search, serp):
    search.search("x", SearchOptions(languages=("zh", "de"), since=date(2026, 1, 2)))

    asked = serp.asked[0]
    assert (asked["hl"], asked["lr"]) == ("zh-cn", "lang_zh-CN|lang_de")
    assert asked["tbs"] == "cdr:1,cd_min:1/2/2026"


def test_results_known_to_be_older_than_the_time_frame_are_left_out(search, serp):
    old, new = result(1, date="Mar 4, 2019"), result(2, date="2 hours ago")
    serp.enqueue(answer(news_results=[old, new, result(3)]))

    hits = search.search("x", SearchOptions(since=date(2026, 1, 1)))

    assert [hit.title for hit in hits] == ["Result 2", "Result 3"]


def test_texts_are_clean(search, serp):
    serp.enqueue(
        answer(organic_results=[result(1, title="a\x00\ud800b", snippet="<b>c</b> &amp; d")])
    )

    hit = search.search("x", SearchOptions())[0]

    assert (hit.title, hit.snippet) == ("a b", "c & d")


@pytest.mark.requirement("R236")
def test_the_key_reaches_the_service_and_nothing_else(search, serp, caplog):
    caplog.set_level(logging.DEBUG)
    leaky = result(1, title=f"t {KEY}", snippet=KEY, extra=[KEY])
    serp.enqueue(
        answer(organic_results=[leaky, result(2, link=f"https://a.example/?k={KEY}")]),
        status(401, f"Invalid API key: {KEY}"),
    )
    hits = search.search("x", SearchOptions())
    with pytest.raises(ProviderError) as failure:
        search.search("x", SearchOptions())

    assert {asked["api_key"] for asked in serp.asked} == {KEY}
    shown = f"{hits} {failure.value!r} {failure.value.__context__!r} {caplog.text}"
    assert KEY not in shown and "secret%2F" not in shown


def test_the_profile_never_shows_its_key():
    assert KEY not in repr(SearchProfile("serpapi", "", KEY))


def test_without_a_key_the_vendor_is_not_asked():
    with pytest.raises(ProviderRejected, match="SERPAPI_API_KEY"):
        get_search(SearchProfile("serpapi")).search("x", SearchOptions())


def test_the_services_are_named_and_an_unknown_one_is_refused():
    assert SERVICES[0] == "serpapi"
    assert SERVICES[-3:] == ("feeds", "library", "sample")
    with pytest.raises(ProviderRejected, match="altavista"):
        get_search(SearchProfile("altavista"))


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("3 days ago", date(2026, 11, 18)),
        ("2 hours ago", TODAY),
        ("a week ago", date(2026, 11, 14)),
        ("vor 3 Tagen", date(2026, 11, 18)),
        ("il y a 2 jours", date(2026, 11, 19)),
        ("3天前", date(2026, 11, 18)),
        ("yesterday", date(2026, 11, 20)),
        ("Mar 4, 2025", date(2025, 3, 4)),
        ("4 March 2025", date(2025, 3, 4)),
        ("03/07/2025, 08:00 AM, +0000 UTC", date(2025, 3, 7)),
        ("2025-03-07T08:00:00Z", date(2025, 3, 7)),
        ("2025年3月7日", date(2025, 3, 7)),
        ("Tue, 04 Mar 2025 10:00:00 GMT", date(2025, 3, 4)),
        ("31 February 2025", None),
        ("Mar 4, 2031", None),
        ("9999999999 days ago", None),
        ("soon", None),
        (None, None),
    ],
)
def test_dates_are_understood_as_services_write_them(text, day):
    assert parse_date(text, today=TODAY) == day


@pytest.mark.parametrize("url", ["", "javascript:alert(1)", "//a.example", "http://", None, 5])
def test_what_no_reader_could_open_isnt_an_address(url):
    assert usable_url(url) == ""


@pytest.mark.parametrize("tail", ["[::1", "a b/", "a\n.example", "a.example/" + "x" * 2048])
def test_what_is_malformed_or_too_long_isnt_an_address(tail):
    assert usable_url(f"http://{tail}") == ""
