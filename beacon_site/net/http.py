"""HTTP requests to services that the admin configured, with limits, and without logging keys.

Pages and feeds from the web go through the guarded fetcher instead (fetch.py).  The URLs here were
entered by the admin, so a server on this machine is allowed.
"""

from __future__ import annotations

import re
import ssl
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx
from django.conf import settings

from beacon_site.net.bounded import CLOCK, TimedTransport
from beacon_site.net.errors import (
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    ServiceRefused,
    ServiceUnreachable,
)
from beacon_site.text.messages import gettext as _

MAX_BODY = 4 * 1024 * 1024  # bytes after inflating: a page of search results is 50 to 300 KB
CONNECT_SECONDS = 5.0
PATIENCE = 30.0  # seconds for one exchange, unless a service says otherwise
MIN_SECRET = 4  # characters; replacing shorter "keys" would garble messages


_ERRNO = re.compile(r"^\[Errno -?\d+\] ")


class BodyTooLarge(Exception):
    """The body exceeded its limit; nothing of it is kept."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete HTTP response; header names are in lower case, `content` is decompressed."""

    status: int
    headers: dict[str, str]
    content: bytes
    final_url: str = ""  # after redirects, where they are followed


def user_agent(contact: str = "") -> str:
    """Return the User-Agent with Beacon's version and a contact address."""
    contact = contact or settings.BEACON_CONTACT
    return f"Beacon/{settings.BEACON_VERSION}" + (f" ({contact})" if contact else "")


def scrub(text: str, secret: str) -> str:
    """Return `text` without `secret`, since services often repeat a key in their errors."""
    if len(secret) < MIN_SECRET:
        return text
    return text.replace(secret, "[key]").replace(quote(secret, safe=""), "[key]")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a Retry-After header asks for (a number or a date), or None."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = parsedate_to_datetime(text)
        except ValueError:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        seconds = (moment - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), 86400.0) if seconds == seconds else None


def reason_of(exc: BaseException) -> str:
    """Return why a connection failed, with the system's message but without its number."""
    first = next(iter(str(exc).splitlines()), "")
    return _ERRNO.sub("", first) or _("no response")


def read_bounded(chunks: Iterable[bytes], *, encoding: str, limit: int, deadline: float) -> bytes:
    """Return the decompressed body of at most `limit` bytes, read until `deadline` (monotonic).

    Raises BodyTooLarge, TimeoutError, or ValueError for an unexpected encoding or a truncated body.
    It decompresses in bounded pieces, because the client's own decoders don't limit what a
    decompression bomb expands to.
    """
    coding = encoding.strip().lower()
    if coding not in ("", "identity", "gzip"):
        raise ValueError(_("it’s encoded as “%(name)s”") % {"name": coding})
    inflater = zlib.decompressobj(wbits=31) if coding == "gzip" else None
    body = bytearray()
    for chunk in chunks:
        if time.monotonic() > deadline:
            raise TimeoutError
        try:
            body += inflater.decompress(chunk, limit + 1 - len(body)) if inflater else chunk
        except zlib.error as exc:
            raise ValueError(_("it can’t be decompressed")) from exc
        if len(body) > limit:
            raise BodyTooLarge
    if inflater and body and not inflater.eof:
        raise ValueError(_("it’s incomplete"))
    return bytes(body)


class _Secrets(httpx.BaseTransport):
    """Adds secrets in the transport, below what httpx logs and puts in exceptions."""

    def __init__(
        self, inner: httpx.BaseTransport, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> None:
        self._inner = inner
        self._query = dict(query)
        self._headers = dict(headers)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        headers = request.headers.copy()
        headers.update(self._headers)
        sent = httpx.Request(
            request.method,
            request.url.copy_merge_params(self._query) if self._query else request.url,
            headers=headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        return self._inner.handle_request(sent)

    def close(self) -> None:
        self._inner.close()


class ServiceHttp:
    """Requests to one named service, with secrets that must not appear in a log."""

    def __init__(
        self,
        name: str,
        *,
        secret: Mapping[str, str] | None = None,
        secret_headers: Mapping[str, str] | None = None,
        contact: str = "",
        timeout: float | None = None,
        max_body: int = MAX_BODY,
    ) -> None:
        """`timeout` is in seconds for a whole request, `max_body` in bytes after decompression.

        `secret` are query parameters, and `secret_headers` are headers such as "Bearer …".  Both
        are sent, but never logged or repeated in a message.
        """
        self.name = name
        self.timeout = PATIENCE if timeout is None else timeout
        self.max_body = max_body
        self._secret = {key: value for key, value in (secret or {}).items() if value}
        self._headers = {key: value for key, value in (secret_headers or {}).items() if value}
        self._contact = contact

    @cached_property
    def _client(self) -> httpx.Client:
        return httpx.Client(
            transport=_Secrets(TimedTransport(), self._secret, self._headers),
            timeout=httpx.Timeout(self.timeout, connect=min(CONNECT_SECONDS, self.timeout)),
            trust_env=False,  # as in TimedTransport
            follow_redirects=False,
            headers={
                "User-Agent": user_agent(self._contact),
                "Accept-Encoding": "gzip, identity",
            },
        )

    def get(
        self, url: str, params: Mapping[str, str], *, accept: str = "application/json"
    ) -> Reply:
        """Return the reply, with any status.

        Raises ProviderUnavailable if no complete reply came in time (ServiceUnreachable if there
        was no connection), and ProviderRejected if the URL is invalid or the reply too large.
        """
        return self._answered("GET", url, params=dict(params), headers={"Accept": accept})

    def post(
        self, url: str, body: Mapping[str, object], *, accept: str = "application/json"
    ) -> Reply:
        """Send `body` as JSON and return the reply, with any status; raises as `get` does."""
        return self._answered("POST", url, json=dict(body), headers={"Accept": accept})

    def send(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Send a request that a library has prepared, and return the reply; raises as `get` does."""
        return self._answered(method, url, content=body, headers=dict(headers))

    def scrubbed(self, text: str) -> str:
        """Return `text` without this service's secrets."""
        for value in (*self._secret.values(), *self._headers.values()):
            # Services can repeat the key with or without "Bearer".
            text = scrub(scrub(text, value), value.rpartition(" ")[2])
        return text

    def _answered(self, method: str, url: str, **request: Any) -> Reply:
        names = {"name": self.name, "seconds": f"{self.timeout:g}"}
        if not all(value.isascii() and value.isprintable() for value in self._headers.values()):
            # The client's own error would show the value, which contains the key.
            raise ServiceRefused(
                _("The key for %(name)s contains invalid characters. Enter it again.") % names
            )
        try:
            return self._exchange(method, url, request)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError):
            # UnicodeError: the resolver rejects the host, such as "a..b".
            failure: Exception = ServiceRefused(
                _("The base URL for %(name)s isn’t valid. Enter a valid URL.") % names
            )
        except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
            failure = ServiceUnreachable(
                _("%(name)s can’t be reached: %(why)s.") % {**names, "why": self._why(exc)}
            )
        except (httpx.TimeoutException, TimeoutError):
            failure = ProviderUnavailable(
                _("%(name)s didn’t respond within %(seconds)s seconds.") % names
            )
        except BodyTooLarge:
            failure = ProviderRejected(
                _("The response from %(name)s is larger than %(bytes)s bytes, so it was discarded.")
                % {**names, "bytes": self.max_body}
            )
        except httpx.TransportError as exc:
            failure = ProviderUnavailable(
                _("The connection to %(name)s was lost before its response was complete: %(why)s.")
                % {**names, "why": self._why(exc)}
            )
        except ValueError as exc:
            failure = ProviderUnavailable(
                _("The response from %(name)s can’t be read: %(why)s.")
                % {**names, "why": self._why(exc)}
            )
        raise failure  # outside the handlers, so that no client exception is chained to it

    def _why(self, exc: Exception) -> str:
        return self.scrubbed(reason_of(exc)).rstrip(".")

    def _exchange(self, method: str, url: str, request: dict[str, Any]) -> Reply:
        deadline = CLOCK.ends_at = time.monotonic() + self.timeout
        with self._client.stream(method, url, **request) as response:
            content = read_bounded(
                response.iter_raw(),
                encoding=response.headers.get("content-encoding", ""),
                limit=self.max_body,
                deadline=deadline,
            )
        headers = {key.lower(): value for key, value in response.headers.items()}
        return Reply(response.status_code, headers, content)


# --- refusals of servers, as readable failures ---

# A retry later can help.
PASSING = frozenset({408, 421, 425, 429, *range(500, 600)})


def refusal(status: int, fields: Mapping[str, str], url: str) -> ProviderError:
    """Return the failure for an HTTP status."""
    host = httpx.URL(url).host
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = _("unknown status")
    words = {
        401: _("it requires sign-in"),
        402: _("it requires payment"),
        403: _("it blocks Beacon"),
        404: _("the page doesn’t exist"),
        410: _("the page was removed"),
        429: _("too many requests"),
        451: _("the page is unavailable for legal reasons"),
    }
    message = _("“%(host)s” responded with %(status)d: %(why)s.") % {
        "host": host,
        "status": status,
        "why": words.get(status, phrase),
    }
    if status in PASSING or status == HTTPStatus.NOT_MODIFIED:
        return ProviderUnavailable(message, retry_after=retry_after(fields))
    return ProviderRejected(message)


def tls_failure(host: str, exc: Exception) -> ProviderError:
    """Return the failure for a certificate that isn't trusted, or for a broken handshake."""
    cause = exc.__cause__ or exc.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ProviderRejected(
            _("The certificate of “%(host)s” isn’t valid: %(why)s.")
            % {"host": host, "why": cause.verify_message.rstrip(".")}
        )
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
        return ProviderRejected(
            _("Beacon couldn’t connect securely to “%(host)s”: %(why)s.")
            % {"host": host, "why": cause.reason or plain(exc)}
        )
    return ProviderUnavailable(
        _("The connection to “%(host)s” was lost: %(why)s.") % {"host": host, "why": plain(exc)}
    )


def plain(exc: Exception) -> str:
    """The text of an exception, for use inside a sentence."""
    return str(exc).rstrip(".") or type(exc).__name__
