"""Fetching web pages as text, through the address guard and within limits.

`GuardedFetcher` opens one connection per redirect, each through `address_guard`.  It counts time
and bytes with one `Meter`, decompresses with `bounded`, and reads the text with `extract`.  If only
scripts show a page's text, `browser` opens the page again, if there is a Chromium.  Every failure is
a sentence for the person who reads the run.
"""

from __future__ import annotations

import re
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

from beacon_site.net import browser
from beacon_site.net.address_guard import ForbiddenAddress, Resolver, check_url, resolve
from beacon_site.net.bounded import WIRE_BYTES, Limits, Meter, too_large, unpacker_for
from beacon_site.net.browser import BrowserBusy
from beacon_site.net.errors import ProviderError, ProviderRejected, ms_since
from beacon_site.net.extract import (
    Extracted,
    Extractor,
    NoText,
    PagePart,
    PartNotFound,
    get_extractor,
)
from beacon_site.net.guarded_http import exchange, fields_of
from beacon_site.net.http import Reply, refusal
from beacon_site.text.canonical_urls import host_of
from beacon_site.text.messages import gettext as _

logger = structlog.get_logger(__name__)

ACCEPT = (
    "text/html, application/xhtml+xml, text/markdown;q=0.9, text/plain;q=0.8, "
    "application/pdf;q=0.8, */*;q=0.1"
)
# Five mebibytes in pieces of a hundred bytes.  Each piece costs work, even if it's small.
MAX_PIECES = 50_000
HTML = "text/html; charset=utf-8"
REDIRECTS = frozenset({301, 302, 303, 307, 308})
READABLE = frozenset(
    {
        "",
        "application/csv",
        "application/json",
        "application/ld+json",
        "application/octet-stream",
        "application/pdf",
        "application/toml",
        "application/x-latex",
        "application/x-tex",
        "application/x-yaml",
        "application/xhtml+xml",
        "application/xml",
        "application/rss+xml",
        "application/atom+xml",
        "application/yaml",
    }
)
# Headers that are sent to another site after a redirect, without signatures or tokens.
HARMLESS = frozenset({"accept", "if-none-match", "if-modified-since"})


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page's text, with a blank line between paragraphs, as valid UTF-8 without NUL.

    `url` is the URL asked for and `final_url` the one that answered after redirects.
    """

    url: str
    final_url: str
    title: str
    text: str
    published_at: date | None = None
    content_type: str = ""
    etag: str = ""  # the server's name for this version of the page, for later requests
    last_modified: str = ""


class NeedsJavaScript(NoText):
    """Only scripts show the page's text, and there is no Chromium."""


class PageFetcher(Protocol):
    """Anything that returns the text of a URL."""

    def fetch(self, url: str, *, part: PagePart | None = None) -> WebPage:
        """Return the page, never an empty one; with a part, only that part's text.

        Raises ProviderUnavailable if a later retry can help, and ProviderRejected if not.  The
        message says what happened and why.
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

    def fetch(self, url: str, *, part: PagePart | None = None) -> WebPage:
        """Return the text of a page, a PDF, or a Markdown or plain text file.

        With a part, only the text of that part of a page.

        Raises ProviderUnavailable (server down, slow, cut off, 429, 5xx) or ProviderRejected
        (forbidden address, 404, too large, not text, empty, without that part, hostile).
        """
        page = self._page(url, {}, part)
        if page is None:
            raise refusal(HTTPStatus.NOT_MODIFIED, {}, url)
        return page

    def fetch_if_changed(self, url: str, *, etag: str, last_modified: str) -> WebPage | None:
        """Return the page, or None if its version hasn't changed; raises as fetch().

        If both are empty, the page is always fetched.
        """
        values = {"If-None-Match": etag, "If-Modified-Since": last_modified}
        # These values came from a server and are sent back, so they must not contain line breaks.
        page = self._page(url, {k: v for k, v in values.items() if v and v.isprintable()})
        if page is None and not (etag or last_modified):
            raise refusal(HTTPStatus.NOT_MODIFIED, {}, url)
        return page

    def _page(
        self, url: str, conditions: dict[str, str], part: PagePart | None = None
    ) -> WebPage | None:
        """Return the page; None if the server answers that it hasn't changed."""
        started = time.monotonic()
        meter = Meter(self._limits)
        try:
            headers = {"Accept": ACCEPT, **conditions}
            answer = self._get(url, headers, meter, self._limits.unpacked_bytes, only_text=True)
            if answer.status == HTTPStatus.NOT_MODIFIED:
                return None
            if not answer.content:
                raise ProviderRejected(_("The page is empty. The server sent no content."))
            found, rendered_url, is_whole = self._read(answer, part)
        except ProviderError as exc:
            logger.info("page not read", host=host_of(url), why=str(exc), ms=ms_since(started))
            raise
        logger.info("page read", host=host_of(url), bytes=meter.wire_bytes, ms=ms_since(started))
        # The version that the server names is that of the HTML, not of what its scripts show. If the
        # browser failed, the page is read again the next time.
        named = {} if rendered_url or not is_whole else answer.headers
        return WebPage(
            url=url,
            final_url=rendered_url or answer.final_url,
            title=found.title,
            text=found.text,
            published_at=found.published_at,
            content_type=_media_type(answer.headers.get("content-type", "")),
            etag=named.get("etag", ""),
            last_modified=named.get("last-modified", ""),
        )

    def _read(self, answer: Reply, part: PagePart | None) -> tuple[Extracted, str, bool]:
        """Return the text of a response, its URL in the browser, and whether the text is whole.

        The browser is asked if only scripts show the text. If it fails, a short text without them
        is returned, unless the browser was only busy.
        """
        kind = answer.headers.get("content-type", "")
        found: Extracted | None = None
        failure: NoText | None = None
        try:
            found = self._reader().extract(
                answer.content, content_type=kind, url=answer.final_url, part=part
            )
        except NoText as exc:
            failure = exc
        if found is not None and not (found.has_scripts and browser.is_set_up()):
            return found, "", True
        if failure is not None and not failure.has_scripts:
            raise failure
        if failure is not None and not browser.is_set_up():
            raise _without_browser(failure) from failure
        try:
            html, url = self._rendered(answer.final_url)
            text = self._reader().extract(
                html.encode("utf-8", "replace"), content_type=HTML, url=url, part=part
            )
        except ProviderError as exc:
            if found is None or isinstance(exc, BrowserBusy):
                raise
            logger.info("page not rendered", host=host_of(answer.final_url), why=str(exc))
            return found, "", False
        if found is not None and len(text.text) <= len(found.text):
            return found, "", True
        return text, url, True

    def _rendered(self, url: str) -> tuple[str, str]:
        allowed = self._allow_hosts
        if allowed is None:
            allowed = settings.BEACON_FETCH_ALLOW_HOSTS
        return browser.render(url, allow_hosts=allowed, resolver=self._resolver)

    def get_bytes(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        max_bytes: int = WIRE_BYTES,
    ) -> Reply:
        """Return the raw response, for feeds and similar; 304 is returned, other statuses raise.

        `max_bytes` limits the decompressed content.  The caller's headers are sent with our own,
        but after a redirect to another site only the conditional ones.  Raises as fetch().
        """
        return self._get(url, dict(headers or {}), Meter(self._limits), max_bytes)

    def warm_up(self) -> None:
        """Start this process's page reader without waiting, before the first page arrives."""
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
    ) -> Reply:
        """Follow redirects to the final response, each through the same guard."""
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
                    return Reply(response.status, fields, content, final_url)
            following = _redirected(target, fields, allowed)
            if _origin(following) != _origin(target):
                headers = {k: v for k, v in headers.items() if k.lower() in HARMLESS}
            target = following
        raise ProviderRejected(
            _("“%(host)s” redirected more than %(limit)d times, so Beacon stopped.")
            % {"host": target.host, "limit": self._limits.redirects}
        )


def _without_browser(failure: NoText) -> NoText:
    if isinstance(failure, PartNotFound):
        words = _(
            "%(why)s The page may need JavaScript to show its text. To let Beacon read such pages, an admin can set up Chromium."
        )
        return PartNotFound(words % {"why": failure}, has_scripts=True)
    return NeedsJavaScript(
        _(
            "This page needs JavaScript. To let Beacon read such pages, an admin can set up Chromium."
        ),
        has_scripts=True,
    )


@cache
def get_fetcher() -> PageFetcher:
    """Return the fetcher of this process; its parts are created at first use."""
    return GuardedFetcher()


def _check_answer(
    status: int, fields: Mapping[str, str], target: httpx.URL, limits: Limits, only_text: bool
) -> None:
    """Raise before reading the body, if its status, type or declared size rules it out."""
    if not 200 <= status < 300 and status != HTTPStatus.NOT_MODIFIED:
        raise refusal(status, fields, str(target))
    announced = fields.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > limits.wire_bytes:
        raise too_large(limits.wire_bytes)
    kind = _media_type(fields.get("content-type", ""))
    if only_text and kind not in READABLE and not kind.startswith("text/"):
        raise ProviderRejected(_("Beacon can’t read “%(kind)s” files.") % {"kind": kind})


def _body(
    response: httpcore.Response, fields: Mapping[str, str], meter: Meter, max_content: int
) -> bytes:
    """Read and decompress the body in pieces, never past a limit."""
    unpacker = unpacker_for(fields.get("content-encoding", ""), limit=max_content)
    content = bytearray()
    for number, piece in enumerate(response.iter_stream()):
        meter.remaining()
        if number >= MAX_PIECES:
            raise ProviderRejected(
                _("The server sent the page in too many tiny pieces, so it was skipped.")
            )
        content += unpacker.feed(piece)
    unpacker.finish()
    return bytes(content)


def _redirected(target: httpx.URL, fields: Mapping[str, str], allowed: frozenset[str]) -> httpx.URL:
    """The target of a redirect, checked like the first URL."""
    place = fields.get("location", "")
    if not place:
        raise ProviderRejected(
            _("“%(host)s” sent a redirect without a target.") % {"host": target.host}
        )
    try:
        following = check_url(str(target.join(place)), allowed)
    except (httpx.InvalidURL, ValueError) as exc:
        raise ProviderRejected(
            _("“%(host)s” redirects to an invalid URL.") % {"host": target.host}
        ) from exc
    except ForbiddenAddress as exc:
        raise ForbiddenAddress(
            _("“%(host)s” redirects to a URL that Beacon won’t open. %(why)s")
            % {"host": target.host, "why": exc}
        ) from exc
    if target.scheme == "https" and following.scheme == "http":
        raise ProviderRejected(
            _(
                "“%(host)s” redirects from https to http, which isn’t secure, so Beacon didn’t follow the redirect."
            )
            % {"host": target.host}
        )
    return following


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


# --- error pages, sign-in forms and CAPTCHAs ---

_MAX_LENGTH = 1_500  # characters; a longer text is a real page
_LEAD = 400  # characters that show what it is

_CHALLENGE = re.compile(
    r"\b(?:verify(?:ing)? (?:that )?you(?: are|['’]re) (?:a )?(?:human|not a robot)|are you a (?:robot|human)|prove (?:that )?you(?: are|['’]re) human"
    r"|(?:complet\w+|solv\w+) the captcha|checking (?:if the site connection is secure|your browser)"
    r"|enable javascript and cookies to continue|unusual traffic from your|needs to review the security of your connection"
    r"|press (?:and|&) hold to confirm|bestätigen sie, dass sie (?:ein mensch|kein roboter)|vérifie[rz] que vous (?:êtes|n['’]êtes pas)"
    r"|verifi(?:ca|que) que (?:eres|es usted|no eres))",
    re.IGNORECASE,
)
_SIGN_IN = re.compile(
    r"\b(?:(?:please |you (?:must|need to|have to) (?:be )?)(?:sign|log)(?:ged|ed)?[ -]?in\b"
    r"|(?:sign|log)[ -]?in (?:to (?:continue|access|view|read|your account)|is required)|session (?:has )?expired"
    r"|subscribe to (?:continue|read|keep) reading|bitte (?:melden sie sich an|loggen sie sich ein)|veuillez vous (?:connecter|identifier)"
    r"|(?:inicie|inicia) sesión para)|请(?:先)?登录|ログインしてください",
    re.IGNORECASE,
)
_NOT_FOUND = re.compile(
    r"\b(?:(?:page|article|document|file)\b.{0,60}(?:does not|doesn['’]t|no longer) exists?|(?:page|article|document|file) (?:was |could )?not (?:be )?found"
    r"|(?:cannot|can['’]t|couldn['’]t|could not) find (?:the|that|this) page|404 not found|error 404"
    r"|seite (?:wurde )?nicht gefunden|seite existiert nicht|page (?:introuvable|non trouvée)|página no (?:encontrada|existe))|页面不存在|找不到(?:页面|网页)",
    re.IGNORECASE,
)
_TITLES = (
    (re.compile(r"(?:just a moment|attention required|are you a robot|captcha|security check|access denied)\b", re.IGNORECASE), "challenge"),
    (re.compile(r"(?:sign|log)[ -]?in\b|anmelden\b|(?:se )?connexion\b|iniciar sesión\b|登录|ログイン", re.IGNORECASE), "sign-in"),
    (re.compile(r"(?:page )?not found\b|404\b|seite nicht gefunden\b|page introuvable\b|página no encontrada\b", re.IGNORECASE), "not found"),
)  # fmt: skip


def reason_against(title: str, text: str) -> str:
    """Return why a text isn't the requested page, as a sentence, or "" if it seems to be.

    Only short texts are checked, because an article about CAPTCHAs is a normal page.
    """
    message = " ".join(text.split())
    if len(message) > _MAX_LENGTH:
        return ""
    lead = message[:_LEAD]
    kind = next((kind for pattern, kind in _TITLES if pattern.match(title.strip())), "")
    # For a longer text, neither the title nor the first words are enough, because they may be its
    # subject.
    is_brief = len(message) <= _LEAD
    if _CHALLENGE.search(lead) or (kind == "challenge" and is_brief):
        return _("the site sent a CAPTCHA instead of the text")
    for name, pattern, words in (
        ("sign-in", _SIGN_IN, _("the site sent a sign-in page instead of the text")),
        ("not found", _NOT_FOUND, _("the site says the page doesn’t exist")),
    ):
        signs = (kind == name) + bool(pattern.search(lead)) + is_brief
        if signs >= 2:
            return words
    return ""
