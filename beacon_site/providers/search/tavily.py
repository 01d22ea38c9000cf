"""Tavily: web search for agents, one POST per query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beacon_site.providers.search import answers
from beacon_site.providers.search.answers import parse_date
from beacon_site.providers.search.base import SearchHit, SearchOptions

MAX_QUERY_LENGTH = 399  # characters; Tavily answers 400 to longer ones
MAX = 20  # results per query; there are no further pages
KEY_LIMIT, PLAN_LIMIT = 432, 433  # Tavily's own statuses: the key's or the account's credits


class TavilySearch(answers.HttpSearch):
    service = "tavily"

    def _secret_headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if key else {}

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return at most `options.limit` hits, and never more than twenty.

        A long query is cut after a word.  An empty list means that Tavily found nothing.  Raises
        ProviderUnavailable (down, slow, rate limited) or ProviderRejected (key, request, credits).
        """
        self._check_key()
        url = answers.endpoint("Tavily", self._base, "/search")
        reply = self._http.post(url, _request_body(query, options))
        if reply.status in (KEY_LIMIT, PLAN_LIMIT):
            raise answers.used_up(
                self._http, answers.error_text_in(self._http, answers.parsed(reply))
            )
        found = answers.json_object(self._http, reply)
        if "results" not in found:
            raise answers.odd_shape(self._http, answers.error_text_in(self._http, found))
        items = answers.list_of(self._http, found, "results")
        return answers.gathered([[self._hit(item) for item in items]], options)

    def _hit(self, item: Mapping[str, Any]) -> SearchHit | None:
        return self._hit_of(
            url=item.get("url"),
            title=item.get("title"),
            snippet=item.get("content"),
            published_at=parse_date(item.get("published_date")),
        )


def _request_body(query: str, options: SearchOptions) -> dict[str, object]:
    """Return the body of a search.  Tavily doesn't support languages, so they are left out."""
    values: dict[str, object] = {
        "query": answers.shortened(query, characters=MAX_QUERY_LENGTH),
        "search_depth": "basic",  # one credit; "advanced" costs two
        # The engine Google News means Tavily's news topic, whose results have dates.
        "topic": "news" if options.engine == "google_news" else "general",
        "max_results": max(1, min(options.limit, MAX)),
    }
    if options.since:
        values["start_date"] = options.since.isoformat()
    return values
