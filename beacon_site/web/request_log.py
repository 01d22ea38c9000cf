"""The id, log line and metrics of each request, by the route's name and never by the URL.

Each process of the web server counts separately.  `beacon_site.launcher.web_server` sets
`PROMETHEUS_MULTIPROC_DIR`, so the counts are in files that any process can add up for a scrape.
If it is unset (tests, `runserver`), there is only one process.
"""

from __future__ import annotations

import logging
import os
import time

import structlog
from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry, Counter, Histogram, values
from prometheus_client.multiprocess import MultiProcessCollector

from beacon_site.text.cleaning import request_id_of
from beacon_site.text.redaction import address_of
from beacon_site.web.http import Middleware

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Seconds.  Only a few, since each adds a series per route.
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

# Names this process's files, so that the next one of this name continues to count in them.
process = ""
if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
    values.ValueClass = values.MultiProcessValue(  # type: ignore[no-untyped-call]
        lambda: process or os.getpid()
    )

_own = CollectorRegistry()
REQUESTS = Counter(
    "beacon_http_requests",
    "Requests handled, by route name, method and status class.",
    ["route", "method", "status"],
    registry=_own,
)
SECONDS = Histogram(
    "beacon_http_request_seconds",
    "Time taken to respond to a request, by route name.",
    ["route"],
    buckets=BUCKETS,
    registry=_own,
)


def count(request: HttpRequest, status: int, seconds: float) -> None:
    route = route_of(request)
    REQUESTS.labels(route, method_of(request), f"{status // 100}xx").inc()
    SECONDS.labels(route).observe(seconds)


def route_of(request: HttpRequest) -> str:
    """Return the name of the request's route, so that made-up URLs don't create new series."""
    match = getattr(request, "resolver_match", None)
    if match is None:
        return "static" if request.path.startswith("/static/") else "none"
    return match.view_name or "unnamed"


def method_of(request: HttpRequest) -> str:
    """Return the request's method; unusual ones share one name."""
    return request.method if request.method in METHODS else "OTHER"


def registry() -> CollectorRegistry:
    """Return the counts of all processes of this web server."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return _own
    together = CollectorRegistry()
    MultiProcessCollector(together)  # type: ignore[no-untyped-call]
    return together


# --- ids and log lines ---

HEADER = "X-Request-ID"

logger = structlog.get_logger(__name__)


class RequestLogMiddleware(Middleware):
    """Give each request an id, time it, log it and count it.  It runs before all other middleware."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        number = request_id_of(request.headers.get(HEADER, ""))
        request.request_id = number  # type: ignore[attr-defined]
        began = time.perf_counter()
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=number)
        try:
            response = self.get_response(request)
            seconds = time.perf_counter() - began
            count(request, response.status_code, seconds)
            _log(request, response, seconds)
        finally:
            structlog.contextvars.clear_contextvars()
        response[HEADER] = number
        return response


def _log(request: HttpRequest, response: HttpResponse, seconds: float) -> None:
    """Log the request, unless it's for a file of `static/`."""
    address = address_of(request)
    if address.startswith("/static/") and response.status_code < 400:
        return
    code = response.status_code
    level = logging.ERROR if code >= 500 else logging.WARNING if code >= 400 else logging.INFO
    logger.log(
        level,
        "request_finished",
        request=f"{method_of(request)} {address}",
        code=code,
        ms=round(seconds * 1000),
        ip=request.META.get("REMOTE_ADDR", ""),
    )
