"""RSS and Atom feeds as a search service: fetched through the guard, parsed in a child process.

Feeds can't be searched.  Every entry of a topic's feeds is a candidate, and the query only ranks
them, by its words and then by date.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Iterable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import urljoin

import structlog

from beacon_site.net.errors import (
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    ServiceUnreachable,
)
from beacon_site.net.extract import get_extractor
from beacon_site.providers.search.answers import (
    MAX_SNIPPET_LENGTH,
    MAX_TITLE_LENGTH,
    text_of_html,
    usable_url,
)
from beacon_site.providers.search.base import SearchHit, SearchOptions, SearchProfile
from beacon_site.text.canonical_urls import host_of
from beacon_site.text.messages import gettext as _

logger = structlog.get_logger(__name__)

MAX_FEED_BYTES = 2 * 1024 * 1024  # bytes parsed; the rest is cut off
AT_ONCE = 6  # feeds fetched in parallel
FRESH_SECONDS = 300.0  # one fetch serves all queries of a run
ACCEPT = "application/rss+xml, application/atom+xml, application/xml;q=0.9, text/xml;q=0.8"

_WORD = re.compile(r"[^\W_]+(?:[+#]+)?")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")


class FetchedBytes(Protocol):
    """The result of a fetch: a complete body, after redirects and decompression."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def content(self) -> bytes: ...
    @property
    def final_url(self) -> str: ...


class GetBytes(Protocol):
    """Fetches a feed: returns 200 and 304, and raises a ProviderError for other statuses."""

    def __call__(self, url: str, *, headers: Mapping[str, str] | None = None) -> FetchedBytes: ...


# By a feed's URL, the headers with which it's sent only if it changed (its ETag and Last-Modified).
Validators = MutableMapping[str, dict[str, str]]


def feed_search(_profile: SearchProfile) -> FeedSearch:
    """Return the provider with the guarded fetcher, since feed URLs are untrusted."""
    # Imported late, because a test with a fake doesn't need the fetcher's HTTP stack.
    from beacon_site.net.fetch import GuardedFetcher

    return FeedSearch(GuardedFetcher().get_bytes)


class FeedSearch:
    """A SearchProvider for the feeds named in the options.

    Create one per run and share it, so that each feed is fetched once for all queries and threads.
    If the caller keeps `validators` (`Validators`) for the topic's next run, unchanged
    feeds return nothing.  Topics must not share them, or one topic would hide a feed from another.
    `warnings` names the feeds that failed while others answered.
    """

    service = "feeds"

    def __init__(
        self,
        get_bytes: GetBytes,
        *,
        validators: Validators | None = None,
    ) -> None:
        self.warnings: list[str] = []
        self.validators: Validators = {} if validators is None else validators
        self._get_bytes = get_bytes
        # The entries of each feed, and when they were fetched (monotonic seconds).
        self._held: dict[str, tuple[tuple[SearchHit, ...], float]] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return at most `options.limit` entries, those with the most words of the query first.

        Entries known to be older than `options.since` are left out.  Without feeds there are no
        hits.  If some feeds fail, there is a warning.  If all fail, ProviderUnavailable is raised
        if a retry can help for any of them, else ProviderRejected.
        """
        began = time.monotonic()
        feeds = list(dict.fromkeys(options.feeds))
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            outcomes = list(pool.map(self._outcome, feeds))
        found: dict[str, SearchHit] = {}
        failures: dict[str, ProviderError] = {}
        for url, outcome in zip(feeds, outcomes, strict=True):
            if isinstance(outcome, ProviderError):
                failures[url] = outcome
            else:
                found.update({hit.url: hit for hit in outcome if hit.url not in found})
        if failures:
            self._judge(failures, among=len(feeds))
        ranked = _rank(query, _recent(found.values(), options.since))[: options.limit]
        logger.info(
            "search answered",
            service=self.service,
            feeds=len(options.feeds),
            hits=len(ranked),
            ms=round((time.monotonic() - began) * 1000),
        )
        return [replace(hit, rank=place) for place, hit in enumerate(ranked, 1)]

    def _judge(self, failures: Mapping[str, ProviderError], *, among: int) -> None:
        """Raise if every feed failed; otherwise keep the reasons as warnings, without duplicates."""
        texts = []
        for url, exc in failures.items():
            # Only the host is logged, since the URL of a private feed contains its key.
            logger.warning("feed left out", host=host_of(url), why=type(exc).__name__)
            texts.append(_("The feed %(url)s was skipped: %(why)s") % {"url": url, "why": exc})
        if len(failures) < among:
            self.warnings.extend(text for text in texts if text not in self.warnings)
            return
        message = " ".join(texts)
        passing = [exc for exc in failures.values() if isinstance(exc, ProviderUnavailable)]
        if not passing:
            raise ProviderRejected(message)
        waits = [exc.retry_after for exc in passing if exc.retry_after is not None]
        unreached = all(isinstance(exc, ServiceUnreachable) for exc in failures.values())
        kind = ServiceUnreachable if unreached else ProviderUnavailable
        raise kind(message, retry_after=min(waits, default=None))

    def _outcome(self, url: str) -> tuple[SearchHit, ...] | ProviderError:
        try:
            return self._entries(url)
        except ProviderError as exc:
            return exc

    def _entries(self, url: str) -> tuple[SearchHit, ...]:
        """Return the feed's entries, fetched unless they are still fresh."""
        with self._lock:
            lock = self._locks.setdefault(url, threading.Lock())
        with lock:
            hits, at = self._held.get(url, ((), -math.inf))
            if time.monotonic() - at < FRESH_SECONDS:
                return hits
            hits = self._fetch(url, hits)
            self._held[url] = hits, time.monotonic()
            return hits

    def _fetch(self, url: str, known_hits: tuple[SearchHit, ...]) -> tuple[SearchHit, ...]:
        headers = {"Accept": ACCEPT, **self.validators.get(url, {})}
        got = self._get_bytes(url, headers=headers)
        if got.status == HTTPStatus.NOT_MODIFIED:
            return known_hits
        values = {name.lower(): value for name, value in got.headers.items()}
        hits = parse_feed(got.content, url=url, final_url=got.final_url)
        known = (("If-None-Match", "etag"), ("If-Modified-Since", "last-modified"))
        self.validators[url] = {asked: values[name] for asked, name in known if values.get(name)}
        return hits


def parse_feed(content: bytes, *, url: str, final_url: str = "") -> tuple[SearchHit, ...]:
    """Return the entries of a feed in its own order; those without a URL are left out.

    The readable entries of a broken feed count.  Raises ProviderRejected if it isn't a feed, or
    exceeds the reader's limits.
    """
    base = final_url or url
    parsed = get_extractor().read_feed(content[:MAX_FEED_BYTES], base)
    if parsed is None:
        raise ProviderRejected(
            _(
                "Reading the feed at %(url)s exceeded the time or memory limit. This can be a sign of an attack."
            )
            % {"url": url}
        )
    if not parsed["entries"] and not parsed["version"]:
        raise ProviderRejected(
            _("%(url)s isn’t an RSS or Atom feed. Enter the URL of the feed itself.") % {"url": url}
        )
    made = (_hit(entry, base) for entry in parsed["entries"])
    return tuple(hit for hit in made if hit)


def _hit(entry: Mapping[str, Any], base: str) -> SearchHit | None:
    url = _address(entry, base)
    if not url:
        return None
    return SearchHit(
        url=url,
        title=text_of_html(entry["title"], MAX_TITLE_LENGTH) or url,
        snippet=text_of_html(entry["text"], MAX_SNIPPET_LENGTH),
        service="feeds",
        published_at=date.fromisoformat(entry["day"]) if entry["day"] else None,
    )


def _address(entry: Mapping[str, Any], base: str) -> str:
    """Return the entry's absolute URL, from its link or its id."""
    for link in entry["links"]:
        try:
            url = usable_url(urljoin(base, link.strip()))
        except ValueError:  # such as an unclosed bracket
            continue
        if url:
            return url
    return usable_url(entry["id"])


def _recent(hits: Iterable[SearchHit], since: date | None) -> list[SearchHit]:
    return [
        hit for hit in hits if not since or hit.published_at is None or hit.published_at >= since
    ]


def _rank(query: str, hits: list[SearchHit]) -> list[SearchHit]:
    """Sort by words of the query (double in a title), then newest, then in the feed's order."""
    query_words = _words(query)

    def weight(hit: SearchHit) -> tuple[int, int]:
        in_title, in_text = query_words & _words(hit.title), query_words & _words(hit.snippet)
        day = hit.published_at.toordinal() if hit.published_at else 0
        return (-(len(in_title) * 2 + len(in_text - in_title)), -day)

    return sorted(hits, key=weight)


def _words(text: str) -> set[str]:
    """Return the distinct words; scripts without spaces count as pairs of characters."""
    words: set[str] = set()
    for word in _WORD.findall(text.casefold()):
        if _WIDE.search(word):
            words.update(word[at : at + 2] for at in range(max(len(word) - 1, 1)))
        else:
            words.add(word)
    return words
