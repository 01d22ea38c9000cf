"""How long and how much one fetch may take, measured where the bytes come in.

httpx and httpcore know a time limit for each read, which a server that sends one byte a
second never meets.  A `Meter` counts over the whole chain of requests of one fetch: headers,
redirects and bodies, as they came over the wire.
"""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass

import httpcore
from django.utils.translation import gettext as _

from beacon_site.providers.errors import ProviderRejected, ProviderUnavailable

MIB = 1024 * 1024
WIRE_BYTES = 5 * MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """What one fetch may cost.  Seconds and bytes; the numbers are reliability.md's, 2."""

    connect_seconds: float = 5.0
    whole_seconds: float = 20.0
    slow_seconds: float = 10.0
    slow_bytes_per_second: int = 1024
    wire_bytes: int = WIRE_BYTES
    unpacked_bytes: int = 8 * MIB
    redirects: int = 5


class Meter:
    """Counts one fetch's time and bytes, and ends it by an error when either runs out."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.wire_bytes = 0
        self._ends_at = time.monotonic() + limits.whole_seconds
        self._window_ends_at = float("inf")  # until the first byte has come
        self._window_bytes = 0

    def remaining(self) -> float:
        """Seconds left of the whole; raises ProviderUnavailable when there are none."""
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise self._too_long()
        return left

    def patience(self) -> float:
        """Seconds that the next read may wait, before it is too long or too slow."""
        if time.monotonic() >= self._window_ends_at:
            self._end_window()
        return max(0.001, min(self.remaining(), self._window_ends_at - time.monotonic()))

    def waited(self) -> None:
        """Say whether a read that waited out its patience may wait again; raises if not."""
        self.remaining()
        if time.monotonic() >= self._window_ends_at:
            self._end_window()

    def room(self) -> int:
        """Bytes that the next read may take: what is left, or one to find out whether more comes."""
        return max(1, self.limits.wire_bytes - self.wire_bytes)

    def next_answer(self) -> None:
        """Begin to measure the speed anew: a server may think before each answer."""
        self._window_ends_at = float("inf")
        self._window_bytes = 0

    def count(self, received: int) -> None:
        """Add bytes that came in; raises ProviderRejected above the limit."""
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
            _("The server did not finish within %(seconds)g seconds, so reading was stopped.")
            % {"seconds": self.limits.whole_seconds}
        )

    def _too_slow(self) -> ProviderUnavailable:
        return ProviderUnavailable(
            _(
                "The server sent less than %(rate)d bytes a second for %(seconds)g seconds, "
                "so reading was stopped."
            )
            % {"rate": self.limits.slow_bytes_per_second, "seconds": self.limits.slow_seconds}
        )


def too_large(limit: int) -> ProviderRejected:
    """The error for a page that is larger than `limit` bytes on the wire."""
    return ProviderRejected(
        _("The page is larger than %(limit).3g MiB, so it was not read.") % {"limit": limit / MIB}
    )


class MeteredStream(httpcore.NetworkStream):
    """A connection whose reads, writes and handshake obey a meter, whatever the server does."""

    def __init__(self, inner: httpcore.NetworkStream, meter: Meter) -> None:
        self._inner = inner
        self._meter = meter

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read what is there, or give up when the meter's patience is at its end.

        What is within the limit is always handed on: only a read behind it is refused.
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
        """Send the request; a server that does not take it in time is given up on."""
        self._inner.write(buffer, timeout=self._meter.remaining())

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        """Shake hands under the URL's own name, within the time for a connection."""
        limit = min(self._meter.limits.connect_seconds, self._meter.remaining())
        secured = self._inner.start_tls(ssl_context, server_hostname, timeout=limit)
        return MeteredStream(secured, self._meter)

    def get_extra_info(self, info: str) -> object:
        """What the connection below knows about itself."""
        return self._inner.get_extra_info(info)
