"""HTTP to services that an operator configured: bounded in bytes and time, silent about keys.

Pages and feeds that the web names go through the guarded fetcher instead (fetch.py): the
addresses here were typed by the person who runs Beacon, so a loopback server is welcome.
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
from django.utils.translation import gettext as _

from beacon_site.net.bounded import CLOCK, TimedTransport
from beacon_site.net.errors import (
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    ServiceRefused,
    ServiceUnreachable,
)

MAX_BODY = 4 * 1024 * 1024  # bytes after inflating: a page of search results is 50 to 300 KB
CONNECT_SECONDS = 5.0
PATIENCE = 30.0  # seconds for one exchange, unless a service says otherwise
LEAST_SECRET = 4  # characters; replacing shorter "keys" would only garble a message


_ERRNO = re.compile(r"^\[Errno -?\d+\] ")


class BodyTooLarge(Exception):
    """The body went over its bound; nothing of it is kept."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole answer over HTTP; header names are in lower case, `content` is inflated."""

    status: int
    headers: dict[str, str]
    content: bytes


def user_agent(contact: str = "") -> str:
    """Return the User-Agent that names Beacon, its version and whom to write to."""
    contact = contact or settings.BEACON_CONTACT
    return f"Beacon/{settings.BEACON_VERSION}" + (f" ({contact})" if contact else "")


def scrub(text: str, secret: str) -> str:
    """Return `text` without `secret`: services like to repeat a key in their error texts."""
    if len(secret) < LEAST_SECRET:
        return text
    return text.replace(secret, "[key]").replace(quote(secret, safe=""), "[key]")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a Retry-After header asks for (a number or a date), if it does."""
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
    """Return why a connection failed, in the system's words without its number."""
    first = next(iter(str(exc).splitlines()), "")
    return _ERRNO.sub("", first) or _("nobody answers there")


def read_bounded(chunks: Iterable[bytes], *, encoding: str, limit: int, deadline: float) -> bytes:
    """Return the inflated body of at most `limit` bytes, read until `deadline` (monotonic).

    Raises BodyTooLarge, TimeoutError, or ValueError for an encoding that we did not ask for or a
    body cut short.  Inflating is done here, a bounded piece at a time, because the client's own
    decoders hand over whatever a small bomb unfolds to.
    """
    coding = encoding.strip().lower()
    if coding not in ("", "identity", "gzip"):
        raise ValueError(_("it is encoded as “%(name)s”") % {"name": coding})
    inflater = zlib.decompressobj(wbits=31) if coding == "gzip" else None
    body = bytearray()
    for chunk in chunks:
        if time.monotonic() > deadline:
            raise TimeoutError
        try:
            body += inflater.decompress(chunk, limit + 1 - len(body)) if inflater else chunk
        except zlib.error as exc:
            raise ValueError(_("it cannot be inflated")) from exc
        if len(body) > limit:
            raise BodyTooLarge
    if inflater and body and not inflater.eof:
        raise ValueError(_("it was cut short"))
    return bytes(body)


class _Secrets(httpx.BaseTransport):
    """Add secrets on the wire alone, below what httpx logs and puts in exceptions."""

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
    """Requests to one service, by name, with secrets that must not be seen in a log."""

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
        """`timeout` is in seconds for a whole exchange, `max_body` in bytes after inflating.

        `secret` are query parameters, `secret_headers` headers, "Bearer …" included; both are
        sent, and never logged or repeated in a message.
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
        """Return the reply, whatever its status.

        Raises ProviderUnavailable when no whole reply came in time (ServiceUnreachable when there
        was no connection), ProviderRejected when the address is no address or the reply is larger
        than allowed.
        """
        return self._answered("GET", url, params=dict(params), headers={"Accept": accept})

    def post(
        self, url: str, body: Mapping[str, object], *, accept: str = "application/json"
    ) -> Reply:
        """Send `body` as JSON and return the reply, whatever its status; raises as `get` does."""
        return self._answered("POST", url, json=dict(body), headers={"Accept": accept})

    def scrubbed(self, text: str) -> str:
        """Return `text` without any of this service's secrets."""
        for value in (*self._secret.values(), *self._headers.values()):
            # What is sent as "Bearer <key>" is also repeated as the bare key.
            text = scrub(scrub(text, value), value.rpartition(" ")[2])
        return text

    def _answered(self, method: str, url: str, **request: Any) -> Reply:
        names = {"name": self.name, "seconds": f"{self.timeout:g}"}
        if not all(value.isascii() and value.isprintable() for value in self._headers.values()):
            # The client would name the value in its own error, with the key in it.
            raise ServiceRefused(
                _("The key of %(name)s has characters that no key has. Enter it again.") % names
            )
        try:
            return self._exchange(method, url, request)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError):
            # UnicodeError: the resolver does not take the host, such as "a..b".
            failure: Exception = ServiceRefused(
                _("%(name)s has no usable address. Correct its base URL.") % names
            )
        except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
            failure = ServiceUnreachable(
                _("%(name)s could not be reached: %(why)s.") % {**names, "why": self._why(exc)}
            )
        except (httpx.TimeoutException, TimeoutError):
            failure = ProviderUnavailable(
                _("%(name)s did not answer within %(seconds)s seconds.") % names
            )
        except BodyTooLarge:
            failure = ProviderRejected(
                _("%(name)s answered with more than %(bytes)s bytes, which is refused.")
                % {**names, "bytes": self.max_body}
            )
        except httpx.TransportError as exc:
            failure = ProviderUnavailable(
                _("%(name)s broke off in the middle of its answer: %(why)s.")
                % {**names, "why": self._why(exc)}
            )
        except ValueError as exc:
            failure = ProviderUnavailable(
                _("The answer of %(name)s cannot be read: %(why)s.")
                % {**names, "why": self._why(exc)}
            )
        raise failure  # outside the handlers: no exception of the client hangs on to it

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


# --- What a server's refusal means, in a sentence and as one of the two kinds of failure ---

# Worth another try later: the server says so itself, or it is in trouble.
PASSING = frozenset({408, 421, 425, 429, *range(500, 600)})


def refusal(status: int, fields: Mapping[str, str], url: str) -> ProviderError:
    """The failure that a status stands for, in words."""
    host = httpx.URL(url).host
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = _("unknown status")
    words = {
        401: _("it asks for a sign-in"),
        402: _("it asks for money"),
        403: _("it does not let Beacon in"),
        404: _("there is no such page"),
        410: _("the page was taken down"),
        429: _("it was asked too often"),
        451: _("it may not show the page for legal reasons"),
    }
    message = _("“%(host)s” answered %(status)d: %(why)s.") % {
        "host": host,
        "status": status,
        "why": words.get(status, phrase),
    }
    if status in PASSING or status == HTTPStatus.NOT_MODIFIED:
        return ProviderUnavailable(message, retry_after=retry_after(fields))
    return ProviderRejected(message)


def tls_failure(host: str, exc: Exception) -> ProviderError:
    """Tell a certificate that is not to be trusted from a handshake that broke off."""
    cause = exc.__cause__ or exc.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ProviderRejected(
            _("The certificate of “%(host)s” is not valid: %(why)s.")
            % {"host": host, "why": cause.verify_message.rstrip(".")}
        )
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
        return ProviderRejected(
            _("“%(host)s” does not speak proper TLS: %(why)s.")
            % {"host": host, "why": cause.reason or plain(exc)}
        )
    return ProviderUnavailable(
        _("The connection to “%(host)s” was lost: %(why)s.") % {"host": host, "why": plain(exc)}
    )


def plain(exc: Exception) -> str:
    """The words of an exception, fit to stand in a sentence."""
    return str(exc).rstrip(".") or type(exc).__name__
