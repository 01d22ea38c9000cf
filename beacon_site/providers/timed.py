"""Connections whose reads end with the request's own time, for the client of httpx.

A time limit on each read is not enough: a server that sends one byte of its headers a second never
meets it.  (openai_transport.py does the same for the model's client, which is httpx2.)
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterable
from functools import cache
from typing import Any

import httpcore
import httpx


class _Clock(threading.local):
    """When the request that this thread reads must be over (monotonic)."""

    ends_at = float("inf")


CLOCK = _Clock()


class _TimedStream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read what is there; raises ReadTimeout at the end of the request's time."""
        left = CLOCK.ends_at - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("the time is over")
        return self._inner.read(max_bytes, left if timeout is None else min(left, timeout))

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
    ) -> httpcore.NetworkStream:
        """Shake hands; what comes after is timed too."""
        return _TimedStream(self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """Return what the connection below knows about itself."""
        return self._inner.get_extra_info(info)


class _TimedBackend(httpcore.NetworkBackend):
    def __init__(self) -> None:
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        made = self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        return _TimedStream(made)

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


@cache
def trusted() -> ssl.SSLContext:
    """Return the certificates to trust, read once: 30 ms of CPU, and a run has eight services."""
    return httpx.create_ssl_context(trust_env=False)


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
            network_backend=_TimedBackend(),
        )
