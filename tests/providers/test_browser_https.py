"""HTTPS pages in Chromium: through the proxy's tunnels, which are guarded and limited too.

A public address leads to a TLS server on this machine, whose certificate only these tests trust.
"""

from __future__ import annotations

import base64
import hashlib
import os
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpcore
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from beacon_site.net import address_guard, browser, guard_proxy
from beacon_site.net.bounded import Limits
from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.fetch import GuardedFetcher
from tests.providers.certificates import certificate

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

NAME = "cells.example"
INSIDE = "inside.example"  # leads to this machine
PUBLIC = "93.184.216.34"
HTML = "text/html; charset=utf-8"
TEXT = "The plant in Skellefteå makes two million cells a year, which is twice as many as planned."
LIMITS = Limits(whole_seconds=25.0, slow_seconds=float("inf"), wire_bytes=300_000)
# A page's own worker also needs HTTPS.  It is tried with the rest.
TRIES = """<body><script>
const end = (text) => { document.body.textContent = text; };
const worker = navigator.serviceWorker.register('/worker.js').then(() => navigator.serviceWorker.ready);
const tries = URLS.flatMap((url) => [fetch(url, {mode: 'no-cors'}), new Promise((done) => {
  const socket = new WebSocket(url.replace('https', 'wss')); socket.onerror = socket.onclose = done; })]);
const late = new Promise((done) => setTimeout(done, 8000));
Promise.race([late, Promise.allSettled([worker, ...tries])]).then(() => end('All were tried.'));
</script></body>"""
WORKER = """self.addEventListener('install', (event) => {
  const tries = URLS.map((url) => fetch(url, {mode: 'no-cors'}));
  event.waitUntil(Promise.allSettled([...tries, fetch('/worked')]));
});"""


@pytest.fixture(autouse=True)
def on(settings: Any, chromium_path: str) -> None:
    settings.BEACON_CHROMIUM, settings.BEACON_CHROMIUM_SANDBOX = chromium_path, False


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    """A server's key and certificate."""
    return certificate(tmp_path, name=NAME, days=1)[1]


@pytest.fixture
def server(pem: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    """A TLS server, at an allowed port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    with HTTPServer(ssl_context=context, threaded=True) as made:
        monkeypatch.setitem(address_guard.PORTS, "https", made.port)
        yield made


@pytest.fixture
def trusted(pem: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chromium trusts the server's certificate."""
    key = x509.load_pem_x509_certificate(pem.read_bytes()).public_key()
    known = hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    flag = f"--ignore-certificate-errors-spki-list={base64.b64encode(known.digest()).decode()}"
    monkeypatch.setattr(browser, "FLAGS", (*browser.FLAGS, flag))


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that Beacon connects to. The public one is really this machine."""
    opened: list[str] = []
    real = httpcore.SyncBackend.connect_tcp

    def connect(self: Any, host: str, port: int, *rest: Any, **more: Any) -> Any:
        opened.append(host)
        return real(self, "127.0.0.1" if host == PUBLIC else host, port, *rest, **more)

    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", connect)
    return opened


def look_up(host: str, port: int) -> list[str]:
    return [PUBLIC if host == NAME else "127.0.0.1"]


def url_of(server: HTTPServer, path: str, name: str = NAME) -> str:
    return f"https://{name}:{server.port}{path}"


def rendered(server: HTTPServer, page: str, **more: Any) -> str:
    server.expect_request("/page").respond_with_data(page, content_type=HTML)
    limits = {"resolver": look_up, "limits": LIMITS, **more}
    html, _url = browser.render(url_of(server, "/page"), **limits)
    return html


def test_an_https_page_is_read_and_each_connection_is_pinned_to_one_look_up(
    server: HTTPServer, pem: Path, trusted: None, connected: list[str]
) -> None:
    page = "<body><script>fetch('/data').then((r) => r.text()).then((t) => { document.body.innerHTML = t; })</script></body>"
    server.expect_request("/app").respond_with_data(page, content_type=HTML)
    server.expect_request("/data").respond_with_data(
        f"<main><p>{TEXT}</p></main>", content_type=HTML
    )
    asked: list[str] = []

    def look_up_once(host: str, port: int) -> list[str]:
        asked.append(host)
        return look_up(host, port)

    fetcher = GuardedFetcher(resolver=look_up_once, tls=ssl.create_default_context(cafile=str(pem)))
    found = fetcher.fetch(url_of(server, "/app"))

    assert (found.text, found.final_url) == (TEXT, url_of(server, "/app"))
    assert set(asked) == {NAME} and set(connected) == {PUBLIC}
    assert len(asked) == len(connected) >= 2  # the fetcher's, and those of Chromium


@pytest.mark.slow
def test_a_certificate_that_no_one_trusts_is_refused(server: HTTPServer, connected: list[str]):
    with pytest.raises(ProviderUnavailable, match="ERR_CERT"):
        rendered(server, TEXT)

    assert server.log == []


@pytest.mark.slow
def test_no_tunnel_leads_to_a_private_address(
    server: HTTPServer, trusted: None, connected: list[str]
):
    names = [INSIDE, "127.0.0.1", "localhost", "[::1]", "169.254.169.254"]
    urls = [url_of(server, "/secret", name) for name in names]
    server.expect_request("/away").respond_with_response(
        Response(status=307, headers={"Location": urls[0]})
    )
    urls.append("/away")
    for path, body, kind in (
        ("/worker.js", WORKER, "text/javascript"), ("/worked", "yes", "text/plain"),
    ):  # fmt: skip
        server.expect_request(path).respond_with_data(
            body.replace("URLS", str(urls)), content_type=kind
        )

    page = rendered(server, TRIES.replace("URLS", str(urls)))

    paths = {request.path for request, _response in server.log}
    assert "All were tried." in page
    assert {"/away", "/worked"} <= paths and "/secret" not in paths
    assert set(connected) == {PUBLIC}


@pytest.mark.slow
def test_a_name_that_becomes_private_is_refused_from_then_on(
    server: HTTPServer, trusted: None, connected: list[str]
):
    # Each connection closes, so that the next request needs another one.
    def closing(request: Request) -> Response:
        return Response("yes", headers={"Connection": "close"})

    server.expect_request("/again").respond_with_handler(closing)
    answers = iter([PUBLIC] * 2)
    page = """<body><script>(async () => {
      for (let n = 0; n < 9; n++) { try { await fetch('/again'); } catch {} }
      document.body.textContent = 'All were tried.'; })()</script></body>"""

    found = rendered(server, page, resolver=lambda host, port: [next(answers, "127.0.0.1")])

    assert "All were tried." in found
    assert set(connected) == {PUBLIC} and len(connected) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("status", [302, 200])
def test_a_page_that_leads_to_a_private_address_isnt_read(
    server: HTTPServer, trusted: None, connected: list[str], status: int
):
    to = url_of(server, "/secret", INSIDE)
    server.expect_oneshot_request("/page").respond_with_data(
        f"<script>location = '{to}'</script>", status, {"Location": to}, HTML
    )

    with pytest.raises((ProviderRejected, ProviderUnavailable)):
        rendered(server, "")

    assert "/secret" not in {request.path for request, _response in server.log}
    assert set(connected) == {PUBLIC}


@pytest.mark.slow
@pytest.mark.attacks
@pytest.mark.long
def test_what_comes_through_a_tunnel_is_limited(
    server: HTTPServer, trusted: None, connected: list[str]
):
    server.expect_request("/large").respond_with_data(os.urandom(600_000))

    with pytest.raises(ProviderRejected, match="larger than"):
        rendered(server, "<body><script>fetch('/large').then((r) => r.blob())</script></body>")


@pytest.mark.slow
def test_what_a_page_sends_through_a_tunnel_is_limited(
    server: HTTPServer, trusted: None, connected: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(guard_proxy, "MAX_SENT", 100_000)
    arrived: list[int] = []

    def take(request: Request) -> Response:
        arrived.append(len(request.get_data()))
        return Response("yes")

    server.expect_request("/take").respond_with_handler(take)
    page = """<body><script>(async () => {
      for (let n = 0; n < 9; n++) {
        try { await fetch('/take', {method: 'POST', body: 'x'.repeat(40000)}); } catch {} }
      document.body.textContent = 'All were tried.'; })()</script></body>"""

    assert "All were tried." in rendered(server, page)
    assert arrived == [40_000, 40_000]


@pytest.mark.slow
@pytest.mark.attacks
@pytest.mark.long
def test_a_tunnel_that_never_answers_ends_with_the_time(
    server: HTTPServer, trusted: None, connected: list[str]
):
    over = threading.Event()
    server.expect_request("/wait").respond_with_handler(
        lambda request: (over.wait(20), Response("late"))[1]
    )
    short = Limits(whole_seconds=6.0, slow_seconds=float("inf"))
    try:
        with pytest.raises((ProviderRejected, ProviderUnavailable)):
            browser.render(url_of(server, "/wait"), resolver=look_up, limits=short)
    finally:
        over.set()
