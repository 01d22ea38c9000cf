"""Hostile pages, fetched with a run's limits."""

from __future__ import annotations

import random
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from beacon_site.net.errors import ProviderError
from beacon_site.net.extract import Extractor
from beacon_site.net.fetch import GuardedFetcher
from tests.conftest import Say
from tests.providers.certificates import certificate
from tests.providers.raw_server import RawServer, http
from tests.providers.test_extract_charsets import DECLARED, PYTHON_NAMES, page

pytestmark = [pytest.mark.faults, pytest.mark.long, pytest.mark.timeout(300)]

MIB = 1024 * 1024
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
SECONDS, MEMORY = 25, 64 * MIB


def _bomb() -> bytes:
    """512 MiB of blanks in half a MiB; packed only when it is asked for, which takes seconds."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(packer.compress(b" " * MIB) for _ in range(512)) + packer.flush()
    return http(packed, content_encoding="gzip")


def _chunks(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")


def _drip(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"\r\n<p>")
    for _second in range(60):
        time.sleep(1)
        connection.sendall(b"x")


def _stream(connection: socket.socket) -> None:
    connection.sendall(HEAD + b"\r\n<p>")
    for _part in range(1200):
        time.sleep(0.05)
        connection.sendall(b"x" * 512)


def _silent(connection: socket.socket) -> None:
    connection.settimeout(60)
    connection.recv(1)


def _hop(connection: socket.socket) -> None:
    connection.sendall(http(status="302 Found", location="/next"))


# What a page does -> what the server answers, and a word of why it is not read.
BOMB = "is 512 MiB in half a MiB of gzip"
PAGES: dict[str, tuple[bytes | Callable[[socket.socket], None], str]] = {
    BOMB: (b"", "decompressed page is larger"),
    "is packed by brotli": (http(b"\x8b" * 4000, content_encoding="br"), "didn’t ask for"),
    "comes in chunks without end": (_chunks, "larger than 5 MiB"),
    "comes at 1 byte a second": (_drip, "fewer than 1024 bytes per second"),
    "comes fast enough and without end": (_stream, "didn’t finish"),
    "says nothing": (_silent, "didn’t finish"),
    "redirects 20 times": (_hop, "redirected more than"),
    "redirects to a private address": (
        http(status="302 Found", location="http://169.254.169.254/latest/"),
        "redirects to a URL that Beacon won’t open",
    ),
    "is shorter than it says": (http(b"<p>short</p>", content_length="4000"), ""),
}


class Peak:
    """The most memory that this process had during the measurement, over what it had before."""

    def __enter__(self) -> Peak:
        self._here = psutil.Process()
        self._before = self._most = self._here.memory_info().rss
        self._over = threading.Event()
        self._looking = threading.Thread(target=self._look)
        self._looking.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(0.01):
            self._most = max(self._most, self._here.memory_info().rss)

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        self._looking.join()

    @property
    def added(self) -> int:
        return self._most - self._before


@pytest.fixture(scope="module")
def extractor() -> Iterator[Extractor]:
    reader = Extractor()
    reader.extract(b"<p>It is started before anything is measured.</p>")
    yield reader
    reader.close()


def _fetched(server: RawServer, extractor: Extractor) -> tuple[str, float, int]:
    """Return why a page was not read, after how many seconds, and the memory that it took."""
    fetcher = GuardedFetcher(allow_hosts=frozenset({server.host}), extractor=extractor)
    began, why = time.monotonic(), ""
    with Peak() as peak:
        try:
            fetcher.fetch(server.url)
        except ProviderError as exc:
            why = str(exc)
    return why, time.monotonic() - began, peak.added


def _told(say: Say, name: str, why: str, seconds: float, added: int) -> None:
    say(
        f"a page that {name}",
        f"at most {SECONDS} s and {MEMORY // MIB} MiB; the error gives the reason",
        f"{seconds:.1f} s, {max(0, added) / MIB:.0f} MiB: “{why}”",
    )


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_is_made_to_hurt_is_given_up_in_time(name: str, extractor: Extractor, say: Say):
    answer, word = PAGES[name]
    with RawServer(_bomb() if name == BOMB else answer) as server:
        why, seconds, added = _fetched(server, extractor)
    _told(say, name, why, seconds, added)

    assert why and word in why
    assert seconds < 2 * SECONDS
    assert added < MEMORY


def test_a_page_behind_a_certificate_that_no_one_signed_is_not_read(
    tmp_path: Path, extractor: Extractor, say: Say
):
    served, _trusted = certificate(tmp_path, name="127.0.0.1", days=10)
    assert isinstance(served, ssl.SSLContext)
    with RawServer(http(b"<p>x</p>"), tls=served) as server:
        why, seconds, added = _fetched(server, extractor)
    _told(say, "is behind a certificate that no authority signed", why, seconds, added)

    assert "certificate" in why
    assert seconds < 2 * SECONDS


NOISE = random.Random(7).randbytes(250_001)
HOSTILE = {
    "charsets": [page(text).encode(PYTHON_NAMES.get(name, name)) for name, text in DECLARED],
    "NULs": [b"<p>a\x00b\x00\x00c</p>" * 500, b"\x00" * 5000 + b"<p>words that stay</p>"],
    "lone surrogates": [b"<p>a &#xd800; b \xed\xa0\x80 c words</p>" * 200],
    "nested and broken tags": [
        b"<div>" * 400 + b"deep words" + b"</p>" * 400,
        b"<table><tr><td>" * 300 + b"words",
        b"<p>words <!-- " + b"-" * 100_000,
        b"<p " + b"a=1 " * 50_000 + b">words",
        b"<![CDATA[" * 20_000 + b"words",
        b"&amp" * 100_000 + b"<p>words",
    ],
    "random bytes": [NOISE[:200_000], b"\xff\xfe" + NOISE[200_000:]],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_pages_come_out_as_valid_text_or_as_a_reason(
    kind: str, extractor: Extractor, say: Say
):
    longest, read, refused, bad = 0.0, 0, 0, 0
    for content in HOSTILE[kind]:
        began = time.monotonic()
        try:
            text = extractor.extract(content, content_type="text/html").text
        except ProviderError as exc:
            refused += 1
            bad += not str(exc).endswith(".")
        else:
            read += 1
            bad += "\0" in text or text != text.encode(errors="replace").decode()
        longest = max(longest, time.monotonic() - began)
    say(
        f"hostile pages for the reader: {kind}",
        "killed at 10 s; the text is valid UTF-8 without NUL",
        f"{len(HOSTILE[kind])} pages: {read} read, {refused} rejected with a reason, the longest "
        f"took {longest:.1f} s, {bad} bad",
    )

    assert bad == 0
    assert longest < 2 * 10
