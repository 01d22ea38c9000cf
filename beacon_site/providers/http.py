"""HTTP to services that an operator configured: bounded in bytes and time, silent about keys.

Pages and feeds that the web names go through the guarded fetcher instead (fetch.py): the
addresses here were typed by the person who runs Beacon, so a loopback server is welcome.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from urllib.parse import quote

import httpx
from django.conf import settings
from django.utils.translation import gettext as _

from beacon_site.providers.errors import ProviderRejected, ProviderUnavailable

MAX_BODY = 4 * 1024 * 1024  # bytes after inflating: a page of search results is 50 to 300 KB
CONNECT_SECONDS = 5.0
LEAST_SECRET = 4  # characters; replacing shorter "keys" would only garble a message


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


class _SecretQuery(httpx.BaseTransport):
    """Add secret parameters on the wire alone, below what httpx logs and puts in exceptions."""

    def __init__(self, inner: httpx.BaseTransport, secret: Mapping[str, str]) -> None:
        self._inner = inner
        self._secret = dict(secret)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        sent = httpx.Request(
            request.method,
            request.url.copy_merge_params(self._secret),
            headers=request.headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        return self._inner.handle_request(sent)

    def close(self) -> None:
        self._inner.close()


class ServiceHttp:
    """GET requests to one service, by name, with parameters that must not be seen in a log."""

    def __init__(
        self,
        name: str,
        *,
        secret: Mapping[str, str] | None = None,
        contact: str = "",
        timeout: float = 30,
        max_body: int = MAX_BODY,
    ) -> None:
        """`timeout` is in seconds for a whole exchange, `max_body` in bytes after inflating."""
        self.name = name
        self.timeout = timeout
        self.max_body = max_body
        self._secret = {key: value for key, value in (secret or {}).items() if value}
        self._contact = contact

    @cached_property
    def _client(self) -> httpx.Client:
        # trust_env=False: a proxy or netrc of the shell must not decide where a key is sent.
        return httpx.Client(
            transport=_SecretQuery(httpx.HTTPTransport(trust_env=False), self._secret),
            timeout=httpx.Timeout(self.timeout, connect=CONNECT_SECONDS),
            trust_env=False,
            follow_redirects=False,
            headers={
                "User-Agent": user_agent(self._contact),
                "Accept": "application/json",
                "Accept-Encoding": "gzip, identity",
            },
        )

    def get(self, url: str, params: Mapping[str, str]) -> Reply:
        """Return the reply, whatever its status.

        Raises ProviderUnavailable when no whole reply came in time, ProviderRejected when the
        address is no address or the reply is larger than allowed.
        """
        names = {"name": self.name, "seconds": f"{self.timeout:g}"}
        try:
            return self._exchange(url, params)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):
            failure: Exception = ProviderRejected(
                _("%(name)s has no usable address. Correct its base URL.") % names
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
        except (httpx.TransportError, ValueError) as exc:
            why = next(iter(str(exc).splitlines()), "") or type(exc).__name__
            failure = ProviderUnavailable(
                _("%(name)s could not be reached or broke off: %(why)s.")
                % {**names, "why": self._scrubbed(why).rstrip(".")}
            )
        raise failure  # outside the handlers: no exception of the client hangs on to it

    def _exchange(self, url: str, params: Mapping[str, str]) -> Reply:
        deadline = time.monotonic() + self.timeout
        with self._client.stream("GET", url, params=dict(params)) as response:
            content = read_bounded(
                response.iter_raw(),
                encoding=response.headers.get("content-encoding", ""),
                limit=self.max_body,
                deadline=deadline,
            )
        headers = {key.lower(): value for key, value in response.headers.items()}
        return Reply(response.status_code, headers, content)

    def _scrubbed(self, text: str) -> str:
        for value in self._secret.values():
            text = scrub(text, value)
        return text
