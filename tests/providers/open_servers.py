"""The search services without a key (and feeds) on loopback, each with its vendor's wording.

with ArxivServer(results=[ArxivServer.result(1)]) as server:
    get_search(server.profile()).search("x", SearchOptions())
with FeedServer() as server:
    server.play("ok")
    server.provider().search("x", server.options())
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from werkzeug import Response

from beacon_site.net.bounded import Limits
from beacon_site.net.fetch import GuardedFetcher
from beacon_site.providers.search.base import SearchOptions
from beacon_site.providers.search.feeds import FeedSearch
from tests.providers.loopback import Scene, json_answer
from tests.providers.scenarios import PATIENCE, RETRY_AFTER, Asked, SearchServer

GDELT_TOO_OFTEN = (
    "Please limit requests to one every 5 seconds or contact the project for larger queries."
)
GDELT_TOO_SHORT = "Your query was too short or too long."
ARXIV_BAD_QUERY = "incorrect query syntax"
WIKIMEDIA_LIMIT = "You are making too many requests. See https://w.wiki/4wJS for details."


def text(body: str, code: int = 200, headers: Mapping[str, str] | None = None) -> Scene:
    """A plain text, as data services write errors."""
    return lambda _request: Response(body, code, headers=dict(headers or {}), mimetype="text/plain")


def wikipedia_error(code: str, info: str, headers: Mapping[str, str] | None = None) -> Scene:
    """A MediaWiki error: it has status 200."""
    body = {"error": {"code": code, "info": info, "docref": "See /w/api.php for API usage."}}
    return lambda _request: json_answer({**body, "servedby": "mw-api"}, 200, headers)


class WikipediaServer(SearchServer):
    """A MediaWiki's Action API at /w/api.php, or wherever `path` says."""

    service = "wikipedia"
    path = "/w/api.php"

    @staticmethod
    def result(number: int, **more: Any) -> dict[str, Any]:
        return {
            "ns": 0,
            "title": f"Result {number}",
            "pageid": 1000 + number,
            "wordcount": 321,
            "snippet": f'What <span class="searchmatch">result</span> {number} says &amp; means',
            "timestamp": "2026-11-20T10:15:00Z",
            **more,
        }

    def answer(self, asked: Asked) -> Response:
        if asked.path != self.path:
            return Response("<html>Not Found</html>", 404, mimetype="text/html")
        start, size = int(asked.get("sroffset", 0)), int(asked.get("srlimit", 10))
        found = list(self.results)
        body: dict[str, Any] = {"batchcomplete": True, "query": {}}
        body["query"]["searchinfo"] = {"totalhits": len(found)}
        body["query"]["search"] = found[start : start + size]
        if len(found) > start + size:
            body["continue"] = {"sroffset": start + size, "continue": "-||"}
        return json_answer(body)

    def rate(self) -> Scene:
        return text(WIKIMEDIA_LIMIT, 429, {"Retry-After": RETRY_AFTER})


class HackerNewsServer(SearchServer):
    """Algolia's two indexes of Hacker News, by relevance and by date."""

    service = "hackernews"

    @staticmethod
    def result(number: int, **more: Any) -> dict[str, Any]:
        return {
            "objectID": str(40_000_000 + number),
            "title": f"Result {number}",
            "url": f"https://news.example.org/{number}",
            "author": "pg",
            "points": 100 + number,
            "num_comments": 12,
            "created_at": "2026-11-20T10:15:00Z",
            "created_at_i": 1_795_169_700,
            "_tags": ["story", "author_pg"],
            "_highlightResult": {"title": {"value": f"<em>Result</em> {number}"}},
            **more,
        }

    def answer(self, asked: Asked) -> Response:
        if asked.path not in ("/api/v1/search", "/api/v1/search_by_date"):
            return json_answer({"message": "Not Found", "status": 404}, 404)
        page, size = int(asked.get("page", 0)), int(asked.get("hitsPerPage", 20))
        found = list(self.results)
        body = {
            "hits": found[page * size : (page + 1) * size],
            "page": page,
            "nbHits": len(found),
            "nbPages": -(-len(found) // size),
            "hitsPerPage": size,
            "exhaustiveNbHits": True,
            "query": asked.get("query", ""),
        }
        return json_answer(body)

    def rate(self) -> Scene:
        body = {"message": "Too Many Requests", "status": 429}
        return lambda _request: json_answer(body, 429, {"Retry-After": RETRY_AFTER})


class ArxivServer(SearchServer):
    """arXiv's Atom API; `results` are an entry's contents, or a whole entry as text."""

    service = "arxiv"

    @staticmethod
    def result(number: int, **more: Any) -> dict[str, Any]:
        return {
            "id": f"http://arxiv.org/abs/2611.{number:05}v2",
            "title": f"Result\n  {number}",
            "summary": f"  What result\n{number} says.\n",
            "published": "2026-11-20T10:15:00Z",
            "updated": "2026-11-21T10:15:00Z",
            **more,
        }

    def answer(self, asked: Asked) -> Response:
        if asked.path != "/api/query":
            return Response("<html>Not Found</html>", 404, mimetype="text/html")
        start, size = int(asked.get("start", 0)), int(asked.get("max_results", 10))
        shown = list(self.results)[start : start + size]
        return atom(shown, total=len(self.results), start=start)

    def rate(self) -> Scene:
        return text("Rate exceeded.", 429, {"Retry-After": RETRY_AFTER})


def atom(entries: Sequence[Mapping[str, str]], *, total: int, start: int = 0) -> Response:
    """Return a page of arXiv's answers."""
    head = (
        "<?xml version='1.0' encoding='UTF-8'?>"
        '<feed xmlns="http://www.w3.org/2005/Atom" xmlns:arxiv="http://arxiv.org/schemas/atom"'
        ' xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/">'
        "<id>https://arxiv.org/api/x</id><title>arXiv Query: x</title>"
        "<updated>2026-11-22T00:00:00Z</updated>"
        f"<opensearch:totalResults>{total}</opensearch:totalResults>"
        f"<opensearch:startIndex>{start}</opensearch:startIndex>"
    )
    body = head + "".join(map(_entry, entries)) + "</feed>"
    return Response(body, content_type="application/atom+xml; charset=utf-8")


def _entry(fields: Mapping[str, str]) -> str:
    return (
        "<entry>"
        + "".join(f"<{name}>{escape(value)}</{name}>" for name, value in fields.items())
        + '<link href="https://arxiv.org/abs/x" rel="alternate" type="text/html"/>'
        + "<author><name>Ada Lovelace</name></author><author><name>Ørsted</name></author>"
        + "<arxiv:comment>12 pages,\n 3 figures</arxiv:comment>"
        + '<arxiv:primary_category term="cs.DB"/><category term="cs.DB"/></entry>'
    )


def arxiv_error(summary: str = ARXIV_BAD_QUERY, code: int = 200) -> Scene:
    """arXiv's answer to a bad query: one entry with the title Error."""
    entry = {
        "id": "https://arxiv.org/api/errors#incorrect_query",
        "title": "Error",
        "summary": summary,
    }

    def scene(_request: object) -> Response:
        response = atom([entry], total=1)
        response.status_code = code
        return response

    return scene


class GdeltServer(SearchServer):
    """GDELT's article list."""

    service = "gdelt"

    @staticmethod
    def result(number: int, **more: Any) -> dict[str, Any]:
        return {
            "url": f"https://news.example.org/{number}",
            "url_mobile": "",
            "title": f"Result {number} , they say",
            "seendate": "20261120T101500Z",
            "socialimage": "https://news.example.org/i.jpg",
            "domain": "news.example.org",
            "language": "English",
            "sourcecountry": "United States",
            **more,
        }

    def answer(self, asked: Asked) -> Response:
        if asked.path != "/api/v2/doc/doc":
            return Response("<html>Not Found</html>", 404, mimetype="text/html")
        found = list(self.results)[: int(asked.get("maxrecords", 75))]
        return json_answer({"articles": found} if found else {})

    def rate(self) -> Scene:
        return text(GDELT_TOO_OFTEN, 429)


class FeedServer(SearchServer):
    """A site with one RSS feed at /feed, fetched through the guard, so it has no profile."""

    service = "feeds"

    @staticmethod
    def result(number: int, **more: Any) -> dict[str, Any]:
        return {
            "title": f"Result {number}",
            "link": f"https://news.example.org/{number}",
            "description": f"What result {number} says.",
            "pubDate": "Fri, 20 Nov 2026 10:15:00 GMT",
            **more,
        }

    def answer(self, asked: Asked) -> Response:
        if asked.path != "/feed":
            return Response("<html>Not Found</html>", 404, mimetype="text/html")
        items = "".join(
            "<item>" + "".join(f"<{n}>{escape(v)}</{n}>" for n, v in result.items()) + "</item>"
            for result in self.results
        )
        head = '<rss version="2.0"><channel><title>News</title>'
        body = f"{head}{items}</channel></rss>"
        return Response(body, content_type="application/rss+xml; charset=utf-8")

    @property
    def feed_url(self) -> str:
        """Return what a topic names."""
        return f"{self.origin}/feed"

    def options(self, **more: Any) -> SearchOptions:
        """Return options that name the feed."""
        return SearchOptions(feeds=(self.feed_url,), **more)

    def provider(self) -> FeedSearch:
        """Return the provider with a guard that allows this server, and the tests' timeout."""
        fetcher = GuardedFetcher(
            allow_hosts=frozenset({self.origin.removeprefix("http://")}),
            limits=Limits(whole_seconds=PATIENCE),
        )
        return FeedSearch(fetcher.get_bytes)


OPEN_SERVERS: tuple[type[SearchServer], ...] = (
    WikipediaServer,
    ArxivServer,
    HackerNewsServer,
    GdeltServer,
)
