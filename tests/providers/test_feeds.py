"""Feeds served on loopback and fetched through the guard, parsed in their own process."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pytest
from pytest_httpserver import HTTPServer

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.extract import get_extractor
from beacon_site.net.fetch import GuardedFetcher
from beacon_site.providers.search import feeds
from beacon_site.providers.search.base import SearchOptions, SearchProfile, get_search
from beacon_site.providers.search.feeds import FeedSearch, parse_feed

XML = "application/xml"


def rss(*items: str) -> str:
    body = "".join(f"<item>{item}</item>" for item in items)
    return f'<rss version="2.0"><channel><title>News</title>{body}</channel></rss>'


def item(number: int, title: str, *, day: int = 1, text: str = "") -> str:
    return (
        f"<title>{title}</title><link>https://n.example/{number}</link><description>{text}"
        f"</description><pubDate>{day:02} Mar 2026 10:00:00 GMT</pubDate>"
    )


@pytest.fixture(scope="module")
def started() -> Iterator[HTTPServer]:
    with HTTPServer(host="127.0.0.1", port=0, threaded=True) as server:
        yield server


@pytest.fixture
def server(started: HTTPServer) -> HTTPServer:
    started.clear()
    return started


@pytest.fixture
def search(server: HTTPServer) -> FeedSearch:
    return FeedSearch(GuardedFetcher(allow_hosts=frozenset({f"127.0.0.1:{server.port}"})).get_bytes)


def asked(server: HTTPServer) -> list[str]:
    return [request.path for request, _response in server.log]


def test_entries_with_more_words_of_the_query_come_first_then_the_newest(search, server):
    text = rss(
        item(1, "Weather", day=9),
        item(2, "Batteries in cars", day=2),
        item(3, "Weather again", day=10, text="and batteries"),
        item(4, "Solid batteries", day=1),
    )
    server.expect_request("/f").respond_with_data(text, content_type=XML)

    hits = search.search("solid BATTERIES", SearchOptions(feeds=(server.url_for("/f"),)))

    assert [hit.url[-1] for hit in hits] == ["4", "2", "3", "1"]
    assert [hit.rank for hit in hits] == [1, 2, 3, 4]
    assert hits[0].published_at == date(2026, 3, 1)


def test_queries_share_one_fetch_of_a_feed(search, server):
    server.expect_request("/f").respond_with_data(rss(item(1, "A")), content_type=XML)
    options = SearchOptions(feeds=(server.url_for("/f"), server.url_for("/f")))

    assert search.search("a", options) == search.search("b", options)
    assert asked(server) == ["/f"]


def test_a_feed_that_has_not_changed_is_nothing(search, server):
    told = {"ETag": '"v1"', "Last-Modified": "Sun, 01 Mar 2026 10:00:00 GMT"}
    server.expect_oneshot_request("/f").respond_with_data(rss(item(1, "A")), headers=told)
    server.expect_request("/f", headers={"If-None-Match": '"v1"'}).respond_with_data(status=304)
    options = SearchOptions(feeds=(server.url_for("/f"),))
    search.search("a", options)

    later = FeedSearch(search._get_bytes, validators=search.validators)

    assert later.search("a", options) == []
    assert server.log[1][0].headers["If-Modified-Since"] == told["Last-Modified"]
    known = {"If-None-Match": '"v1"', "If-Modified-Since": told["Last-Modified"]}
    assert search.validators == {options.feeds[0]: known}


def test_no_feeds_are_no_hits(search):
    assert search.search("a", SearchOptions()) == []


def test_limit_and_time_frame_hold(search, server):
    text = rss(item(1, "A", day=1), item(2, "B", day=9), item(3, "C", day=8))
    server.expect_request("/f").respond_with_data(text)
    options = SearchOptions(feeds=(server.url_for("/f"),), limit=1, since=date(2026, 3, 5))

    assert [hit.title for hit in search.search("x", options)] == ["B"]


def test_one_feed_that_fails_among_others_is_a_warning(search, server):
    server.expect_request("/f").respond_with_data(rss(item(1, "A")))
    options = SearchOptions(feeds=(server.url_for("/gone"), server.url_for("/f")))

    assert len(search.search("a", options)) == 1
    assert "/gone was skipped" in search.warnings[0]


@pytest.mark.parametrize(("status", "kind"), [(404, ProviderRejected), (503, ProviderUnavailable)])
def test_if_all_feeds_fail_the_search_fails(search, server, status, kind):
    server.expect_request("/f").respond_with_data("x", status=status)

    with pytest.raises(kind, match="/f was skipped"):
        search.search("a", SearchOptions(feeds=(server.url_for("/f"),)))
    # The failure says it; a further try may still read it, and a warning would then be untrue.
    assert search.warnings == []


def test_a_private_address_is_refused_by_the_guard():
    search = get_search(SearchProfile("feeds"))

    with pytest.raises(ProviderRejected):
        search.search("a", SearchOptions(feeds=("http://127.0.0.1:9/feed",)))


def test_a_broken_feed_counts_as_far_as_it_goes():
    broken = rss(item(1, "A"), item(2, "B & C")).encode()[:-60]

    assert parse_feed(broken, url="https://f.example/")[0].title == "A"


def test_atom_with_relative_links_and_markup_in_chinese():
    text = (
        '<feed xmlns="http://www.w3.org/2005/Atom"><title>人工</title><entry>'
        '<title>人工智能</title><link href="p1"/><updated>2026-01-02T00:00:00Z</updated>'
        '<summary type="html">&lt;b&gt;s&lt;/b&gt; &amp;amp; t</summary></entry></feed>'
    )
    hit = parse_feed(text.encode(), url="https://f.example/x/feed")[0]

    assert (hit.url, hit.title, hit.snippet) == ("https://f.example/x/p1", "人工智能", "s & t")
    assert feeds._rank("智能", [hit])[0] is hit


def test_entries_without_a_web_address_are_left_out():
    text = rss("<title>none</title>", "<title>j</title><link>javascript:alert(1)</link>")

    assert parse_feed(text.encode(), url="https://f.example/") == ()


@pytest.mark.parametrize("content", [b"", b"<html><body>hi</body></html>", b"/etc/passwd"])
def test_what_isnt_a_feed_is_refused(content):
    with pytest.raises(ProviderRejected, match="isn’t an RSS or Atom feed"):
        parse_feed(content, url="https://f.example/")


def test_a_file_of_this_machine_does_not_come_in_as_an_entity():
    text = '<!DOCTYPE l [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + rss(item(1, "x &a;"))

    assert "root" not in str(parse_feed(text.encode(), url="https://f.example/"))


def test_a_feed_made_to_hang_the_parser_is_killed(monkeypatch, impatient):
    monkeypatch.setattr(feeds, "get_extractor", lambda: impatient)
    nested = '<rss version="2.0"><channel>' + "<item><title>t</title>" * 60_000

    with pytest.raises(ProviderRejected, match="attack"):
        parse_feed(nested.encode(), url="https://f.example/")


def test_a_feed_is_read_by_the_child_that_reads_pages():
    reader = get_extractor()
    reader.extract(b"<p>page")
    child = reader.pid
    parse_feed(rss(item(1, "Release")).encode(), url="https://f.example/")

    assert reader.pid == child
