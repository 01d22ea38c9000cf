"""The search services that want a key or an address, on loopback, each in its vendor's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from werkzeug import Response

from tests.providers.loopback import Scene, json_answer, status
from tests.providers.scenarios import RETRY_AFTER, Asked, SearchServer

OUT_OF_SEARCHES = "Your account has run out of searches."
HOURLY = "Your account has exceeded its hourly throughput limit of 1000 searches."
NOTHING_FOUND = "Google hasn't returned any results for this query."
SERPAPI_REFUSES = "Invalid API key. Your API key should be here: https://serpapi.com/manage-api-key"


def result(number: int, **more: object) -> dict[str, Any]:
    """One organic result, as SerpAPI writes it."""
    return {
        "position": number,
        "title": f"Result {number}",
        "link": f"https://news.example.org/{number}",
        "snippet": f"What result {number} says.",
        **more,
    }


class SerpApiServer(SearchServer):
    """SerpAPI's /search.json: `results` for every query, or a dictionary from query to results.

    Pages hold `page` results and name the next one in `serpapi_pagination`, unless `pagination`
    is False.  With `key` set any other key is refused as SerpAPI does.
    """

    service = "serpapi"
    result = staticmethod(result)

    def __init__(
        self,
        results: Mapping[str, Sequence[dict[str, Any]]] | Sequence[dict[str, Any]] = (),
        *,
        key: str = "",
        page: int = 10,
        pagination: bool = True,
    ) -> None:
        super().__init__(results, page=page)
        self.key = key
        self.pagination = pagination

    @property
    def headers(self) -> list[dict[str, str]]:
        """Return the headers of each request, oldest first."""
        return [asked.headers for asked in self.asked]

    @property
    def base_url(self) -> str:
        """Return what SERPAPI_BASE_URL is set to."""
        return self.origin

    def unauthorised(self) -> Scene:
        return status(401, SERPAPI_REFUSES)

    def rate(self) -> Scene:
        return status(429, HOURLY, {"Retry-After": RETRY_AFTER})

    def quota(self) -> Scene:
        return status(429, OUT_OF_SEARCHES)

    def answer(self, asked: Asked) -> Response:
        if asked.path != "/search.json":
            return json_answer({"error": "Not found"}, 404)
        if self.key and asked.get("api_key") != self.key:
            told = f"Invalid API key: {asked.get('api_key')}. Your API key should be here: …"
            return json_answer({"error": told}, 401)
        found = self.results
        found = found.get(asked.get("q", ""), ()) if isinstance(found, Mapping) else found
        start = int(asked.get("start", 0))
        return self._page(list(found), start, asked.get("engine", "google"))

    def _page(self, found: list[dict[str, Any]], start: int, engine: str) -> Response:
        name = {"google_news": "news_results", "google_jobs": "jobs_results"}.get(engine)
        shown = found[start : start + self.page]
        body: dict[str, Any] = {"search_metadata": {"status": "Success"}}
        if not shown:
            return json_answer({**body, "error": NOTHING_FOUND})
        body[name or "organic_results"] = shown
        if self.pagination and len(found) > start + self.page:
            following = f"https://serpapi.com/search.json?engine={engine}&start={start + self.page}"
            body["serpapi_pagination"] = {"next": following}
        return json_answer(body)
