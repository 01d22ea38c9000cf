"""What carries a model call over the network, bounded in bytes and in time.

A time limit on each read is not enough: a server that sends one byte a second never meets it.
So every read of a request may wait only until the request's own end.

Heavy, as the client that it serves: imported when a model is first asked, never before.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Iterable, Iterator

import httpcore2
import httpx2

from beacon_site.providers.http import BodyTooLarge, read_bounded
from beacon_site.providers.timed import timed

MAX_BODY = 2 * 1024 * 1024  # bytes of one whole answer: 8,000 tokens, each escaped, are a tenth
MAX_STREAM = 8 * 1024 * 1024  # bytes of a stream, where each token comes in 200 to 300 of them
IDLE_SECONDS = 45.0  # of silence within a stream that has begun
PIECE = 65536
GZIP_MARK = b"\x1f"
TOO_LARGE = "x-beacon-too-large"
STREAMED = "x-beacon-stream"  # on a request: hand the answer over as it comes; never sent


class _Clock(threading.local):
    """When the request that this thread reads must be over, and how long one read may wait."""

    ends_at = float("inf")
    idle = float("inf")
    last_words = float("inf")


CLOCK = _Clock()


def _left() -> float:
    return min(CLOCK.ends_at - time.monotonic(), CLOCK.idle)


class _Timed(httpx2.HTTPTransport):
    """The client's own transport, on timed connections."""

    def __init__(self) -> None:
        # trust_env=False: a proxy of the shell must not decide where the key is sent.
        super().__init__(trust_env=False)
        # The library passes no backend on, so its pool is made again, with one.
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=timed(httpcore2.SyncBackend(), _left, httpcore2.ReadTimeout),
        )


class Bounded(httpx2.BaseTransport):
    """Reads each answer whole, at most MAX_BODY bytes, within the request's read time limit.

    What is too large or unreadable becomes a small answer of status 413 or 502 that says so: an
    exception from here would be taken for a lost connection.  A request that carries STREAMED
    is answered as the bytes come, unless it failed: see `_Flow`.
    """

    def __init__(self) -> None:
        self._inner = _Timed()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer, inflated, its time and its size kept within their bounds."""
        ends_at = time.monotonic() + float(request.extensions["timeout"]["read"])
        for name in ("openai-organization", "openai-project"):
            if not request.headers.get(name):  # sent empty, to keep OPENAI_* variables out
                request.headers.pop(name, None)
        if request.headers.get("api-key"):  # Azure takes what stands after "Bearer" for a login
            request.headers.pop("authorization", None)
        streamed = request.headers.pop(STREAMED, "")
        CLOCK.ends_at, CLOCK.idle, CLOCK.last_words = ends_at, float("inf"), float("inf")
        response = self._inner.handle_request(request)
        kept = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name.lower() not in ("content-encoding", "content-length", "transfer-encoding")
        ]
        if streamed and response.status_code < 300:
            flow = _Flow(response, ends_at)
            return httpx2.Response(response.status_code, headers=kept, stream=flow)
        return self._whole(request, response, kept, ends_at)

    def _whole(
        self,
        request: httpx2.Request,
        response: httpx2.Response,
        kept: list[tuple[str, str]],
        ends_at: float,
    ) -> httpx2.Response:
        try:
            content = read_bounded(
                response.iter_raw(),
                encoding=response.headers.get("content-encoding", ""),
                limit=MAX_BODY,
                deadline=ends_at,
            )
        except BodyTooLarge:
            return httpx2.Response(413, headers={TOO_LARGE: "1"}, content=b"")
        except ValueError as exc:
            return httpx2.Response(502, json={"error": str(exc)})
        except TimeoutError as exc:
            raise httpx2.ReadTimeout("too slow", request=request) from exc
        finally:
            response.close()
        return httpx2.Response(response.status_code, headers=kept, content=content)

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()


class _Flow(httpx2.SyncByteStream):
    """The body of a streamed answer, inflated.

    Iterating raises BodyTooLarge over MAX_STREAM bytes, httpx2.ReadTimeout at the end of the
    time or after IDLE_SECONDS of silence, other httpx2 errors when the connection breaks.
    """

    def __init__(self, response: httpx2.Response, ends_at: float) -> None:
        self._response = response
        self._ends_at = ends_at

    def __iter__(self) -> Iterator[bytes]:
        is_gzip = self._response.headers.get("content-encoding", "").strip().lower() == "gzip"
        chunks = self._timed(self._response.iter_raw())
        size = 0
        for piece in _inflated(chunks) if is_gzip else chunks:
            size += len(piece)
            if size > MAX_STREAM:
                raise BodyTooLarge
            yield piece

    def _timed(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the chunks; the clock is set before each read, for others were read since.

        The first may come as late as it likes: a model thinks before its first word.
        """
        idle = float("inf")
        while True:
            CLOCK.ends_at, CLOCK.idle = self._ends_at, min(idle, CLOCK.last_words)
            chunk = next(chunks, None)
            if chunk is None:
                return
            idle = IDLE_SECONDS
            yield chunk

    def close(self) -> None:
        """Close the connection, read to its end or not."""
        self._response.close()


def _inflated(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what the chunks hold, at most PIECE bytes at once.  Raises httpx2.DecodingError.

    A body may be several gzip members end to end, as a server that packs each event writes it;
    what follows the last and is none is left out.
    """
    inflater = zlib.decompressobj(wbits=31)
    for chunk in chunks:
        waiting = chunk
        while waiting:
            if inflater.eof and not waiting.startswith(GZIP_MARK):
                return
            inflater = zlib.decompressobj(wbits=31) if inflater.eof else inflater
            try:
                piece = inflater.decompress(waiting, PIECE)
            except zlib.error as exc:
                raise httpx2.DecodingError("it cannot be inflated") from exc
            waiting = inflater.unconsumed_tail or inflater.unused_data
            yield piece


def expect_the_end(seconds: float) -> None:
    """Let the next reads of this thread's stream wait no longer than this."""
    CLOCK.last_words = seconds
