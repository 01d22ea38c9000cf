"""How many requests were answered, and how fast: by the route's name, never by the address.

Each process of the web server counts for itself; with `PROMETHEUS_MULTIPROC_DIR` set, as
`beacon_site.web_server` does, the counts lie in files that a scrape adds up whichever process it
meets.  Where that variable is unset (tests, `runserver`) one process is all there is.
"""

from __future__ import annotations

import logging
import os
import re
import time
import uuid

import structlog
from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.multiprocess import MultiProcessCollector

from beacon_site.http import Respond
from beacon_site.logs import address_of

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


# --- Each request's number, its one line in the log, and its place in the figures ---

HEADER = "X-Request-ID"
_WELL_FORMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")

logger = structlog.get_logger(__name__)


def number_from(given: str) -> str:
    """Return the number that was given with a request, or a new one if it is none."""
    return given if _WELL_FORMED.fullmatch(given) else uuid.uuid4().hex


class RequestLogMiddleware:
    """Number, time, tell and count each request; it stands before all others."""

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        number = number_from(request.headers.get(HEADER, ""))
        request.request_id = number  # type: ignore[attr-defined]
        began = time.perf_counter()
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=number)
        try:
            response = self.get_response(request)
            seconds = time.perf_counter() - began
            count(request, response.status_code, seconds)
            _tell(request, response, seconds)
        finally:
            structlog.contextvars.clear_contextvars()
        response[HEADER] = number
        return response


def _tell(request: HttpRequest, response: HttpResponse, seconds: float) -> None:
    """Write the request's line; files of `static/` have none."""
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
