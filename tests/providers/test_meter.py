"""How much a connection passes on from a server that never stops sending."""

from __future__ import annotations

import httpcore
import pytest

from beacon_site.net.bounded import Limits, Meter, MeteredStream
from beacon_site.net.errors import ProviderRejected


class Flood(httpcore.NetworkStream):
    """A server whose bytes have all come before the first of them is read."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return b"x" * max_bytes


def test_what_is_within_the_limit_is_handed_on_before_more_is_refused():
    """A crowded machine finds the whole of an answer there when it comes to read."""
    stream = MeteredStream(Flood(), Meter(Limits(wire_bytes=100)))

    assert [len(stream.read(size)) for size in (30, 64 * 1024)] == [30, 70]
    with pytest.raises(ProviderRejected, match="so it was skipped"):
        stream.read(64 * 1024)
