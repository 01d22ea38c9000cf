"""A page's scripts in Beacon's own Chromium reach no neighboring machine, by no way that browsers have."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpcore
import httpx
import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from beacon_site.net import browser, guard_proxy
from beacon_site.net.bounded import MIB, Limits
from tests.attacks.address_forms import REDIRECTS
from tests.attacks.figures import Count
from tests.attacks.test_addresses import PUBLIC, Names, names, private, shots
from tests.providers.raw_server import RawServer

__all__ = ["names", "private"]

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]

LIMITS = Limits(whole_seconds=80.0, slow_seconds=float("inf"), wire_bytes=20 * MIB)
DONE = "All were tried."
# Everything at once: a page that waits for one of them would be ended by its time.
BY_FETCH = """<body><script>
const over = (work) => Promise.race([work, new Promise((end) => setTimeout(end, 8000))]);
const one = (url) => { try { return fetch(url, {mode: 'no-cors'}).catch(() => 0); } catch { return 0; } };
over(Promise.allSettled(URLS.map(one))).then(() => { document.body.textContent = 'DONE'; });
</script></body>"""
BY_ANYTHING = """<body><script>
const tries = [
  (u) => { new WebSocket(u.replace('http', 'ws')); },
  (u) => { new EventSource(u); },
  (u) => { navigator.sendBeacon(u, 'x'); },
  (u) => { fetch(u, {method: 'POST', body: 'x', mode: 'no-cors', keepalive: true}); },
  (u) => { const x = new XMLHttpRequest(); x.open('GET', u); x.send(); },
  (u) => { new Image().src = u; },
  (u) => { add('script', {src: u}); },
  (u) => { add('iframe', {src: u}); },
  (u) => { add('object', {data: u}); },
  (u) => { add('video', {src: u}); },
  (u) => { for (const rel of ['stylesheet', 'preload', 'prefetch', 'preconnect', 'dns-prefetch', 'manifest', 'icon', 'prerender'])
    add('link', {rel: rel, href: u, as: 'fetch'}); },
  (u) => { add('style', {textContent: `@import url(${u}); body { background: url(${u}) }`}); },
  (u) => { const f = add('form', {action: u, method: 'post', target: 'x'}); add('iframe', {name: 'x'}); f.submit(); },
  (u) => { window.open(u); },
  (u) => { new Worker(URL.createObjectURL(new Blob([`importScripts('${u}'); fetch('${u}')`]))); },
  (u) => { new SharedWorker(`data:text/javascript,fetch('${u}', {mode: 'no-cors'})`); },
  (u) => { navigator.serviceWorker.register(`/worker.js?${encodeURIComponent(u)}`); },
  (u) => { new WebTransport(u.replace('http:', 'https:')); },
  (u) => { const at = new URL(u).host; const p = new RTCPeerConnection({iceServers: [{urls: [`stun:${at}`]},
    {urls: [`turn:${at}?transport=udp`, `turn:${at}?transport=tcp`], username: 'a', credential: 'b'}]});
    p.createDataChannel('x'); p.createOffer().then((o) => p.setLocalDescription(o)); },
  (u) => { add('script', {type: 'speculationrules', textContent: JSON.stringify({prefetch: [{source: 'list', urls: [u]}], prerender: [{source: 'list', urls: [u]}]})}); },
  (u) => { const f = add('iframe', {}); f.contentWindow.fetch(u, {mode: 'no-cors'}); },
  (u) => { add('iframe', {src: `data:text/html,<meta http-equiv=refresh content="0;url=${u}">`}); },
];
function add(name, values) { return document.body.appendChild(Object.assign(document.createElement(name), values)); }
for (const url of URLS) for (const act of tries) { try { act(url); } catch {} }
setTimeout(() => { document.body.textContent = 'DONE'; }, 6000);
</script></body>"""

# Pages of 127.0.0.1 can have such a worker without HTTPS.
SERVICE_WORKER = """const there = decodeURIComponent(location.search.slice(1));
self.addEventListener('install', (event) => {
  event.waitUntil(Promise.allSettled([fetch(there, {mode: 'no-cors'}), fetch('/worked')]));
});"""


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The addresses that Beacon connects to. Nothing outside this machine is really opened."""
    opened: list[tuple[str, int]] = []
    real = httpcore.SyncBackend.connect_tcp

    def connect(self: Any, host: str, port: int, *rest: Any, **more: Any) -> Any:
        opened.append((host, port))
        if host != "127.0.0.1":
            raise httpcore.ConnectError
        return real(self, host, port, *rest, **more)

    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", connect)
    return opened


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs that the browser asked the proxy for."""
    said: list[str] = []
    real = guard_proxy.check_url

    def check(url: str, *rest: Any) -> Any:
        said.append(url)
        return real(url, *rest)

    monkeypatch.setattr(guard_proxy, "check_url", check)
    return said


@pytest.fixture
def datagrams(private: RawServer) -> Iterator[socket.socket]:
    """A UDP socket at the neighboring server's port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", private.port))
        made.setblocking(False)
        yield made


@pytest.fixture(autouse=True)
def on(settings: Any, chromium_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.BEACON_CHROMIUM, settings.BEACON_CHROMIUM_SANDBOX = chromium_path, False
    monkeypatch.setattr(browser, "LOAD_SECONDS", 40.0)


def opened(server: HTTPServer, page: str, urls: list[str]) -> str:
    """Return the text of a page at an exempt host, whose scripts try these URLs."""
    body = page.replace("URLS", json.dumps(urls).replace("<", "\\u003c")).replace("DONE", DONE)
    server.expect_request("/page").respond_with_data(body, content_type="text/html; charset=utf-8")
    host = f"127.0.0.1:{server.port}"
    html, _url = browser.render(
        f"http://{host}/page", allow_hosts=frozenset({host, "10.0.0.1:80"}), limits=LIMITS
    )
    return html


def own(server: HTTPServer, found: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return [one for one in found if one != ("127.0.0.1", server.port)]


@pytest.mark.requirement("R374")
def test_no_form_of_an_address_is_reached(
    httpserver: HTTPServer, private: RawServer, names: Names, count: Count,
    connected: list[tuple[str, int]], asked: list[str],
) -> None:  # fmt: skip
    tried = [*shots(private.port, names), "http://10.0.0.1/"]

    for place in range(0, len(tried), 200):
        assert DONE in opened(httpserver, BY_FETCH, tried[place : place + 200])
        httpserver.clear()

    count("address: a page's scripts in the browser", len(tried), run=len(private.requests))
    assert private.received == 0
    assert own(httpserver, connected) == []
    assert len(asked) > 500


@pytest.mark.parametrize(
    "without",
    [browser._WITHOUT, pytest.param("0", marks=pytest.mark.long)],
    ids=["as it is", "by settings only"],
)
def test_no_way_that_browsers_have_goes_around_the_guard(
    httpserver: HTTPServer, private: RawServer, names: Names, datagrams: socket.socket,
    count: Count, connected: list[tuple[str, int]], asked: list[str], without: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(browser, "_WITHOUT", without)
    monkeypatch.setattr(browser, "LOAD_SECONDS", 10.0)
    names["inside.evil.example"] = ["127.0.0.1"]
    urls = [
        f"http://127.0.0.1:{private.port}/", f"http://localhost:{private.port}/",
        f"http://inside.evil.example:{private.port}/", f"http://[::1]:{private.port}/",
        "http://169.254.169.254/latest/meta-data/",
    ]  # fmt: skip

    httpserver.expect_request("/worker.js").respond_with_data(
        SERVICE_WORKER, content_type="text/javascript"
    )

    assert DONE in opened(httpserver, BY_ANYTHING, urls)

    count("address: every way out of the browser", len(urls) * BY_ANYTHING.count("(u) =>"), run=len(private.requests))  # fmt: skip
    assert private.received == 0
    with pytest.raises(BlockingIOError):
        datagrams.recv(100)
    assert own(httpserver, connected) == []
    assert any("inside.evil.example" in url for url in asked)
    assert "/worked" in {request.path for request, _response in httpserver.log}


@pytest.mark.parametrize(
    "to",
    [
        "http://inside.evil.example:{port}/",
        pytest.param("http://127.0.0.1:{port}/", marks=pytest.mark.long),
    ],
)
def test_redirects_lead_nowhere(
    httpserver: HTTPServer, private: RawServer, names: Names, to: str, count: Count
) -> None:
    names["inside.evil.example"] = ["127.0.0.1"]
    there = to.format(port=private.port)

    def redirect(request: Request) -> Response:
        return Response(status=int(request.path[4:]), headers={"Location": there})

    for status in REDIRECTS:
        httpserver.expect_request(f"/to/{status}").respond_with_handler(redirect)
    own_urls = [f"http://127.0.0.1:{httpserver.port}/to/{status}" for status in REDIRECTS]

    assert DONE in opened(httpserver, BY_FETCH, own_urls)
    httpserver.expect_request("/leave").respond_with_data(
        f"<script>location = '{there}'</script>", content_type="text/html"
    )
    host = f"127.0.0.1:{httpserver.port}"
    for path in ("leave", "to/302"):
        with pytest.raises((browser.ProviderRejected, browser.ProviderUnavailable)):
            browser.render(f"http://{host}/{path}", allow_hosts=frozenset({host}), limits=LIMITS)

    count("address: redirects in the browser", len(REDIRECTS) + 2, run=len(private.requests))
    assert private.received == 0


def test_a_name_that_changes_its_address_is_judged_each_time(
    httpserver: HTTPServer, private: RawServer, connected: list[tuple[str, int]], count: Count,
    asked: list[str],
) -> None:  # fmt: skip
    answers = iter([PUBLIC, "127.0.0.1"] * 20)
    host = f"127.0.0.1:{httpserver.port}"
    lookup = lambda name, port: ["127.0.0.1"] if name == "127.0.0.1" else [next(answers)]  # noqa: E731
    page = BY_FETCH.replace("URLS", json.dumps([f"http://rebound.evil.example:{private.port}/{n}" for n in range(10)]))  # fmt: skip
    httpserver.expect_request("/page").respond_with_data(page, content_type="text/html")

    browser.render(
        f"http://{host}/page", allow_hosts=frozenset({host}), resolver=lookup, limits=LIMITS
    )

    count("address: a name that is rebound in the browser", 10, run=len(private.requests))
    assert private.received == 0
    assert {address for address, _port in own(httpserver, connected)} == {PUBLIC}
    # Nor does Chromium ask its vendor's servers.
    hosts = {"rebound.evil.example", "127.0.0.1"}
    assert {httpx.URL(url).host for url in asked} == hosts
