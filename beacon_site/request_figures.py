"""How many requests were answered, and how fast: by the route's name, never by the address.

Each process of the web server counts for itself; with `PROMETHEUS_MULTIPROC_DIR` set, as
`beacon_site.web_server` does, the counts lie in files that a scrape adds up whichever process it
meets.  Where that variable is unset (tests, `runserver`) one process is all there is.
"""

from __future__ import annotations

import os

from django.http import HttpRequest
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.multiprocess import MultiProcessCollector

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Seconds; few, since each route has as many series.
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_own = CollectorRegistry()
REQUESTS = Counter(
    "beacon_http_requests",
    "Requests answered, by the route's name, method and class of status.",
    ["route", "method", "status"],
    registry=_own,
)
SECONDS = Histogram(
    "beacon_http_request_seconds",
    "Time until a request was answered, by the route's name.",
    ["route"],
    buckets=BUCKETS,
    registry=_own,
)


def count(request: HttpRequest, status: int, seconds: float) -> None:
    """Count one request."""
    route = route_of(request)
    REQUESTS.labels(route, method_of(request), f"{status // 100}xx").inc()
    SECONDS.labels(route).observe(seconds)


def route_of(request: HttpRequest) -> str:
    """Return the name of the request's route; whoever asks for made-up addresses makes no series."""
    match = getattr(request, "resolver_match", None)
    if match is None:
        return "static" if request.path.startswith("/static/") else "none"
    return match.view_name or "unnamed"


def method_of(request: HttpRequest) -> str:
    """Return the request's method; those that nobody uses are one."""
    return request.method if request.method in METHODS else "OTHER"


def registry() -> CollectorRegistry:
    """Return what all processes of this web server have counted."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return _own
    together = CollectorRegistry()
    MultiProcessCollector(together)  # type: ignore[no-untyped-call]
    return together
