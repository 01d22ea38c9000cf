"""Pages that need JavaScript: what Chromium reads, and the limits that it has."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from beacon_site import checks
from beacon_site.net import browser, guard_proxy
from beacon_site.net.bounded import Limits
from beacon_site.net.errors import ProviderError, ProviderRejected, ProviderUnavailable
from beacon_site.net.extract import Extractor, NoText, PartNotFound, part_from
from beacon_site.net.fetch import GuardedFetcher
from beacon_site.net.guard_proxy import GuardProxy, SharedMeter

HTML = "text/html; charset=utf-8"
TEXT = "The plant in Skellefteå makes two million cells a year, which is twice as many as planned."
APP = """<html><head><title>Cells</title></head><body><noscript>Turn JavaScript on.</noscript><div id=app></div>
<script>fetch('/data').then((r) => r.text()).then((t) => { document.getElementById('app').innerHTML =
'<main><h1>Cells</h1><p class=news>' + t + '</p></main>'; });</script></body></html>"""
QUICK = Limits(whole_seconds=9.0, slow_seconds=float("inf"), wire_bytes=200_000)


@pytest.fixture(scope="module")
def extractor() -> Iterator[Extractor]:
    made = Extractor()
    yield made
    made.close()


@pytest.fixture
def on(settings: Any, chromium_path: str) -> None:
    """A Chromium is set up. As root, and in most containers, it doesn't start with its sandbox."""
    settings.BEACON_CHROMIUM, settings.BEACON_CHROMIUM_SANDBOX = chromium_path, False


@pytest.fixture
def fetcher(httpserver: HTTPServer, extractor: Extractor) -> GuardedFetcher:
    return GuardedFetcher(allow_hosts=hosts(httpserver), extractor=extractor)


def hosts(server: HTTPServer) -> frozenset[str]:
    return frozenset({f"{server.host}:{server.port}"})


def app(server: HTTPServer, page: str = APP, **more: Any) -> str:
    server.expect_request("/app").respond_with_data(page, content_type=HTML, **more)
    server.expect_request("/data").respond_with_data(TEXT, content_type="text/plain; charset=utf-8")
    return str(server.url_for("/app"))


@pytest.mark.requirement("R373")
def test_without_a_browser_an_admin_is_told_what_to_do(
    httpserver: HTTPServer, fetcher: GuardedFetcher, settings: Any
):
    settings.BEACON_CHROMIUM = ""
    url = app(httpserver)

    with pytest.raises(
        NoText,
        match=r"This page needs JavaScript\. To let Beacon read such pages, an admin can set up Chromium",
    ):
        fetcher.fetch(url)
    with pytest.raises(PartNotFound, match="The page may need JavaScript to show its text"):
        fetcher.fetch(url, part=part_from("css: .news"))


@pytest.mark.browser
@pytest.mark.requirement("R373")
def test_the_text_that_a_script_writes_is_read(
    on: None, httpserver: HTTPServer, fetcher: GuardedFetcher
):
    url = app(httpserver, headers={"ETag": "the-shell"})

    page = fetcher.fetch(url)

    assert TEXT in page.text and "Turn JavaScript on" not in page.text
    assert (page.title, page.final_url) == ("Cells", url)
    assert page.etag == ""  # that of the HTML, which stays when the text changes
    assert fetcher.fetch(url, part=part_from("css: .news")).text == TEXT


@pytest.mark.browser
def test_a_page_with_text_needs_no_browser(
    on: None, httpserver: HTTPServer, fetcher: GuardedFetcher, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(browser, "render", None)
    page = f"<html><body><article><p>{TEXT * 4}</p></article><script>1</script></body></html>"

    assert TEXT in fetcher.fetch(app(httpserver, page)).text


def test_a_short_page_stays_if_the_browser_fails(
    httpserver: HTTPServer, fetcher: GuardedFetcher, settings: Any
):
    settings.BEACON_CHROMIUM = "/nowhere/chromium"
    page = "<html><body><p>Closed on Mondays.</p><script>1</script></body></html>"

    assert fetcher.fetch(app(httpserver, page)).text == "Closed on Mondays."


def test_a_short_page_that_the_browser_failed_on_is_read_again_the_next_time(
    httpserver: HTTPServer,
    fetcher: GuardedFetcher,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
):
    settings.BEACON_CHROMIUM = "/nowhere/chromium"
    page = "<html><body><p>Closed on Mondays.</p><script>1</script></body></html>"
    url = app(httpserver, page, headers={"ETag": "the-shell"})

    assert fetcher.fetch(url).etag == ""

    monkeypatch.setattr(browser, "QUEUE_SECONDS", 0.1)
    with browser._only_one(), pytest.raises(browser.BrowserBusy, match="waiting for the browser"):
        fetcher.fetch(url)


@pytest.mark.browser
@pytest.mark.slow
def test_an_error_page_is_not_taken_for_the_page(
    on: None, httpserver: HTTPServer, fetcher: GuardedFetcher
):
    shell = "<html><body><script>document.body.textContent = 'x'</script></body></html>"
    httpserver.expect_ordered_request("/app").respond_with_data(shell, content_type=HTML)
    httpserver.expect_ordered_request("/app").respond_with_data(
        f"<html><body><p>{TEXT * 9}</p></body></html>", content_type=HTML, status=503
    )

    with pytest.raises(ProviderError, match="503"):
        fetcher.fetch(str(httpserver.url_for("/app")))


def test_a_browser_that_isnt_there_is_explained(
    httpserver: HTTPServer, fetcher: GuardedFetcher, settings: Any
):
    settings.BEACON_CHROMIUM = "/nowhere/chromium"

    with pytest.raises(ProviderUnavailable, match="can’t be started"):
        fetcher.fetch(app(httpserver))


def test_a_check_warns_of_a_path_that_isnt_a_program(settings: Any, tmp_path: Path):
    for path, found in (("", []), (sys.executable, []), (str(tmp_path / "none"), ["beacon.W013"])):
        settings.BEACON_CHROMIUM = path
        assert [one.id for one in checks.chromium()] == found


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("while (true) {}", "took too long"),
        ("fetch('/large').then((r) => r.blob())", "larger than"),
        ("location = 'file:///etc/passwd'", None),
        *(
            pytest.param(script, None, marks=[pytest.mark.attacks, pytest.mark.long])
            for script in (
                "location = 'chrome://version'",
                "alert(1); confirm(2); document.body.textContent = 'said'",
                "setInterval(() => fetch('/data'), 50)",
            )
        ),
    ],
)
def test_every_page_ends_and_leaves_nothing(
    on: None, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch, script: str, told: str | None
):
    monkeypatch.setattr(browser, "LOAD_SECONDS", 5.0)
    httpserver.expect_request("/large").respond_with_data(os.urandom(400_000))
    url = app(httpserver, f"<html><body><script>{script}</script></body></html>")
    before = {one.pid for one in psutil.Process().children(recursive=True)}

    if told:
        with pytest.raises(ProviderRejected, match=told):
            browser.render(url, allow_hosts=hosts(httpserver), limits=QUICK)
    else:
        html, final = browser.render(url, allow_hosts=hosts(httpserver), limits=QUICK)
        assert final == url and "root:" not in html

    left = [one for one in psutil.Process().children(recursive=True) if one.pid not in before]
    assert [one for one in left if one.status() != psutil.STATUS_ZOMBIE] == []


@pytest.mark.browser
@pytest.mark.slow
def test_no_cookie_is_kept_and_no_key_is_in_its_environment(
    on: None, httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SECRET_KEY", "the-secret")
    seen: list[str | None] = []
    environments: list[str] = []

    def answer(request: Request) -> Response:
        seen.append(request.headers.get("Cookie"))
        for one in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # one of Chromium's that just ended
                if "chrom" in one.name():
                    environments.append(str(one.environ()))
        page = "<script>document.cookie = 'a=1'; fetch('/data')</script>"
        return Response(page, content_type=HTML, headers={"Set-Cookie": "b=2"})

    httpserver.expect_request("/app").respond_with_handler(answer)
    httpserver.expect_request("/data").respond_with_data("x")
    for _n in range(2):
        browser.render(httpserver.url_for("/app"), allow_hosts=hosts(httpserver))

    assert seen == [None, None]
    assert environments and not any("the-secret" in one for one in environments)


# --- the proxy ---


def exchanged(proxy: GuardProxy, sent: bytes) -> bytes:
    host, _sep, port = proxy.address.rpartition(":")
    with socket.create_connection((host, int(port)), 5) as client:
        client.sendall(sent)
        got = b""
        while piece := client.recv(65536):
            got += piece
    return got


def test_the_proxy_passes_a_request_on_without_what_is_its_own(httpserver: HTTPServer):
    httpserver.expect_request("/data").respond_with_data("Here it is.")
    where = f"{httpserver.host}:{httpserver.port}"
    with GuardProxy(SharedMeter(QUICK), allow_hosts=hosts(httpserver)) as proxy:
        head = f"GET http://{where}/data?x=1 HTTP/1.1\r\nHost: other.example\r\nCookie: a=1\r\n"
        got = exchanged(proxy, f"{head}Proxy-Connection: keep-alive\r\n\r\n".encode())
        tunnel = f"CONNECT {where} HTTP/1.1\r\n\r\nGET /data HTTP/1.0\r\n\r\n"
        tunneled = exchanged(proxy, tunnel.encode())

    asked = httpserver.log[0][0]
    assert got.endswith(b"Here it is.") and b"Connection: close" in got
    assert asked.headers["Host"] == where and "Cookie" not in asked.headers
    assert (
        tunneled.startswith(b"HTTP/1.1 200 Connection established") and b"Here it is." in tunneled
    )


def test_the_browsers_own_updates_stay_inside():
    asked: list[str] = []
    resolver = lambda host, port: asked.append(host) or []  # noqa: E731
    with GuardProxy(SharedMeter(QUICK), allow_hosts=frozenset(), resolver=resolver) as proxy:
        got = exchanged(proxy, b"CONNECT update.googleapis.com:443 HTTP/1.1\r\n\r\n")

        assert got.startswith(b"HTTP/1.1 502") and asked == []
        assert proxy.refused == 0  # the page asked for nothing


@pytest.mark.parametrize(
    "request_line",
    [
        "GET http://127.0.0.1:{port}/ HTTP/1.1", "CONNECT 127.0.0.1:{port} HTTP/1.1",
        "CONNECT localhost:443 HTTP/1.1", "CONNECT [::1]:443 HTTP/1.1",
        "CONNECT 169.254.169.254:80 HTTP/1.1", "CONNECT example.org:22 HTTP/1.1",
        "GET ftp://example.org/ HTTP/1.1", "GET / HTTP/1.1", "CONNECT user@example.org:443 HTTP/1.1",
        "DELETE http://example.org/ HTTP/1.1", "GET https://example.org/ HTTP/1.1", "nonsense",
        "CONNECT rebound.example:443 HTTP/1.1", "CONNECT both.example:80 HTTP/1.1",
    ],
)  # fmt: skip
def test_the_proxy_connects_to_nothing_that_the_guard_refuses(
    httpserver: HTTPServer, request_line: str, monkeypatch: pytest.MonkeyPatch
):
    opened: list[Any] = []
    monkeypatch.setattr(
        guard_proxy.httpcore.SyncBackend, "connect_tcp", lambda *a, **k: opened.append(a)
    )
    names = {"rebound.example": ["127.0.0.1"], "both.example": ["93.184.216.34", "10.0.0.1"]}
    resolver = lambda host, port: names[host]  # noqa: E731
    with GuardProxy(SharedMeter(QUICK), resolver=resolver) as proxy:
        got = exchanged(proxy, request_line.format(port=httpserver.port).encode() + b"\r\n\r\n")

    assert got.startswith((b"HTTP/1.1 403", b"HTTP/1.1 502"))
    assert opened == [] and httpserver.log == []


def test_the_proxy_ends_with_its_connections(httpserver: HTTPServer):
    waiting = threading.Event()
    httpserver.expect_request("/slow").respond_with_handler(
        lambda request: (waiting.wait(5), Response("late"))[1]
    )
    where = f"{httpserver.host}:{httpserver.port}"
    with GuardProxy(SharedMeter(QUICK), allow_hosts=hosts(httpserver)) as proxy:
        host, _sep, port = proxy.address.rpartition(":")
        client = socket.create_connection((host, int(port)), 5)
        client.sendall(f"GET http://{where}/slow HTTP/1.1\r\n\r\n".encode())
    with client, contextlib.suppress(ConnectionResetError):
        assert client.recv(100) == b""
    waiting.set()
    with pytest.raises(OSError):
        socket.create_connection((host, int(port)), 1).close()


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can't start it with its sandbox")
def test_a_browser_that_cant_use_its_sandbox_says_so(
    on: None, httpserver: HTTPServer, settings: Any
):
    settings.BEACON_CHROMIUM_SANDBOX = True

    with pytest.raises(ProviderUnavailable, match="needs BEACON_CHROMIUM_SANDBOX=0"):
        browser.render(app(httpserver), allow_hosts=hosts(httpserver))
