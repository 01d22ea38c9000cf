"""Limits on the size, time and decompression of responses.

Limiting the bytes received isn't enough, since they can expand a thousandfold.  So only gzip is
requested and accepted, and it is decompressed here in pieces, never past the limit.
"""

from __future__ import annotations

import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import httpcore
import httpx

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.text.messages import gettext as _

ACCEPT_ENCODING = "gzip, identity"
GZIP = 16 + zlib.MAX_WBITS
# A gzip body can have several members in a row; hostile ones are 20 bytes each.
MAX_MEMBERS = 64


class Decompressor(Protocol):
    """Decompresses the pieces of a body as they arrive."""

    def feed(self, piece: bytes) -> bytes:
        """Decompress one piece; raises ProviderRejected past the limit or if it's damaged."""
        ...

    def finish(self) -> None:
        """End the body; raises ProviderUnavailable if it is incomplete."""
        ...


def unpacker_for(encoding: str, *, limit: int) -> Decompressor:
    """Return the unpacker for a Content-Encoding, limited to `limit` bytes of content.

    Raises ProviderRejected for any encoding that wasn't requested, and for chained ones.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return _Identity(limit)
    if name in ("gzip", "x-gzip"):
        return _Gunzip(limit)
    raise ProviderRejected(
        _("The server compressed the page with “%(encoding)s”, which Beacon didn’t ask for.")
        % {"encoding": name[:60]}
    )


class _Identity:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0

    def feed(self, piece: bytes) -> bytes:
        self._size += len(piece)
        if self._size > self._limit:
            raise _too_much(self._limit)
        return piece

    def finish(self) -> None:
        return


class _Gunzip:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._members = 0
        self._inflate = zlib.decompressobj(GZIP)
        self._touched = False

    def feed(self, piece: bytes) -> bytes:
        content = bytearray()
        while piece:
            if self._inflate.eof and not self._next_member(piece):
                break
            self._touched = True
            try:
                content += self._inflate.decompress(piece, self._limit - self._size + 1)
            except zlib.error as exc:
                raise ProviderRejected(
                    _("The page is marked as gzip, but it can’t be decompressed.")
                ) from exc
            if self._size + len(content) > self._limit:
                raise _too_much(self._limit)
            piece = self._inflate.unused_data
        self._size += len(content)
        return bytes(content)

    def _next_member(self, piece: bytes) -> bool:
        """Start another member; bytes after the last one that aren't gzip are ignored."""
        if not piece.startswith(b"\x1f"):
            return False
        self._members += 1
        if self._members >= MAX_MEMBERS:
            raise ProviderRejected(
                _(
                    "The page is compressed in an unusual way, which can be a sign of an attack, so it was skipped."
                )
            )
        self._inflate = zlib.decompressobj(GZIP)
        return True

    def finish(self) -> None:
        if self._touched and not self._inflate.eof:
            raise ProviderUnavailable(
                _("The compressed page is incomplete. The server sent less data than it announced.")
            )


def _too_much(limit: int) -> ProviderRejected:
    return ProviderRejected(
        _("The decompressed page is larger than %(limit).3g MiB, so it was skipped.")
        % {"limit": limit / (1024 * 1024)}
    )


# --- time and size of a fetch ---

MIB = 1024 * 1024
WIRE_BYTES = 5 * MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one fetch, in seconds and bytes, so that no page can hold a run up or fill memory."""

    connect_seconds: float = 5.0
    whole_seconds: float = 20.0
    slow_seconds: float = 10.0
    slow_bytes_per_second: int = 1024
    wire_bytes: int = WIRE_BYTES
    unpacked_bytes: int = 8 * MIB
    redirects: int = 5


class Meter:
    """Counts the time and bytes of one fetch, and raises when either runs out."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.wire_bytes = 0
        self._ends_at = time.monotonic() + limits.whole_seconds
        self._window_ends_at = float("inf")  # until the first byte arrives
        self._window_bytes = 0

    def remaining(self) -> float:
        """Seconds left in total; raises ProviderUnavailable if there are none."""
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise self._too_long()
        return left

    def patience(self) -> float:
        """Seconds that the next read can wait before it is too long or too slow."""
        if time.monotonic() >= self._window_ends_at:
            self._end_window()
        return max(0.001, min(self.remaining(), self._window_ends_at - time.monotonic()))

    def waited(self) -> None:
        """Let a read that used up its patience wait again; raises if it can't."""
        self.remaining()
        if time.monotonic() >= self._window_ends_at:
            self._end_window()

    def room(self) -> int:
        """Bytes that the next read can take: those left, or one to find out whether there is more."""
        return max(1, self.limits.wire_bytes - self.wire_bytes)

    def next_answer(self) -> None:
        """Restart the measurement of speed, since a server can pause before each answer."""
        self._window_ends_at = float("inf")
        self._window_bytes = 0

    def count(self, received: int) -> None:
        """Add received bytes; raises ProviderRejected above the limit."""
        now = time.monotonic()
        self.wire_bytes += received
        if self.wire_bytes > self.limits.wire_bytes:
            raise too_large(self.limits.wire_bytes)
        if self._window_ends_at == float("inf"):
            self._window_ends_at = now + self.limits.slow_seconds
        self._window_bytes += received
        if now >= self._window_ends_at:
            self._end_window()

    def _end_window(self) -> None:
        if self._window_bytes < self.limits.slow_bytes_per_second * self.limits.slow_seconds:
            raise self._too_slow()
        self._window_bytes = 0
        self._window_ends_at = time.monotonic() + self.limits.slow_seconds

    def _too_long(self) -> ProviderUnavailable:
        return ProviderUnavailable(
            _("The server didn’t finish within %(seconds)g seconds, so Beacon stopped reading.")
            % {"seconds": self.limits.whole_seconds}
        )

    def _too_slow(self) -> ProviderUnavailable:
        return ProviderUnavailable(
            _(
                "The server sent fewer than %(rate)d bytes per second for %(seconds)g seconds, so Beacon stopped reading."
            )
            % {"rate": self.limits.slow_bytes_per_second, "seconds": self.limits.slow_seconds}
        )


def too_large(limit: int) -> ProviderRejected:
    """The error for a page of more than `limit` received bytes."""
    return ProviderRejected(
        _("The page is larger than %(limit).3g MiB, so it was skipped.") % {"limit": limit / MIB}
    )


class MeteredStream(httpcore.NetworkStream):
    """A connection whose reads, writes and handshake are limited by a meter."""

    def __init__(self, inner: httpcore.NetworkStream, meter: Meter) -> None:
        self._inner = inner
        self._meter = meter

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read available bytes, or raise when the meter's patience is used up.

        Bytes within the limit are always returned; only a read past it is refused.
        """
        most = min(max_bytes, self._meter.room())
        while True:
            try:
                received = self._inner.read(most, timeout=self._meter.patience())
                break
            except httpcore.ReadTimeout:
                self._meter.waited()
        self._meter.count(len(received))
        return received

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send the request, or raise if the server doesn't accept it in time."""
        self._inner.write(buffer, timeout=self._meter.remaining())

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        """Start TLS with the URL's host name, within the time for a connection."""
        limit = min(self._meter.limits.connect_seconds, self._meter.remaining())
        secured = self._inner.start_tls(ssl_context, server_hostname, timeout=limit)
        return MeteredStream(secured, self._meter)

    def get_extra_info(self, info: str) -> object:
        return self._inner.get_extra_info(info)


# --- deadlines for httpx connections ---


class _Clock(threading.local):
    """The deadline of the request that this thread reads (monotonic)."""

    ends_at = float("inf")


CLOCK = _Clock()


class _TimedStream:
    """A connection whose reads wait no longer than the time left."""

    def __init__(self, inner: Any, left: Callable[[], float], over: type[Exception]) -> None:
        self._inner, self._left, self._over = inner, left, over

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read available bytes; raises the library's ReadTimeout at the deadline."""
        left = self._left()
        if left <= 0:
            raise self._over("the time is over")
        found: bytes = self._inner.read(max_bytes, left if timeout is None else min(left, timeout))
        return found

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, timeout)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> _TimedStream:
        """Start TLS; later reads are limited too."""
        safe = self._inner.start_tls(ssl_context, server_hostname, timeout)
        return _TimedStream(safe, self._left, self._over)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _TimedBackend:
    def __init__(self, inner: Any, left: Callable[[], float], over: type[Exception]) -> None:
        self._inner, self._left, self._over = inner, left, over

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> _TimedStream:
        made = self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        return _TimedStream(made, self._left, self._over)

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


def timed(backend: Any, left: Callable[[], float], over: type[Exception]) -> Any:
    """Return the backend with limited reads: `left` returns the remaining seconds, and `over` is
    raised when there are none."""
    return _TimedBackend(backend, left, over)


@cache
def trusted() -> ssl.SSLContext:
    """Return the trusted certificates.  They are read once, since that takes 30 ms of CPU."""
    return httpx.create_ssl_context(trust_env=False)


def _seconds_left() -> float:
    return CLOCK.ends_at - time.monotonic()


class TimedTransport(httpx.HTTPTransport):
    """httpx's transport with a deadline; set CLOCK.ends_at before each request."""

    def __init__(self) -> None:
        # trust_env=False, since a proxy or netrc of the shell must not decide where a key is sent.
        super().__init__(verify=trusted(), trust_env=False)
        # The library doesn't accept a backend, so its pool is replaced by one with it.
        self._pool = httpcore.ConnectionPool(
            ssl_context=trusted(),
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=timed(httpcore.SyncBackend(), _seconds_left, httpcore.ReadTimeout),
        )
