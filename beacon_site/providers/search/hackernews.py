"""Hacker News stories, through Algolia's search; no key, 10,000 requests per hour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, time
from typing import Any

from beacon_site.providers.search.answers import (
    MAX_PAGES,
    HttpSearch,
    endpoint,
    json_object,
    list_of,
    odd_shape,
    parse_date,
    quoted_keywords,
    usable_url,
)
from beacon_site.providers.search.base import BY_NAME, SearchHit, SearchOptions

VENDOR_URL = BY_NAME["hackernews"].vendor_url
ITEM_URL = "https://news.ycombinator.com/item?id="
MAX_PER_PAGE = 100
_BY_RELEVANCE, _BY_DATE = "/api/v1/search", "/api/v1/search_by_date"


class HackerNewsSearch(HttpSearch):
    service = "hackernews"

    def worded(self, query: str, options: SearchOptions) -> str:
        """Return the words that are searched for `query`; a story must contain all of them."""
        return quoted_keywords(query, options)

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return at most `options.limit` stories, best or newest first.

        A hit's URL is the story's link, or its discussion if it has none (Ask HN).  Raises
        ProviderUnavailable (down, slow, rate limited) or ProviderRejected (URL, request).
        """
        path, other = _BY_RELEVANCE, _BY_DATE
        if options.newest_first:
            path, other = other, path
        url = endpoint(self._http.name, self._base, path, also=(other,))
        params = {
            "query": self.worded(query, options),
            "tags": "story",
            "hitsPerPage": str(min(options.limit, MAX_PER_PAGE)),
        }
        if not params["query"]:
            return []
        if '"' in params["query"]:
            params["advancedSyntax"] = "true"  # Algolia's name for quoted phrases
        if options.since:
            moment = datetime.combine(options.since, time.min, UTC)
            params["numericFilters"] = f"created_at_i>={int(moment.timestamp())}"
        return self._once.hits(params, options, lambda: self._pages(url, params))

    def _pages(self, url: str, params: Mapping[str, str]) -> Iterator[list[SearchHit | None]]:
        for page in range(MAX_PAGES):
            reply = self._http.get(url, {**params, "page": str(page)})
            body = json_object(self._http, reply, keyed=False)
            if "hits" not in body:
                raise odd_shape(self._http)
            yield [self._hit(item) for item in list_of(self._http, body, "hits")]
            pages = body.get("nbPages")
            if not isinstance(pages, int) or page + 1 >= pages:
                return

    def _hit(self, item: Mapping[str, Any]) -> SearchHit | None:
        number = item.get("objectID")
        discussion = f"{ITEM_URL}{number}" if str(number or "").isdigit() else ""
        return self._hit_of(
            url=usable_url(item.get("url")) or discussion,
            title=item.get("title") or item.get("story_title"),
            snippet=item.get("story_text"),
            published_at=parse_date(item.get("created_at")),
        )
