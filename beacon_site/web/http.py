"""The request of a signed-in person, and the middleware around every page."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils import timezone, translation
from django.utils.cache import patch_vary_headers
from django_htmx.middleware import HtmxDetails

from beacon_site.text.dates import zone_of

if TYPE_CHECKING:
    from memory.models import User
    from memory.models.actors import Actor


class BeaconRequest(HttpRequest):
    """A request by a signed-in person; for htmx's details see django-htmx."""

    user: User
    htmx: HtmxDetails
    date: Any  # a DateChoice, on pages that can be shown as of a date

    @property
    def actor(self) -> Actor:
        return self.user.actor


def current_page(request: BeaconRequest) -> str:
    """Return the path of the page that sent the htmx request, or "".  The client sets the header."""
    try:
        return request.htmx.current_url_abs_path or ""
    except ValueError:  # not a URL, such as `http://[`
        return ""


Respond = Callable[[HttpRequest], HttpResponse]


class Middleware:
    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response


class ForwardedMiddleware(Middleware):
    """Take the visitor's IP address from X-Forwarded-For, if the admin trusts a proxy."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.META["beacon.peer"] = request.META.get("REMOTE_ADDR", "")  # of the connection
        forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "")
        # The nearest proxy appends the address it saw; the client can invent the others.
        address = bare_address(forwarded.rsplit(",", 1)[-1].strip())
        if settings.BEACON_TRUST_PROXY and address:
            request.META["REMOTE_ADDR"] = address
        return self.get_response(request)


def bare_address(text: str) -> str:
    """Return a proxy's IP address for a client, without the port that some add; "" if invalid."""
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::\d+)?", text)
    with_port = re.fullmatch(r"([\d.]+):\d+", text)
    found = bracketed or with_port
    try:
        return str(ipaddress.ip_address(found[1] if found else text))
    except ValueError:
        return ""


PROGRAMS = ("/api/", "/v1/")  # what only programs read


class LanguageMiddleware(Middleware):
    """Answer pages in the browser's language, which PersonMiddleware replaces by the person's.

    Programs always get English: agents and their prompts are tested with it.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_page = not request.path.startswith(PROGRAMS)
        language = translation.get_language_from_request(request) if is_page else "en"
        with translation.override(language):
            response = self.get_response(request)
            response.headers.setdefault("Content-Language", translation.get_language())
        patch_vary_headers(response, ("Accept-Language",))
        return response


class PersonMiddleware(Middleware):
    """Activate the signed-in person's time zone and language, and set them as the actor.

    Also forbids caching.

    A cached page could still be seen after signing out, with the browser's Back button.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_signed_in = request.user.is_authenticated
        if request.user.is_authenticated:
            request.actor = request.user.actor  # type: ignore[attr-defined]
            structlog.contextvars.bind_contextvars(user_id=request.user.pk)
            timezone.activate(zone_of(request.user.time_zone))
            if request.user.page_language:
                translation.activate(request.user.page_language)
        try:
            response = self.get_response(request)
        finally:
            timezone.deactivate()
        if is_signed_in and _is_page(response):
            response.headers.setdefault("Cache-Control", "private, no-store")
        return response


class PackedPagesMiddleware(GZipMiddleware):
    """Compress pages: a list of fifty rows shrinks to a tenth.

    Only pages are compressed.  API clients need exact entity tags, which compression would weaken,
    and exports are streams.  Django adds a header of random length, so that the compressed size
    reveals no secret.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """Compress the response if it is a page and the browser accepts that."""
        if not _is_page(response) or response.streaming:
            return response
        return super().process_response(request, response)


def _is_page(response: HttpResponseBase) -> bool:
    return response.headers.get("Content-Type", "").startswith("text/html")
