"""The answers of eight search services in their own shapes, for the loopback of the benchmarks.

`answer(method, path, query, results)` gives content type and body; `results` are (title, address)
pairs.  arXiv finds nothing: its papers are on arxiv.org, which no benchmark may ask.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

Results = Sequence[tuple[str, str]]
NAMES = (
    "serpapi", "tavily", "brave", "searxng", "wikipedia", "arxiv", "hackernews", "gdelt",
)  # fmt: skip
_NO_PAPERS = (
    b'<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom" '
    b'xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/"><title>none</title>'
    b"<opensearch:totalResults>0</opensearch:totalResults>"
    b"<opensearch:startIndex>0</opensearch:startIndex></feed>"
)


def service_of(method: str, path: str) -> str:
    """Return the service whose path this is, "" for none."""
    if path == "/search":
        return "tavily" if method == "POST" else "searxng"
    return {
        "/search.json": "serpapi",
        "/res/v1/web/search": "brave",
        "/w/api.php": "wikipedia",
        "/api/query": "arxiv",
        "/api/v1/search": "hackernews",
        "/api/v1/search_by_date": "hackernews",
        "/api/v2/doc/doc": "gdelt",
    }.get(path, "")


def answer(service: str, results: Results) -> tuple[str, bytes]:
    """Return content type and body of one service's answer."""
    if service == "arxiv":
        return "application/atom+xml", _NO_PAPERS
    return "application/json", json.dumps(_SHAPES[service](results)).encode()


def _serpapi(results: Results) -> dict[str, Any]:
    rows = [
        {"position": n, "title": title, "link": url, "snippet": f"{title} reported."}
        for n, (title, url) in enumerate(results, start=1)
    ]
    return {"organic_results": rows}


def _contents(results: Results) -> dict[str, Any]:
    return {
        "results": [
            {"title": title, "url": url, "content": f"{title} reported.", "score": 0.9}
            for title, url in results
        ],
        "unresponsive_engines": [],
    }


def _brave(results: Results) -> dict[str, Any]:
    rows = [
        {"title": title, "url": url, "description": f"{title} reported."} for title, url in results
    ]
    return {"web": {"results": rows}, "query": {"more_results_available": False}}


def _wikipedia(results: Results) -> dict[str, Any]:
    rows = [
        {"ns": 0, "title": title, "pageid": n, "snippet": f"{title} reported."}
        for n, (title, _url) in enumerate(results, start=1)
    ]
    return {"batchcomplete": True, "query": {"search": rows}}


def _hackernews(results: Results) -> dict[str, Any]:
    rows = [
        {"objectID": str(n), "title": title, "url": url, "created_at": "2026-01-01T00:00:00Z"}
        for n, (title, url) in enumerate(results, start=1)
    ]
    return {"hits": rows, "nbPages": 1, "page": 0}


def _gdelt(results: Results) -> dict[str, Any]:
    rows = [
        {"url": url, "title": title, "seendate": "20260101T000000Z", "language": "English"}
        for title, url in results
    ]
    return {"articles": rows}


_SHAPES: dict[str, Callable[[Results], dict[str, Any]]] = {
    "serpapi": _serpapi,
    "tavily": _contents,
    "searxng": _contents,
    "brave": _brave,
    "wikipedia": _wikipedia,
    "hackernews": _hackernews,
    "gdelt": _gdelt,
}
