"""Servers that misbehave: limits on time and memory, and a clear error."""

from __future__ import annotations

import gzip
import socket
import ssl
import time
import zlib
from pathlib import Path

import psutil
import pytest

from beacon_site.net.bounded import Limits
from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.extract import Extractor
from beacon_site.net.fetch import GuardedFetcher, WebPage
from tests.providers.certificates import certificate
from tests.providers.raw_server import RawServer, http

MIB = 1024 * 1024
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
QUICK = Limits(connect_seconds=0.5, whole_seconds=1.5, slow_seconds=0.6)


def fetch(
    server: RawServer,
    extractor: Extractor,
    limits: Limits | None = None,
    tls: ssl.SSLContext | None = None,
) -> WebPage:
    fetcher = GuardedFetcher(
        limits=limits, allow_hosts=frozenset({server.host}), extractor=extractor, tls=tls
    )
    return fetcher.fetch(server.url)


@pytest.mark.parametrize("step", [b"<p>", b"HTTP/1.1 200 OK\r\nX: "])
def test_a_byte_at_a_time_is_dropped_as_too_slow(step: bytes, extractor: Extractor):
    def drip(connection: socket.socket) -> None:
        connection.sendall(step if step.startswith(b"HTTP") else HEAD + b"\r\n" + step)
        while server.pause(0.05):
            connection.sendall(b"x")

    with RawServer(drip) as server:
        started = time.monotonic()
        with pytest.raises(ProviderUnavailable, match="fewer than 1024 bytes per second"):
            fetch(server, extractor, QUICK)
        assert time.monotonic() - started < 1.2


def test_a_server_that_says_nothing_is_given_up_on(extractor: Extractor):
    def silent(_connection: socket.socket) -> None:
        server.pause(10)

    with RawServer(silent) as server:
        started = time.monotonic()
        with pytest.raises(ProviderUnavailable, match=r"didn’t finish within 1\.5 seconds"):
            fetch(server, extractor, QUICK)
        assert time.monotonic() - started < 3


def test_a_fast_enough_stream_without_end_is_stopped_at_the_deadline(extractor: Extractor):
    def endless(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"\r\n")
        while server.pause(0.01):
            connection.sendall(b"x" * 512)

    with RawServer(endless) as server, pytest.raises(ProviderUnavailable, match="didn’t finish"):
        fetch(server, extractor, QUICK)


def test_endless_chunks_stop_at_five_mebibytes(extractor: Extractor):
    def endless(connection: socket.socket) -> None:
        connection.sendall(CHUNKED)
        while True:
            connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")

    with RawServer(endless) as server, pytest.raises(ProviderRejected, match="larger than 5 MiB"):
        fetch(server, extractor)


def test_endless_chunks_of_one_byte_stop_too(extractor: Extractor):
    def endless(connection: socket.socket) -> None:
        connection.sendall(CHUNKED)
        while True:
            connection.sendall(b"1\r\nx\r\n" * 10000)

    with RawServer(endless) as server:
        started = time.monotonic()
        with pytest.raises(ProviderRejected, match="too many tiny pieces"):
            fetch(server, extractor)
        assert time.monotonic() - started < 8


def test_headers_without_end_are_refused(extractor: Extractor):
    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            connection.sendall(b"X-Filler: " + b"y" * 1000 + b"\r\n")

    with RawServer(endless) as server, pytest.raises(ProviderUnavailable, match="valid HTTP"):
        fetch(server, extractor)


def test_interim_answers_without_end_are_refused(extractor: Extractor):
    def endless(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)

    with RawServer(endless) as server, pytest.raises((ProviderRejected, ProviderUnavailable)):
        fetch(server, extractor, Limits(whole_seconds=2))


def test_a_page_that_announces_too_much_is_not_begun(extractor: Extractor):
    with (
        RawServer(http(b"<p>x</p>", content_length=str(9 * MIB))) as server,
        pytest.raises(ProviderRejected, match="larger than 5 MiB"),
    ):
        fetch(server, extractor)


@pytest.mark.parametrize(
    "answer",
    [
        http(b"<p>short</p>", content_length="4000"),
        CHUNKED + b"5\r\nhello\r\n",
        CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n",
        b"",
        b"HTTP/1.1 200",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx",
        http(gzip.compress(b"<p>hello</p>" * 100)[:40], content_encoding="gzip"),
    ],
)
def test_an_answer_cut_short_or_garbled_can_be_tried_again(answer: bytes, extractor: Extractor):
    with RawServer(answer) as server, pytest.raises(ProviderUnavailable) as broken:
        fetch(server, extractor)

    assert str(broken.value).endswith(".")


def _bomb(size: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(packer.compress(b" " * MIB) for _ in range(size // MIB)) + packer.flush()


def test_a_gzip_bomb_is_refused_and_costs_no_memory(extractor: Extractor):
    bomb = _bomb(512 * MIB)
    before = psutil.Process().memory_info().rss
    with (
        RawServer(http(bomb, content_encoding="gzip")) as server,
        pytest.raises(ProviderRejected, match="decompressed page is larger than 8 MiB"),
    ):
        fetch(server, extractor)

    assert psutil.Process().memory_info().rss - before < 64 * MIB


def test_a_page_that_unpacks_to_more_than_is_read_is_refused(extractor: Extractor):
    with (
        RawServer(http(_bomb(9 * MIB), content_encoding="gzip")) as server,
        pytest.raises(ProviderRejected, match="decompressed page is larger than 8 MiB"),
    ):
        fetch(server, extractor)


def test_a_bomb_of_many_small_gzip_members_is_refused(extractor: Extractor):
    members = gzip.compress(b"") * 100_000
    with RawServer(http(members, content_encoding="gzip")) as server:
        started = time.monotonic()
        with pytest.raises(ProviderRejected, match="unusual way"):
            fetch(server, extractor)
        assert time.monotonic() - started < 3


def test_damaged_gzip_is_refused(extractor: Extractor):
    with (
        RawServer(http(b"\x1f\x8b\x08 not gzip", content_encoding="gzip")) as server,
        pytest.raises(ProviderRejected, match="can’t be decompressed"),
    ):
        fetch(server, extractor)


def test_a_trusted_certificate_is_checked_against_the_name_in_the_address(
    tmp_path: Path, extractor: Extractor
):
    served, trusted = certificate(tmp_path, name="news.example.org", days=10)
    tls = ssl.create_default_context(cafile=trusted)
    with RawServer(http(b"<p>Signed and read.</p>"), tls=served) as server:
        fetcher = GuardedFetcher(
            allow_hosts=frozenset(
                {f"news.example.org:{server.port}", f"other.example.org:{server.port}"}
            ),
            resolver=lambda _host, _port: ["127.0.0.1"],
            extractor=extractor,
            tls=tls,
        )
        page = fetcher.fetch(f"https://news.example.org:{server.port}/")
        with pytest.raises(ProviderRejected, match=r"certificate .* isn’t valid.*mismatch"):
            fetcher.fetch(f"https://other.example.org:{server.port}/")

    assert page.text == "Signed and read."


@pytest.mark.parametrize(("days", "why"), [(10, "self-signed"), (-1, "isn’t valid")])
def test_a_certificate_that_is_not_to_be_trusted_is_refused(
    days: int, why: str, tmp_path: Path, extractor: Extractor
):
    served, trusted = certificate(tmp_path, name="127.0.0.1", days=days)
    tls = ssl.create_default_context(cafile=trusted) if days < 0 else None
    with (
        RawServer(http(b"<p>x</p>"), tls=served) as server,
        pytest.raises(ProviderRejected, match=why),
    ):
        fetch(server, extractor, tls=tls)


def test_plain_text_where_tls_was_expected_is_refused(extractor: Extractor):
    with RawServer(http(b"<p>x</p>")) as server:
        fetcher = GuardedFetcher(allow_hosts=frozenset({server.host}), extractor=extractor)
        with pytest.raises(ProviderRejected, match="connect securely"):
            fetcher.fetch(f"https://{server.host}/")


def test_a_redirect_from_https_to_http_is_not_followed(tmp_path: Path, extractor: Extractor):
    served, trusted = certificate(tmp_path, name="127.0.0.1", days=10)
    with RawServer(http(b"<p>plain</p>")) as plain:
        moved = http(status="302 Found", location=plain.url)
        with RawServer(moved, tls=served) as server:
            fetcher = GuardedFetcher(
                allow_hosts=frozenset({server.host, plain.host}),
                extractor=extractor,
                tls=ssl.create_default_context(cafile=trusted),
            )
            with pytest.raises(ProviderRejected, match="from https to http"):
                fetcher.fetch(server.url)
        assert plain.received == 0


def test_a_handshake_that_never_ends_is_given_up_on(extractor: Extractor):
    def silent(_connection: socket.socket) -> None:
        server.pause(10)

    with RawServer(silent) as server:
        fetcher = GuardedFetcher(
            limits=QUICK, allow_hosts=frozenset({server.host}), extractor=extractor
        )
        started = time.monotonic()
        with pytest.raises(ProviderUnavailable):
            fetcher.fetch(f"https://{server.host}/")
        assert time.monotonic() - started < 2


def test_a_redirect_chain_shares_one_deadline(extractor: Extractor):
    def slowly(connection: socket.socket) -> None:
        server.pause(0.5)
        connection.sendall(http(status="302 Found", location="/again"))

    with RawServer(slowly) as server:
        started = time.monotonic()
        with pytest.raises(ProviderUnavailable, match="didn’t finish"):
            fetch(server, extractor, QUICK)
        assert time.monotonic() - started < 3


@pytest.mark.parametrize(
    "place", ["http://[", "http://exa mple.org:x/", "http://\xff\xfe/", "\\\\x"]
)
def test_a_redirect_to_what_isnt_an_address_is_reported(place: str, extractor: Extractor):
    moved = http(status="302 Found").replace(
        b"\r\n\r\n", b"\r\nLocation: %b\r\n\r\n" % place.encode()
    )
    with RawServer(moved) as server, pytest.raises(ProviderRejected, match="redirects to"):
        fetch(server, extractor)
