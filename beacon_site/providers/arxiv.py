"""arXiv: research papers, over its Atom API; no key, one request every three seconds.

Three of its habits are told from an answer here: a bad query is one entry titled "Error", a page
may be empty although results are counted, and too many requests may be plain text with status 200.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

import feedparser
from django.utils.translation import gettext as _

from beacon_site.providers.answers import (
    LONGEST_REASON,
    MAX_PAGES,
    endpoint,
    failure,
    hit_of,
    parsed,
    plain_text,
    said,
)
from beacon_site.providers.asked_once import AskedOnce
from beacon_site.providers.errors import ProviderRejected, ProviderUnavailable
from beacon_site.providers.http import Reply, ServiceHttp
from beacon_site.providers.keywords import keywords, phrase
from beacon_site.providers.pace import OneEvery
from beacon_site.providers.results import one_line, parse_date
from beacon_site.providers.search import SearchHit, SearchOptions, SearchProfile

PACE = OneEvery("arXiv", "arxiv.org", seconds=3)
VENDOR_URL = "https://export.arxiv.org"
PAPER_URL = "https://arxiv.org/abs/"
MOST_A_PAGE = 100
LARGEST_PAGE = 1024 * 1024  # bytes; a hundred abstracts are 300 KB, and parsing takes its time
MOST_AUTHORS = 10  # named in `raw`: papers of large collaborations have thousands
ATOM = "application/atom+xml, application/xml;q=0.9"
_PAPER = re.compile(r"/abs/(?P<id>[\w.-]+(?:/\w+)?)$")
_VERSION = re.compile(r"v\d+$")


class ArxivSearch:
    """SearchProvider over arXiv.  It asks once: the caller decides about further tries."""

    service = "arxiv"

    def __init__(self, *, base_url: str = "", contact: str = "") -> None:
        self._base_url = base_url.strip() or VENDOR_URL
        self._http = ServiceHttp("arXiv", contact=contact, max_body=LARGEST_PAGE)
        self._once = AskedOnce()

    @classmethod
    def of(cls, profile: SearchProfile) -> ArxivSearch:
        """Return the provider that `profile` describes."""
        return cls(base_url=profile.base_url, contact=profile.contact)

    def worded(self, query: str, options: SearchOptions) -> str:
        """Return what is really asked for `query`: each word or phrase anywhere in a paper's record.

        Words with a hyphen or dot become phrases, for arXiv takes those as operators.
        """
        terms = filter(
            None, map(phrase, keywords(query, about=options.about, languages=options.languages))
        )
        return " AND ".join(f'all:"{term}"' if " " in term else f"all:{term}" for term in terms)

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return at most `options.limit` papers, the best first or the newest.

        Each leads to its abstract, whatever its version, and is dated by its first one.  Raises
        ProviderUnavailable (down, slow, limited, wrongly empty) or ProviderRejected (address,
        request).
        """
        url = endpoint(self._http.name, self._base_url, "/api/query")
        params = {
            "search_query": self.worded(query, options),
            "sortBy": "submittedDate" if options.newest_first else "relevance",
            "sortOrder": "descending",
            "max_results": str(min(options.limit, MOST_A_PAGE)),
        }
        if not params["search_query"]:
            return []
        return self._once.hits(params, options, lambda: self._pages(url, params))

    def _pages(self, url: str, params: Mapping[str, str]) -> Iterator[list[SearchHit | None]]:
        start = 0
        for _number in range(MAX_PAGES):
            with PACE.turn(url):
                reply = self._http.get(url, {**params, "start": str(start)}, accept=ATOM)
            feed = self._feed(reply)
            yield [self._hit(entry) for entry in feed.entries]
            start += len(feed.entries)
            if not feed.entries or start >= _total(feed):
                return

    def _feed(self, reply: Reply) -> Any:
        """Return the parsed page; raise for every answer that is none."""
        # Only words are taken, so nothing is sanitised; a page of HTML would keep the parser long.
        content = reply.content if b"<feed" in reply.content[:2000] else b""
        feed: Any = feedparser.parse(content, sanitize_html=False, resolve_relative_uris=False)
        why = _error_of(feed) or said(self._http, parsed(reply)) or plain_text(self._http, reply)
        if "rate exceeded" in why.lower() and reply.status == HTTPStatus.OK:
            raise ProviderUnavailable(
                _("arXiv limits the rate of searches (%(why)s). Try again later.") % {"why": why},
                retry_after=PACE.seconds,
            )
        if reply.status != HTTPStatus.OK:
            raise failure(self._http, reply, why, keyed=False)
        if not feed.version:
            raise ProviderUnavailable(
                _("arXiv answered with something that is not Atom. Is the base URL right?")
            )
        if why:
            raise ProviderRejected(_("arXiv did not accept the search (%(why)s).") % {"why": why})
        if not feed.entries and _total(feed) > _start(feed):
            raise ProviderUnavailable(
                _("arXiv counted results, but sent an empty page. Try again later."),
                retry_after=PACE.seconds,
            )
        return feed

    def _hit(self, entry: Any) -> SearchHit | None:
        found = _PAPER.search(str(entry.get("id", "")))
        if not found:
            return None
        number = _VERSION.sub("", found["id"])
        return hit_of(
            self._http,
            self.service,
            _record(entry),
            url=PAPER_URL + number,
            title=entry.get("title"),
            snippet=entry.get("summary"),
            published_at=parse_date(entry.get("published")),
        )


def _record(entry: Any) -> dict[str, object]:
    """Return what is kept of an entry: who wrote it, where it belongs, what was said of it."""
    authors = [author.get("name", "") for author in entry.get("authors", [])]
    return {
        "id": entry.get("id", ""),
        "authors": authors[:MOST_AUTHORS],
        "category": (entry.get("arxiv_primary_category") or {}).get("term", ""),
        "comment": one_line(entry.get("arxiv_comment"), LONGEST_REASON),
        "doi": entry.get("arxiv_doi", ""),
        "updated": entry.get("updated", ""),
    }


def _error_of(feed: Any) -> str:
    """Return the words of an answer that is one entry titled "Error", or ""."""
    for entry in feed.entries[:1]:
        if "/api/errors" in str(entry.get("id", "")) or entry.get("title") == "Error":
            return one_line(entry.get("summary"), LONGEST_REASON) or _("no reason given")
    return ""


def _total(feed: Any) -> int:
    return _number(feed, "opensearch_totalresults")


def _start(feed: Any) -> int:
    return _number(feed, "opensearch_startindex")


def _number(feed: Any, name: str) -> int:
    text = str(feed.feed.get(name, ""))
    return int(text) if text.isascii() and text.isdigit() else 0
