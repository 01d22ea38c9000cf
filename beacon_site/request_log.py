"""Each request's number, its one line in the log, and its place in the figures.

`X-Request-ID` is taken from who asks if it is well formed, made otherwise, and given back; every line
that is written meanwhile bears it, and so does what the tasks write that the request begins.
"""

from __future__ import annotations

import logging
import re
import time
import uuid

import structlog
from django.http import HttpRequest, HttpResponse

from beacon_site import request_figures
from beacon_site.http import Respond
from beacon_site.logs import address_of

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
            request_figures.count(request, response.status_code, seconds)
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
        request=f"{request_figures.method_of(request)} {address}",
        code=code,
        ms=round(seconds * 1000),
        ip=request.META.get("REMOTE_ADDR", ""),
    )
