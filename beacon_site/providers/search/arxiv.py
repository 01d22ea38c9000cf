"""arXiv: research papers, through its Atom API; no key, one request every three seconds.

Three of its answers need special handling: one entry titled "Error" for a bad query, an empty page
although results are counted, and plain text with status 200 for too many requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.extract import get_extractor
from beacon_site.net.http import Reply
from beacon_site.net.rate_limit import MinInterval
from beacon_site.providers.search.answers import (
    MAX_PAGES,
    MAX_REASON_LENGTH,
    HttpSearch,
    endpoint,
    error_text_in,
    failure,
    keywords,
    one_line,
    parse_date,
    parsed,
    phrase,
    plain_text,
)
from beacon_site.providers.search.base import BY_NAME, SearchHit, SearchOptions
from beacon_site.text.messages import gettext as _

PACE = MinInterval("arXiv", "arxiv.org", seconds=3)
VENDOR_URL = BY_NAME["arxiv"].vendor_url
PAPER_URL = "https://arxiv.org/abs/"
MAX_PER_PAGE = 100
ATOM = "application/atom+xml, application/xml;q=0.9"
_PAPER = re.compile(r"/abs/(?P<id>[\w.-]+(?:/\w+)?)$")
_NO_FEED: dict[str, Any] = {"version": "", "total": "", "start": "", "entries": []}
_VERSION = re.compile(r"v\d+$")


class ArxivSearch(HttpSearch):
    service = "arxiv"

    @property
    def is_paced(self) -> bool:
        """Return True if its rate limit applies, which it doesn't to a server set by the admin."""
        return PACE.covers(self._base)

    def worded(self, query: str, options: SearchOptions) -> str:
        """Return the query for arXiv: each word or phrase must be somewhere in a paper's record.

        Words with a hyphen or dot become phrases, because arXiv treats those as operators.
        """
        terms = filter(
            None, map(phrase, keywords(query, about=options.about, languages=options.languages))
        )
        return " AND ".join(f'all:"{term}"' if " " in term else f"all:{term}" for term in terms)

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return at most `options.limit` papers, best or newest first.

        A hit's URL is the abstract without a version, and its date is that of the first version.
        Raises ProviderUnavailable (down, slow, rate limited, wrongly empty) or ProviderRejected
        (URL, request).
        """
        url = endpoint(self._http.name, self._base, "/api/query")
        params = {
            "search_query": self.worded(query, options),
            "sortBy": "submittedDate" if options.newest_first else "relevance",
            "sortOrder": "descending",
            "max_results": str(min(options.limit, MAX_PER_PAGE)),
        }
        if not params["search_query"]:
            return []
        return self._once.hits(params, options, lambda: self._pages(url, params))

    def _pages(self, url: str, params: Mapping[str, str]) -> Iterator[list[SearchHit | None]]:
        start = 0
        for _page in range(MAX_PAGES):
            with PACE.turn(url):
                reply = self._http.get(url, {**params, "start": str(start)}, accept=ATOM)
            feed = self._feed(reply)
            yield [self._hit(entry) for entry in feed["entries"]]
            start += len(feed["entries"])
            if not feed["entries"] or start >= _number(feed["total"]):
                return

    def _feed(self, reply: Reply) -> dict[str, Any]:
        """Return the parsed page; raise for any other answer."""
        is_atom = b"<feed" in reply.content[:2000]
        feed = (
            get_extractor().read_feed(reply.content, PAPER_URL) if is_atom else None
        ) or _NO_FEED
        why = (
            _error_of(feed)
            or error_text_in(self._http, parsed(reply))
            or plain_text(self._http, reply)
        )
        if "rate exceeded" in why.lower() and reply.status == HTTPStatus.OK:
            raise ProviderUnavailable(
                _("arXiv rate limit reached (%(why)s). Try again later.") % {"why": why},
                retry_after=PACE.seconds,
            )
        if reply.status != HTTPStatus.OK:
            raise failure(self._http, reply, why, keyed=False)
        if not feed["version"]:
            raise ProviderUnavailable(_("arXiv didn’t return an Atom feed. Check the base URL."))
        if why:
            raise ProviderRejected(_("arXiv rejected the search (%(why)s).") % {"why": why})
        if not feed["entries"] and _number(feed["total"]) > _number(feed["start"]):
            raise ProviderUnavailable(
                _("arXiv reported results, but sent an empty page. Try again later."),
                retry_after=PACE.seconds,
            )
        return feed

    def _hit(self, entry: Mapping[str, Any]) -> SearchHit | None:
        match = _PAPER.search(entry["id"])
        if not match:
            return None
        number = _VERSION.sub("", match["id"])
        return self._hit_of(
            url=PAPER_URL + number,
            title=entry["title"],
            snippet=entry["text"],
            published_at=parse_date(entry["day"]),
        )


def _error_of(feed: Mapping[str, Any]) -> str:
    """Return the text of an answer with one entry titled "Error", or ""."""
    for entry in feed["entries"][:1]:
        if "/api/errors" in entry["id"] or entry["title"] == "Error":
            return one_line(entry["text"], MAX_REASON_LENGTH) or _("no reason given")
    return ""


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
