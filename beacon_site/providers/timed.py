"""Connections whose reads end with the request's own time, for httpcore and for its twin httpcore2.

A time limit on each read is not enough: a server that sends one byte of its headers a second never
meets it.  The services' client is httpx on httpcore, the model's is httpx2 on httpcore2: two packages
with the same classes, so what is made here takes the place of either's backend and streams.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import httpcore
import httpx


class _Clock(threading.local):
    """When the request that this thread reads must be over (monotonic)."""

    ends_at = float("inf")


CLOCK = _Clock()


class _TimedStream:
    """A connection of which each read waits only for as long as is left, however slow the server."""

    def __init__(self, inner: Any, left: Callable[[], float], over: type[Exception]) -> None:
        self._inner, self._left, self._over = inner, left, over

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read what is there; raises the library's ReadTimeout at the end of the time."""
        left = self._left()
        if left <= 0:
            raise self._over("the time is over")
        found: bytes = self._inner.read(max_bytes, left if timeout is None else min(left, timeout))
        return found

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send the request."""
        self._inner.write(buffer, timeout)

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> _TimedStream:
        """Shake hands; what comes after is timed too."""
        safe = self._inner.start_tls(ssl_context, server_hostname, timeout)
        return _TimedStream(safe, self._left, self._over)

    def get_extra_info(self, info: str) -> Any:
        """Return what the connection below knows about itself."""
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
    """Return the backend with its reads timed: `left` says for how many seconds one may wait still,
    `over` is what is raised when there are none."""
    return _TimedBackend(backend, left, over)


@cache
def trusted() -> ssl.SSLContext:
    """Return the certificates to trust, read once: 30 ms of CPU, and a run has eight services."""
    return httpx.create_ssl_context(trust_env=False)


def _left() -> float:
    return CLOCK.ends_at - time.monotonic()


class TimedTransport(httpx.HTTPTransport):
    """The client's own transport; set CLOCK.ends_at before each request."""

    def __init__(self) -> None:
        # trust_env=False: a proxy or netrc of the shell must not decide where a key is sent.
        super().__init__(verify=trusted(), trust_env=False)
        # The library passes no backend on, so its pool is made again, with one.
        self._pool = httpcore.ConnectionPool(
            ssl_context=trusted(),
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=timed(httpcore.SyncBackend(), _left, httpcore.ReadTimeout),
        )
