"""Fetching pages that the web names: through the address guard, within bounds, as text.

`GuardedFetcher` opens one connection after another for a chain of redirects, each through
`address_guard`, counts time and bytes with one `Meter`, unpacks with `inflate` and has the
text read by `extract`.  Every failure is a sentence for the person who reads the run.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from http import HTTPStatus
from typing import Protocol

import httpcore
import httpx
import structlog
from django.conf import settings
from django.utils.translation import gettext as _

from beacon_site.net.address_guard import ForbiddenAddress, Resolver, check_url, resolve
from beacon_site.net.bounded import WIRE_BYTES, Limits, Meter, too_large, unpacker_for
from beacon_site.net.errors import ProviderError, ProviderRejected
from beacon_site.net.extract import Extractor, get_extractor
from beacon_site.net.guarded_http import exchange, fields_of
from beacon_site.net.http import refusal

logger = structlog.get_logger(__name__)

ACCEPT = (
    "text/html, application/xhtml+xml, text/markdown;q=0.9, text/plain;q=0.8, "
    "application/pdf;q=0.8, */*;q=0.1"
)
# Five mebibytes in pieces of a hundred bytes; each piece costs work, whatever its size.
MAX_PIECES = 50_000
REDIRECTS = frozenset({301, 302, 303, 307, 308})
READABLE = frozenset(
    {
        "",
        "application/json",
        "application/ld+json",
        "application/octet-stream",
        "application/pdf",
        "application/xhtml+xml",
        "application/xml",
        "application/rss+xml",
        "application/atom+xml",
    }
)
# Headers that a redirect to another site may see; a signature or a token is not among them.
HARMLESS = frozenset({"accept", "if-none-match", "if-modified-since"})


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page as it was read: text with a blank line between paragraphs, valid UTF-8, no NUL.

    `url` is the address asked for, `final_url` the one that answered after redirects;
    `bytes_read` counts what came over the wire; `language` is a lower-case tag or "".
    """

    url: str
    final_url: str
    title: str
    text: str
    published_at: date | None = None
    language: str = ""
    content_type: str = ""
    bytes_read: int = 0
    etag: str = ""  # what the server calls this version of the page, for asking again
    last_modified: str = ""


@dataclass(frozen=True, slots=True)
class FetchedBytes:
    """A whole answer, unpacked; header names are in lower case."""

    status: int
    headers: dict[str, str]
    content: bytes
    final_url: str


class PageFetcher(Protocol):
    """Anything that turns an address into the text behind it."""

    def fetch(self, url: str) -> WebPage:
        """Return the page, never an empty one.

        Raises ProviderUnavailable if the caller may try again later, and ProviderRejected if
        it may not; the message says what happened and why.
        """
        ...


class GuardedFetcher:
    """Fetches over HTTP through the address guard; one object serves many threads."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        allow_hosts: frozenset[str] | None = None,
        resolver: Resolver = resolve,
        extractor: Extractor | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`allow_hosts` ("host:port") defaults to the setting BEACON_FETCH_ALLOW_HOSTS."""
        self._limits = limits or Limits()
        self._allow_hosts = allow_hosts
        self._resolver = resolver
        self._extractor = extractor
        self._tls = tls

    def fetch(self, url: str) -> WebPage:
        """Return the text of a page, a PDF, or a Markdown or plain text file.

        Raises ProviderUnavailable (server down, slow, cut off, 429, 5xx) or ProviderRejected
        (forbidden address, 404, too large, not text, empty, hostile).
        """
        page = self._page(url, {})
        if page is None:
            raise refusal(HTTPStatus.NOT_MODIFIED, {}, url)
        return page

    def fetch_if_changed(self, url: str, *, etag: str, last_modified: str) -> WebPage | None:
        """Return the page, or None if it is still the version named; raises as fetch().

        With neither of the two named the page is fetched whatever version it is.
        """
        asked = {"If-None-Match": etag, "If-Modified-Since": last_modified}
        # What a server once said is sent back to it: nothing in it may end a header's line.
        page = self._page(url, {k: v for k, v in asked.items() if v and v.isprintable()})
        if page is None and not (etag or last_modified):
            raise refusal(HTTPStatus.NOT_MODIFIED, {}, url)
        return page

    def _page(self, url: str, conditions: dict[str, str]) -> WebPage | None:
        """Return the page; None for an answer that it has not changed."""
        started = time.monotonic()
        meter = Meter(self._limits)
        try:
            headers = {"Accept": ACCEPT, **conditions}
            answer = self._get(url, headers, meter, self._limits.unpacked_bytes, only_text=True)
            if answer.status == HTTPStatus.NOT_MODIFIED:
                return None
            if not answer.content:
                raise ProviderRejected(_("The page is empty: the server sent no content."))
            content_type = answer.headers.get("content-type", "")
            found = self._reader().extract(
                answer.content, content_type=content_type, url=answer.final_url
            )
        except ProviderError as exc:
            logger.info("page not read", host=_host(url), why=str(exc), ms=_ms(started))
            raise
        logger.info("page read", host=_host(url), bytes=meter.wire_bytes, ms=_ms(started))
        return WebPage(
            url=url,
            final_url=answer.final_url,
            title=found.title,
            text=found.text,
            published_at=found.published_at,
            language=found.language,
            content_type=_media_type(content_type),
            bytes_read=meter.wire_bytes,
            etag=answer.headers.get("etag", ""),
            last_modified=answer.headers.get("last-modified", ""),
        )

    def get_bytes(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        max_bytes: int = WIRE_BYTES,
    ) -> FetchedBytes:
        """Return the raw answer, for feeds and the like; 304 is an answer, other 4xx are not.

        `max_bytes` bounds the unpacked content.  Headers of the caller are sent beside our
        own, but a redirect to another site sees only the conditional ones.  Raises as fetch().
        """
        return self._get(url, dict(headers or {}), Meter(self._limits), max_bytes)

    def warm_up(self) -> None:
        """Start this process's page reader without waiting, before the first page is there."""
        self._reader().warm_up()

    def _reader(self) -> Extractor:
        return self._extractor or get_extractor()

    def _get(
        self,
        url: str,
        headers: dict[str, str],
        meter: Meter,
        max_content: int,
        *,
        only_text: bool = False,
    ) -> FetchedBytes:
        """Follow redirects to the answer, each through the same guard."""
        allowed = self._allow_hosts
        if allowed is None:
            allowed = settings.BEACON_FETCH_ALLOW_HOSTS
        target = check_url(url, allowed)
        for _hop in range(self._limits.redirects + 1):
            with exchange(
                "GET", target, headers, meter, allowed, resolver=self._resolver, tls=self._tls
            ) as response:
                fields = fields_of(response)
                if response.status not in REDIRECTS:
                    _check_answer(response.status, fields, target, self._limits, only_text)
                    content = _body(response, fields, meter, max_content)
                    final_url = str(target.copy_with(fragment=None))
                    return FetchedBytes(response.status, fields, content, final_url)
            following = _redirected(target, fields, allowed)
            if _origin(following) != _origin(target):
                headers = {k: v for k, v in headers.items() if k.lower() in HARMLESS}
            target = following
        raise ProviderRejected(
            _("“%(host)s” redirects more than %(limit)d times, so it was given up.")
            % {"host": target.host, "limit": self._limits.redirects}
        )


@cache
def get_fetcher() -> PageFetcher:
    """Return the fetcher of this process; its parts are made when they are first needed."""
    return GuardedFetcher()


def _check_answer(
    status: int, fields: Mapping[str, str], target: httpx.URL, limits: Limits, only_text: bool
) -> None:
    """Raise before the body is read, if status, type or announced size rule it out."""
    if not 200 <= status < 300 and status != HTTPStatus.NOT_MODIFIED:
        raise refusal(status, fields, str(target))
    announced = fields.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > limits.wire_bytes:
        raise too_large(limits.wire_bytes)
    kind = _media_type(fields.get("content-type", ""))
    if only_text and kind not in READABLE and not kind.startswith("text/"):
        raise ProviderRejected(
            _("This is not a text but “%(kind)s”, which Beacon does not read.") % {"kind": kind}
        )


def _body(
    response: httpcore.Response, fields: Mapping[str, str], meter: Meter, max_content: int
) -> bytes:
    """Read and unpack the body, a piece at a time, never past a limit."""
    unpacker = unpacker_for(fields.get("content-encoding", ""), limit=max_content)
    content = bytearray()
    for number, piece in enumerate(response.iter_stream()):
        meter.remaining()
        if number >= MAX_PIECES:
            raise ProviderRejected(
                _("The server sent the page in too many tiny pieces, so it was not read.")
            )
        content += unpacker.feed(piece)
    unpacker.finish()
    return bytes(content)


def _redirected(target: httpx.URL, fields: Mapping[str, str], allowed: frozenset[str]) -> httpx.URL:
    """The address that a redirect names, judged like the first one."""
    place = fields.get("location", "")
    if not place:
        raise ProviderRejected(
            _("“%(host)s” redirects without saying where to.") % {"host": target.host}
        )
    try:
        following = check_url(str(target.join(place)), allowed)
    except (httpx.InvalidURL, ValueError) as exc:
        raise ProviderRejected(
            _("“%(host)s” redirects to something that is no address.") % {"host": target.host}
        ) from exc
    except ForbiddenAddress as exc:
        raise ForbiddenAddress(
            _("“%(host)s” redirects to an address that is not opened. %(why)s")
            % {"host": target.host, "why": exc}
        ) from exc
    if target.scheme == "https" and following.scheme == "http":
        raise ProviderRejected(
            _("“%(host)s” redirects from https to plain http, which is not followed.")
            % {"host": target.host}
        )
    return following


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _host(url: str) -> str:
    """The host alone: an address may hold a secret in its query."""
    try:
        return httpx.URL(url).host
    except (httpx.InvalidURL, ValueError, TypeError):
        return ""


def _ms(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
