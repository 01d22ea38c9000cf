"""Fetching typical web pages: each has a clear outcome."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from beacon_site.net.errors import ProviderError, ProviderRejected, ProviderUnavailable
from beacon_site.net.extract import Extractor
from beacon_site.net.fetch import GuardedFetcher, PageFetcher, get_fetcher

ARTICLE = """<!doctype html><html lang="en"><head><title>Cells that last</title>
<meta property="article:published_time" content="2026-10-03T10:00:00Z"></head><body>
<nav><a href="/">Home</a></nav><article><h1>Cells that last</h1>
<p>A cell with a solid electrolyte kept 91 % of its
capacity after 1,000 cycles, the group wrote on Saturday.</p>
<p>The maker plans a first line for 2027, which is a year later than it said before.</p>
</article></body></html>"""
HTML = "text/html; charset=utf-8"


@pytest.fixture
def fetcher(httpserver: HTTPServer, extractor: Extractor) -> GuardedFetcher:
    """A fetcher to which the test's server is an allowed host."""
    allowed = frozenset({f"{httpserver.host}:{httpserver.port}"})
    return GuardedFetcher(allow_hosts=allowed, extractor=extractor)


def test_a_page_is_read_with_its_title_and_date(httpserver: HTTPServer, fetcher: GuardedFetcher):
    httpserver.expect_request("/a").respond_with_data(ARTICLE, content_type=HTML)

    page = fetcher.fetch(httpserver.url_for("/a"))

    assert page.title == "Cells that last"
    assert page.published_at == date(2026, 10, 3)
    assert page.content_type == "text/html"
    assert "kept 91 % of its capacity after 1,000 cycles" in page.text
    assert "Home" not in page.text


def test_the_request_says_who_asks_and_carries_no_cookie(
    httpserver: HTTPServer, fetcher: GuardedFetcher, settings, monkeypatch
):
    settings.BEACON_CONTACT = "desk@example.org"
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9/")
    httpserver.expect_request("/a").respond_with_data(
        ARTICLE, headers={"Set-Cookie": "id=1"}, content_type=HTML
    )

    fetcher.fetch(httpserver.url_for("/a"))
    fetcher.fetch(httpserver.url_for("/a"))

    asked = httpserver.log[-1][0].headers
    assert asked["User-Agent"] == f"Beacon/{settings.BEACON_VERSION} (desk@example.org)"
    assert asked["Accept-Encoding"] == "gzip, identity"
    assert "Cookie" not in asked


def test_the_operators_allow_list_comes_from_the_settings(
    httpserver: HTTPServer, extractor: Extractor, settings
):
    httpserver.expect_request("/a").respond_with_data(ARTICLE, content_type=HTML)
    fetcher = GuardedFetcher(extractor=extractor)
    settings.BEACON_FETCH_ALLOW_HOSTS = frozenset()
    with pytest.raises(ProviderRejected, match="number, not a name"):
        fetcher.fetch(httpserver.url_for("/a").replace("localhost", "127.0.0.1"))

    settings.BEACON_FETCH_ALLOW_HOSTS = frozenset({f"{httpserver.host}:{httpserver.port}"})
    assert fetcher.fetch(httpserver.url_for("/a")).title == "Cells that last"


def test_a_gzipped_page_is_unpacked(httpserver: HTTPServer, fetcher: GuardedFetcher):
    packed = gzip.compress(ARTICLE.encode()) + gzip.compress(b"<!-- a second member -->")
    httpserver.expect_request("/a").respond_with_data(
        packed, headers={"Content-Encoding": "gzip"}, content_type=HTML
    )

    assert "1,000 cycles" in fetcher.fetch(httpserver.url_for("/a")).text


@pytest.mark.parametrize(
    "encoding", ["br", "deflate", "zstd", "gzip, gzip", "gzip, br", "identity, gzip"]
)
def test_an_encoding_that_was_not_asked_for_is_refused(
    encoding: str, httpserver: HTTPServer, fetcher: GuardedFetcher
):
    httpserver.expect_request("/a").respond_with_data(
        b"\x00" * 20, headers={"Content-Encoding": encoding}, content_type=HTML
    )

    with pytest.raises(ProviderRejected, match="didn’t ask for"):
        fetcher.fetch(httpserver.url_for("/a"))


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, ProviderRejected, "requires sign-in"),
        (403, ProviderRejected, "blocks Beacon"),
        (404, ProviderRejected, "doesn’t exist"),
        (410, ProviderRejected, "was removed"),
        (418, ProviderRejected, "418"),
        (304, ProviderUnavailable, "304"),
        (429, ProviderUnavailable, "too many requests"),
        (500, ProviderUnavailable, "500"),
        (503, ProviderUnavailable, "503"),
    ],
)
def test_a_refusal_is_reported_in_words_and_by_kind(
    status: int, kind: type, words: str, httpserver: HTTPServer, fetcher: GuardedFetcher
):
    httpserver.expect_request("/a").respond_with_data(ARTICLE, status=status, content_type=HTML)

    with pytest.raises(kind, match=words):
        fetcher.fetch(httpserver.url_for("/a"))


def test_the_time_a_server_asks_to_wait_is_handed_on(
    httpserver: HTTPServer, fetcher: GuardedFetcher
):
    httpserver.expect_request("/a").respond_with_data("", status=429, headers={"Retry-After": "37"})

    with pytest.raises(ProviderUnavailable) as limited:
        fetcher.fetch(httpserver.url_for("/a"))

    assert limited.value.retry_after == 37


@pytest.mark.parametrize("kind", ["image/png", "video/mp4", "application/zip", "font/woff2"])
def test_what_isnt_text_is_refused_by_its_type(
    kind: str, httpserver: HTTPServer, fetcher: GuardedFetcher
):
    httpserver.expect_request("/a").respond_with_data(b"\x89PNG....", content_type=kind)

    with pytest.raises(ProviderRejected, match=f"can’t read “{kind}” files"):
        fetcher.fetch(httpserver.url_for("/a"))


@pytest.mark.parametrize("body", ["", " \n ", "<html><body></body></html>"])
def test_an_empty_page_says_that_it_is_empty(
    body: str, httpserver: HTTPServer, fetcher: GuardedFetcher
):
    httpserver.expect_request("/a").respond_with_data(body, content_type=HTML)

    with pytest.raises(ProviderRejected, match=r"is empty|page has no text"):
        fetcher.fetch(httpserver.url_for("/a"))


def _redirect(httpserver: HTTPServer, path: str, to: str, status: int = 302) -> None:
    httpserver.expect_request(path).respond_with_data("", status, headers={"Location": to})


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed_and_the_final_address_kept(
    status: int, httpserver: HTTPServer, fetcher: GuardedFetcher
):
    _redirect(httpserver, "/old", "/new?x=1#part", status)
    httpserver.expect_request("/new").respond_with_data(ARTICLE, content_type=HTML)

    page = fetcher.fetch(httpserver.url_for("/old"))

    assert page.url == httpserver.url_for("/old")
    assert page.final_url == httpserver.url_for("/new?x=1")


def test_five_redirects_are_followed_and_a_sixth_is_not(
    httpserver: HTTPServer, fetcher: GuardedFetcher
):
    for step in range(30):
        _redirect(httpserver, f"/{step}", f"/{step + 1}")
    httpserver.expect_request("/30").respond_with_data(ARTICLE, content_type=HTML)

    assert fetcher.fetch(httpserver.url_for("/25")).final_url.endswith("/30")
    with pytest.raises(ProviderRejected, match="more than 5 times"):
        fetcher.fetch(httpserver.url_for("/0"))


@pytest.mark.parametrize(
    "place",
    [
        "http://127.0.0.1:1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "http://localhost/",
        "http://2130706433/",
        "//10.0.0.1/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://a:b@example.org/",
    ],
)
def test_a_redirect_to_a_forbidden_address_is_not_followed(
    place: str, httpserver: HTTPServer, fetcher: GuardedFetcher
):
    _redirect(httpserver, "/a", place)

    with pytest.raises(ProviderRejected, match="redirects to"):
        fetcher.fetch(httpserver.url_for("/a"))


def test_a_redirect_without_a_place_is_reported(httpserver: HTTPServer, fetcher: GuardedFetcher):
    httpserver.expect_request("/a").respond_with_data("", status=302)

    with pytest.raises(ProviderRejected, match="without a target"):
        fetcher.fetch(httpserver.url_for("/a"))


def test_a_feed_is_got_as_bytes_with_its_headers(httpserver: HTTPServer, fetcher: GuardedFetcher):
    httpserver.expect_request("/feed").respond_with_data(
        gzip.compress(b"<rss/>"), headers={"Content-Encoding": "gzip", "ETag": '"7"'}
    )

    got = fetcher.get_bytes(httpserver.url_for("/feed"))

    assert (got.status, got.content, got.headers["etag"]) == (200, b"<rss/>", '"7"')


def test_a_feed_that_did_not_change_is_an_answer(httpserver: HTTPServer, fetcher: GuardedFetcher):
    httpserver.expect_request("/feed", headers={"If-None-Match": '"7"'}).respond_with_data(
        "", status=304
    )

    got = fetcher.get_bytes(httpserver.url_for("/feed"), headers={"If-None-Match": '"7"'})

    assert (got.status, got.content) == (304, b"")


def test_bytes_past_the_callers_limit_are_refused(httpserver: HTTPServer, fetcher: GuardedFetcher):
    httpserver.expect_request("/feed").respond_with_data(b"x" * 2000)

    with pytest.raises(ProviderRejected, match="larger than"):
        fetcher.get_bytes(httpserver.url_for("/feed"), max_bytes=1999)


def test_a_secret_header_is_not_carried_to_another_site(
    httpserver: HTTPServer, extractor: Extractor
):
    asked: list[Request] = []

    def other(request: Request) -> Response:
        asked.append(request)
        return Response("ok")

    names = frozenset({f"localhost:{httpserver.port}", f"127.0.0.1:{httpserver.port}"})
    fetcher = GuardedFetcher(allow_hosts=names, extractor=extractor)
    _redirect(httpserver, "/a", f"http://127.0.0.1:{httpserver.port}/b")
    httpserver.expect_request("/b").respond_with_handler(other)

    fetcher.get_bytes(
        f"http://localhost:{httpserver.port}/a",
        headers={"Authorization": "Bearer x", "If-None-Match": '"7"', "Cookie": "a=b"},
    )

    assert "Authorization" not in asked[0].headers
    assert "Cookie" not in asked[0].headers
    assert asked[0].headers["If-None-Match"] == '"7"'


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\x00b"])
def test_a_header_that_smuggles_another_is_not_sent(
    value: str, httpserver: HTTPServer, fetcher: GuardedFetcher
):
    with pytest.raises(ProviderRejected, match="can’t be sent"):
        fetcher.get_bytes(httpserver.url_for("/"), headers={"X-Mine": value})

    assert not httpserver.log


def test_many_threads_share_one_fetcher(httpserver: HTTPServer, fetcher: GuardedFetcher):
    for number in range(16):
        httpserver.expect_request(f"/{number}").respond_with_data(
            ARTICLE.replace("Saturday", f"day {number}"), content_type=HTML
        )

    with ThreadPoolExecutor(8) as pool:
        pages = list(pool.map(fetcher.fetch, [httpserver.url_for(f"/{n}") for n in range(16)]))

    assert all(f"on day {number}." in page.text for number, page in enumerate(pages))


def test_a_server_that_is_not_there_is_reported_in_words(extractor: Extractor):
    fetcher = GuardedFetcher(allow_hosts=frozenset({"127.0.0.1:9"}), extractor=extractor)

    with pytest.raises(ProviderUnavailable, match=r"can’t be reached on port 9: .*refused"):
        fetcher.fetch("http://127.0.0.1:9/")


def test_the_process_has_one_fetcher():
    fetcher: PageFetcher = get_fetcher()

    assert fetcher is get_fetcher()


def test_a_failure_in_the_log_shows_no_query(fetcher: GuardedFetcher, capsys):
    with pytest.raises(ProviderError):
        fetcher.fetch("http://example.org:81/?key=hush-hush")

    printed = capsys.readouterr()
    assert "hush-hush" not in printed.out + printed.err


def test_a_process_that_fetched_leaves_nothing_running():
    program = (
        "import django.conf as c\n"
        "from beacon_site.net.extract import get_extractor\n"
        "get_extractor().extract(b'<p>Hello</p>')\n"
        "print(get_extractor().pid)"
    )
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=root, timeout=60
    )

    assert ended.returncode == 0, ended.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(ended.stdout), 0)
