"""The search services with a key or base URL on loopback, each with its vendor's wording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from werkzeug import Response

from tests.providers.loopback import Scene, json_answer, status
from tests.providers.scenarios import RETRY_AFTER, Asked, SearchServer

OUT_OF_SEARCHES = "Your account has run out of searches."
HOURLY = "Your account has exceeded its hourly throughput limit of 1000 searches."
NOTHING_FOUND = "Google hasn't returned any results for this query."
AGAIN = {"Retry-After": RETRY_AFTER}
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

    def unauthorized(self) -> Scene:
        return status(401, SERPAPI_REFUSES)

    def rate(self) -> Scene:
        return status(429, HOURLY, AGAIN)

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


# --- Tavily -------------------------------------------------------------------------------------


def told(code: int, text: str, headers: Mapping[str, str] | None = None) -> Scene:
    """An error of Tavily: its text is two levels deep."""
    return lambda _request: json_answer({"detail": {"error": text}}, code, headers)


class TavilyServer(SearchServer):
    """Tavily's POST /search, which gives `max_results` at once and has no pages."""

    service = "tavily"
    key = "tvly-dev-secret-0123456789"

    @staticmethod
    def result(number: int, **more: Any) -> dict[str, Any]:
        return {
            "title": f"Result {number}",
            "url": f"https://news.example.org/{number}",
            "content": f"What result {number} says.",
            "score": 1 - number / 100,
            "raw_content": None,
            **more,
        }

    def unauthorized(self) -> Scene:
        return told(401, "Unauthorized: missing or invalid API key.")

    def rate(self) -> Scene:
        return told(429, "Your request has been blocked due to excessive requests.", AGAIN)

    def quota(self) -> Scene:
        return told(432, "This request exceeds your plan's set usage limit.")

    def answer(self, asked: Asked) -> Response:
        if (asked.method, asked.path) != ("POST", "/search"):
            return json_answer({"detail": "Not Found"}, 404)
        if asked.headers.get("authorization") != f"Bearer {self.key}":
            return json_answer({"detail": {"error": "Unauthorized: invalid API key."}}, 401)
        if len(asked.body["query"]) >= 400:
            return json_answer({"detail": {"error": "Query is too long."}}, 400)
        found = list(self.results)[: asked.body["max_results"]]
        shown = {"query": asked.body["query"], "results": found, "images": []}
        return json_answer({**shown, "answer": None, "response_time": 0.8})


# --- Brave --------------------------------------------------------------------------------------


def brave_error(code: int, name: str, detail: str, headers: Mapping[str, str]) -> Scene:
    """An error of Brave."""
    error = {"id": "5d83", "status": code, "code": name, "detail": detail, "meta": {}}
    body = {"type": "ErrorResponse", "error": error, "time": 1_780_000_000}
    return lambda _request: json_answer(body, code, headers)


class BraveServer(SearchServer):
    """Brave's /res/v1/web/search, which counts pages from 0 to 9 and tells limits in pairs."""

    service = "brave"
    key = "BSA-secret-0123456789"

    @staticmethod
    def result(number: int, **more: Any) -> dict[str, Any]:
        return {
            "type": "search_result",
            "title": f"Result {number}",
            "url": f"https://news.example.org/{number}",
            "description": f"What <strong>result {number}</strong> says.",
            "meta_url": {"hostname": "news.example.org"},
            **more,
        }

    @staticmethod
    def limits(left: str, resets: str, limit: str = "1, 2000") -> dict[str, str]:
        """Return the headers about the second and the month."""
        return {
            "X-RateLimit-Limit": limit,
            "X-RateLimit-Policy": "1;w=1, 2000;w=2592000",
            "X-RateLimit-Remaining": left,
            "X-RateLimit-Reset": resets,
        }

    def unauthorized(self) -> Scene:
        detail = "The provided subscription token is invalid."
        return brave_error(422, "SUBSCRIPTION_TOKEN_INVALID", detail, {})

    def rate(self) -> Scene:
        detail = "Request rate limit exceeded for plan"
        return brave_error(429, "RATE_LIMITED", detail, self.limits("0, 1985", "1, 864000") | AGAIN)

    def quota(self) -> Scene:
        detail = "Request quota limit exceeded for plan"
        return brave_error(429, "RATE_LIMITED", detail, self.limits("1, 0", "1, 864000"))

    def answer(self, asked: Asked) -> Response:
        if asked.path != "/res/v1/web/search":
            return json_answer({"error": "Not Found"}, 404)
        if asked.headers.get("x-subscription-token") != self.key:
            return self.unauthorized()(None)  # type: ignore[arg-type]  # it looks at no request
        count, page = int(asked.get("count", "20")), int(asked.get("offset", "0"))
        shown = list(self.results)[page * count : (page + 1) * count]
        more = len(self.results) > (page + 1) * count
        query = {"original": asked.get("q"), "more_results_available": more}
        body: dict[str, Any] = {"type": "search", "query": query, "mixed": {"main": []}}
        if shown:
            body["web"] = {"type": "search", "results": shown, "family_friendly": True}
        return json_answer(body, 200, self.limits("0, 1999", "1, 864000"))


# --- SearXNG ------------------------------------------------------------------------------------


class SearxngServer(SearchServer):
    """A SearXNG's /search with JSON enabled; `json` is False by default in SearXNG."""

    service = "searxng"

    def __init__(self, results: Any = (), *, page: int = 10, json: bool = True) -> None:
        super().__init__(results, page=page)
        self.json = json
        self.unresponsive: list[list[str]] = []

    @staticmethod
    def result(number: int, **more: Any) -> dict[str, Any]:
        return {
            "title": f"Result {number}",
            "url": f"https://news.example.org/{number}",
            "content": f"What result {number} says.",
            "publishedDate": None,
            "engine": "duckduckgo",
            "engines": ["duckduckgo"],
            "score": 1.0,
            "category": "general",
            "parsed_url": ["https", "news.example.org", f"/{number}", "", "", ""],
            **more,
        }

    def forget(self) -> None:
        super().forget()
        self.unresponsive, self.json = [], True

    def rate(self) -> Scene:
        return lambda _request: Response("Too Many Requests", 429, headers=AGAIN)

    def answer(self, asked: Asked) -> Response:
        if asked.path != "/search":
            return Response("<h1>Not Found</h1>", 404, content_type="text/html")
        if asked.get("format") != "json" or not self.json:
            return Response("<h1>Forbidden</h1>", 403, content_type="text/html")
        shown = self.shown((int(asked.get("pageno", "1")) - 1) * self.page)
        body = {"query": asked.get("q"), "number_of_results": 0, "results": list(shown)}
        return json_answer({**body, "unresponsive_engines": self.unresponsive, "answers": []})
