"""One call to a chat endpoint with the `openai` client, whole or streamed, with limits in bytes and seconds."""

from __future__ import annotations

import json
import math
import threading
import time
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

import httpcore2
import httpx2
import openai
import structlog

from beacon_site.net.bounded import timed
from beacon_site.net.errors import ProviderNonsense, ProviderRejected, ProviderUnavailable
from beacon_site.net.http import (
    CONNECT_SECONDS,
    BodyTooLarge,
    read_bounded,
    reason_of,
    scrub,
    user_agent,
)
from beacon_site.providers.llm.base import LlmProfile, OnText
from beacon_site.providers.llm.endpoints import Address, address_of, kind_of
from beacon_site.providers.llm.openai_errors import error_of, failure_for
from beacon_site.providers.llm.openai_reply import (
    CallFailed,
    Completion,
    StreamReading,
    TooManyTokens,
    read_reply,
)
from beacon_site.providers.search.answers import text_of_html
from beacon_site.text.messages import gettext as _

# --- transport ---------------------------------------------------------------------------------

MAX_BODY = 2 * 1024 * 1024  # bytes of one answer; 8,000 tokens, all escaped, take a tenth
MAX_STREAM = 8 * 1024 * 1024  # bytes of a stream, which needs 200 to 300 of them per token
IDLE_SECONDS = 45.0  # of silence in a stream that has started
PIECE = 65536
GZIP_MARK = b"\x1f"
TOO_LARGE = "x-beacon-too-large"
STREAMED = "x-beacon-stream"  # on a request: return the answer as a stream; never sent


class _Clock(threading.local):
    """The deadline of the request that this thread reads, and how long one read can wait."""

    ends_at = float("inf")
    idle = float("inf")
    last_words = float("inf")


CLOCK = _Clock()


def _seconds_left() -> float:
    return min(CLOCK.ends_at - time.monotonic(), CLOCK.idle)


class _DeadlineTransport(httpx2.HTTPTransport):
    """httpx's transport, with deadlines."""

    def __init__(self) -> None:
        # trust_env=False, since a proxy of the shell must not decide where the key is sent.
        super().__init__(trust_env=False)
        # The library doesn't accept a backend, so its pool is replaced by one with it.
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context(trust_env=False),
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=timed(httpcore2.SyncBackend(), _seconds_left, httpcore2.ReadTimeout),
        )


class Bounded(httpx2.BaseTransport):
    """Reads each answer whole, at most MAX_BODY bytes, within the request's read time limit.

    An answer that is too large or unreadable becomes a short one with status 413 or 502, since an
    exception would be taken for a lost connection.  A request with STREAMED gets the answer as a
    stream, unless it failed: see `_Flow`.
    """

    def __init__(self) -> None:
        self._inner = _DeadlineTransport()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the decompressed answer, within the limits of time and size."""
        ends_at = time.monotonic() + float(request.extensions["timeout"]["read"])
        for name in ("openai-organization", "openai-project"):
            if not request.headers.get(name):  # sent empty, to keep OPENAI_* variables out
                request.headers.pop(name, None)
        if request.headers.get("api-key"):  # Azure would take the text after "Bearer" for a login
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
            flow = _DecompressedStream(response, ends_at)
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
        self._inner.close()


class _DecompressedStream(httpx2.SyncByteStream):
    """The decompressed body of a streamed answer.

    Iterating raises BodyTooLarge above MAX_STREAM bytes, httpx2.ReadTimeout at the deadline or
    after IDLE_SECONDS of silence, and other httpx2 errors if the connection breaks.
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
        """Yield the chunks; the clock is set before each read, since others may have been read.

        The first one has no idle limit, because a model thinks before its first word.
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
        """Close the connection, even if the body wasn't read to its end."""
        self._response.close()


def _inflated(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the decompressed chunks, at most PIECE bytes at once.  Raises httpx2.DecodingError.

    A body can be several gzip members in a row, if a server compresses each event; other bytes
    after the last one are ignored.
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
                raise httpx2.DecodingError("it can't be decompressed") from exc
            waiting = inflater.unconsumed_tail or inflater.unused_data
            yield piece


def expect_the_end(seconds: float) -> None:
    """Limit how long the next reads of this thread's stream wait."""
    CLOCK.last_words = seconds


# --- calls -------------------------------------------------------------------------------------

logger = structlog.get_logger(__name__)

MAX_RETRIES = 1
MAX_WAIT = 5.0  # seconds before the retry; a longer Retry-After is left to the caller
FIRST_WAIT = 0.5
MIN_SECONDS = 0.1  # for a try
CLOSING_SECONDS = 2.0  # for the usage and the last line, once the answer itself has ended
MAX_PER_TOKEN = 20  # characters; a tokenizer's longest words are shorter
SLACK = 4000  # characters over that
NO_KEY = "local"  # the client refuses an empty key; keyless servers take any
MIB = 1024 * 1024


class ChatWire:
    """The endpoint of one profile."""

    def __init__(self, profile: LlmProfile) -> None:
        """Raises CallFailed for an invalid URL or key."""
        try:
            address = address_of(profile)
        except ProviderRejected as exc:
            raise CallFailed(exc) from None
        key = profile.api_key.strip()
        self._key = key
        self._model = profile.model
        self._kind = kind_of(profile)
        self._host = address.host
        if not (key.isascii() and key.isprintable()):
            text = _("The key for %(host)s contains invalid characters. Enter it again.")
            raise CallFailed(ProviderRejected(text % {"host": self._host}))
        try:
            self._client = self._made(address, key)
        except httpx2.InvalidURL as exc:  # a case that problem_of doesn't detect
            raise self._unreachable(exc) from None

    def _made(self, address: Address, key: str) -> openai.OpenAI:
        headers = {"User-Agent": user_agent(), "Accept-Encoding": "gzip, identity"}
        if self._kind.name == "azure":
            headers["api-key"] = key
        return openai.OpenAI(
            api_key=key or NO_KEY,
            organization="",
            project="",
            base_url=address.base_url,  # never None, or OPENAI_BASE_URL would apply
            default_query=dict(address.query),
            timeout=IDLE_SECONDS,  # `complete` gives each try its own
            max_retries=0,  # `complete` retries, and knows which 429 and 500 are final
            default_headers=headers,
            http_client=httpx2.Client(transport=Bounded(), trust_env=False, follow_redirects=False),
        )

    def complete(
        self,
        params: Mapping[str, Any],
        *,
        retries: int = MAX_RETRIES,
        final: Container[int] = (),
        on_text: OnText | None = None,
        stream: bool = False,
        ends_at: float,
    ) -> Completion:
        """Return the completion; raises CallFailed.

        It retries at most `retries` times, only after errors that can pass within seconds, and not
        after a status in `final`.  With `stream`, the answer is requested as a stream and `on_text`
        gets its text; a server can still send it as a whole.  All tries and pauses end at `ends_at`
        (monotonic).
        """
        left = retries
        lost: tuple[str, ...] = ()
        while True:
            seconds = max(MIN_SECONDS, ends_at - time.monotonic())
            if stream:
                outcome = self._in_pieces(params, seconds, on_text or _nobody)
            else:
                outcome = self._whole(params, seconds)
            if not isinstance(outcome, CallFailed):
                if on_text and not outcome.streamed and (reply := read_reply(outcome.body)):
                    on_text(reply.text)
                return replace(outcome, lost=lost)
            lost += outcome.lost
            wait = _pause(outcome)
            if (
                not left
                or wait is None
                or outcome.status in final
                or time.monotonic() + wait + MIN_SECONDS > ends_at
            ):
                outcome.lost = lost
                raise outcome
            left -= 1
            logger.info("model call retried", host=self._host, status=outcome.status, wait=wait)
            time.sleep(wait)

    # --- one try --------------------------------------------------------------------------------

    def _whole(self, params: Mapping[str, Any], seconds: float) -> Completion | CallFailed:
        """Return the completion or the failure, so that no client exception is chained to it."""
        try:
            # Raw, because the client's own parsing trusts the answer's shape.
            raw: Any = self._client.chat.completions.with_raw_response.create(
                **params, timeout=_limits(seconds)
            )
            content: bytes = raw.http_response.content
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL) as exc:
            return self._failed(exc, seconds)
        return self._as_completion(content)

    def _in_pieces(
        self, params: Mapping[str, Any], seconds: float, on_text: OnText
    ) -> Completion | CallFailed:
        """Like `_whole`, but read the answer as it arrives; exceptions of on_text pass through."""
        most = max(params.get("max_tokens", 0), params.get("max_completion_tokens", 0))
        reading = StreamReading(on_text, most_characters=most * MAX_PER_TOKEN + SLACK)
        headers = {STREAMED: "1", "Accept-Encoding": "identity"}
        broken: CallFailed | None = None
        began = time.monotonic()
        try:
            with self._client.chat.completions.with_streaming_response.create(
                **params, stream=True, timeout=_limits(seconds), extra_headers=headers
            ) as raw:
                reading.read(raw.http_response.iter_raw(), lambda: expect_the_end(CLOSING_SECONDS))
        except BodyTooLarge:
            broken = self._too_large(MAX_STREAM if reading.is_stream else MAX_BODY)
        except TooManyTokens:
            broken = self._wrote_on()
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL) as exc:
            broken = self._failed(exc, seconds)
            if broken.timed_out and reading.has_begun:
                broken = self._not_finished(seconds, time.monotonic() - began)
        return self._read(reading, broken)

    @contextmanager
    def passed_on(self, body: Mapping[str, Any], *, seconds: float) -> Iterator[Iterator[bytes]]:
        """Send a request unchanged, and give the bytes of the answer as they arrive.

        Raises CallFailed, also while the answer is being read.  Leaving the block closes the
        connection, so that the endpoint stops writing.  Nothing is retried.
        """
        headers = {STREAMED: "1", "Accept-Encoding": "identity"}
        try:
            # The client would check and convert its own parameters, but leaves extra_body alone.
            with self._client.chat.completions.with_streaming_response.create(
                model=self._model,
                messages=[],
                stream=bool(body.get("stream")),
                extra_body=dict(body),
                extra_headers=headers,
                timeout=_limits(seconds),
            ) as raw:
                yield self._piece_by_piece(raw.http_response.iter_raw(), seconds)
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise self._failed(exc, seconds) from None

    def _piece_by_piece(self, chunks: Iterator[bytes], seconds: float) -> Iterator[bytes]:
        began = time.monotonic()
        try:
            yield from chunks
        except BodyTooLarge:
            raise self._too_large(MAX_STREAM) from None
        except httpx2.TimeoutException:
            raise self._not_finished(seconds, time.monotonic() - began) from None
        except httpx2.HTTPError as exc:
            raise self._failed(exc, seconds) from None

    def completion_in(self, content: bytes) -> Completion:
        """Return the completion that a body contains.  Raises CallFailed for anything else."""
        outcome = self._as_completion(content)
        if isinstance(outcome, CallFailed):
            raise outcome
        return outcome

    def error_in(self, event: Mapping[str, Any]) -> CallFailed:
        """Return the failure that a stream reports in one of its events."""
        text, code, status = error_of(event, otherwise=500)
        return self._judged(status, code, text, {})

    def _read(self, reading: StreamReading, broken: CallFailed | None) -> Completion | CallFailed:
        if broken is not None and broken.too_large:
            return broken
        if reading.error is not None:
            broken = self.error_in(reading.error)
        elif broken is None and reading.whole is not None:
            return self._as_completion(reading.whole)
        elif reading.is_complete and reading.has_begun:
            return Completion(reading.completion(), streamed=True)
        elif broken is None:
            broken = self.cut_off()
        if reading.has_begun:
            broken.lost = (reading.text,)
        return broken

    def cut_off(self) -> CallFailed:
        """Return the failure of an answer that ended before it was complete."""
        text = _(
            "The connection to the model at %(host)s was lost before its response was complete."
        )
        return CallFailed(ProviderUnavailable(text % {"host": self._host}))

    def _as_completion(self, content: bytes) -> Completion | CallFailed:
        """Return the body of a 200, with any content type."""
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            return self._no_completion(content[:2000].decode("utf-8", "replace"))
        if body.get("error") and not body.get("choices"):  # gateways report failures with 200
            text, code, status = error_of(body)
            return self._judged(status, code, text, {})
        return Completion(body)

    # --- failures -------------------------------------------------------------------------------

    def _failed(self, exc: Exception, seconds: float) -> CallFailed:
        """Return the failure for an exception of the client or its network."""
        if isinstance(exc, openai.APITimeoutError | httpx2.TimeoutException):
            text = _("The model at %(host)s didn’t respond within %(seconds)d seconds.")
            message = text % {"host": self._host, "seconds": math.ceil(seconds)}
            return CallFailed(ProviderUnavailable(message), timed_out=True)
        if isinstance(exc, openai.APIStatusError):
            return self._refused(exc.response)
        if isinstance(exc, openai.APIConnectionError | httpx2.HTTPError | httpx2.InvalidURL):
            return self._unreachable(exc)
        return CallFailed(ProviderRejected(self._clean(str(exc))))

    def _not_finished(self, seconds: float, elapsed: float) -> CallFailed:
        if elapsed < seconds - 1:
            seconds = IDLE_SECONDS
            text = _(
                "The model at %(host)s started to respond, but then sent nothing for %(seconds)d seconds, so Beacon stopped reading."
            )
        else:
            text = _(
                "The model at %(host)s started to respond, but didn’t finish within %(seconds)d seconds."
            )
        message = text % {"host": self._host, "seconds": math.ceil(seconds)}
        return CallFailed(ProviderUnavailable(message), timed_out=True)

    def _no_completion(self, text: str) -> CallFailed:
        words = _(
            "%(host)s responded, but it doesn’t seem to be a model server: “%(start)s”. Check the base URL, which usually ends in /v1."
        )
        message = words % {"host": self._host, "start": self._clean(text)[:80]}
        return CallFailed(ProviderRejected(message), status=200)

    def _unreachable(self, exc: Exception) -> CallFailed:
        cause = exc.__cause__ or exc
        why = self._clean(reason_of(cause))
        names = {"host": self._host, "why": why.rstrip(".")}
        if isinstance(cause, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
            text = _("The model’s base URL “%(host)s” isn’t valid: %(why)s.")
            return CallFailed(ProviderRejected(text % names))
        text = _("The model at %(host)s can’t be reached, or the connection was lost: %(why)s.")
        return CallFailed(ProviderUnavailable(text % names))

    def _too_large(self, limit: int) -> CallFailed:
        text = _(
            "The response from the model at %(host)s is larger than %(mib)d MiB, so it was discarded."
        )
        params = {"host": self._host, "mib": limit // MIB}
        return CallFailed(ProviderNonsense(text % params), status=200, too_large=True)

    def _wrote_on(self) -> CallFailed:
        text = _(
            "The model at %(host)s generated far more tokens than allowed, so Beacon stopped reading."
        )
        failure = ProviderNonsense(text % {"host": self._host})
        return CallFailed(failure, status=200, too_large=True)

    def _refused(self, response: httpx2.Response) -> CallFailed:
        if response.headers.get(TOO_LARGE):
            return self._too_large(MAX_BODY)
        try:
            body = response.json()
        except (ValueError, RecursionError):
            body = {"error": response.text[:2000]}
        text, code, _status = error_of(body)
        return self._judged(response.status_code, code, text, response.headers)

    def _judged(self, status: int, code: str, text: str, headers: Mapping[str, str]) -> CallFailed:
        text = self._clean(text)
        failure = failure_for(self._model, self._host, self._kind, status, code, text, headers)
        return CallFailed(failure, status=status, code=code, said=text)

    def _clean(self, text: str) -> str:
        return text_of_html(scrub(text, self._key), 300)


@lru_cache(maxsize=32)  # of each model, for each person with a key of their own
def wire_for(profile: LlmProfile) -> ChatWire:
    """Return this process's connection to an endpoint, since a new one costs 40 ms and a handshake.

    Raises CallFailed as ChatWire does.
    """
    return ChatWire(profile)


def _nobody(_text: str) -> None:
    """Replaces on_text if an answer is streamed without a listener."""


def _limits(seconds: float) -> httpx2.Timeout:
    """Return the limits of one request; the transport applies `read` to the whole request."""
    return httpx2.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))


def _pause(failed: CallFailed) -> float | None:
    """Return the seconds to wait before a retry, or None if there should be none."""
    failure = failed.failure
    if not isinstance(failure, ProviderUnavailable) or failed.timed_out:
        return None
    wait = FIRST_WAIT if failure.retry_after is None else failure.retry_after
    return wait if wait <= MAX_WAIT else None
