"""What every request has: the person, their time zone, and htmx."""

from __future__ import annotations

import ipaddress
import re
import zoneinfo
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django_htmx.middleware import HtmxDetails

if TYPE_CHECKING:
    from memory.core.actors import Actor
    from memory.models import User


class BeaconRequest(HttpRequest):
    """A request by a signed-in person; for htmx's details see django-htmx."""

    user: User
    htmx: HtmxDetails

    @property
    def actor(self) -> Actor:
        """Return the person as the one who acts."""
        return self.user.actor


def page_of_ours(asked: str, default: str) -> str:
    """Return `asked` if it is the path of a page here, else `default`.

    Whoever sends it may be led: an address elsewhere, or a word that Django takes for the name of
    a route (and fails on, where there is none), is no path.
    """
    ours = asked.startswith("/") and url_has_allowed_host_and_scheme(asked, allowed_hosts=None)
    return asked if ours else default


def current_page(request: BeaconRequest) -> str:
    """Return the path of the page from which htmx asks, or "" (its header is the client's word)."""
    try:
        return request.htmx.current_url_abs_path or ""
    except ValueError:  # no address at all, such as `http://[`
        return ""


Respond = Callable[[HttpRequest], HttpResponse]


class ForwardedMiddleware:
    """Take the visitor's address from X-Forwarded-For, where the operator trusts a proxy."""

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "")
        # The nearest proxy appends the address it saw; what stands before is the client's word.
        address = bare_address(forwarded.rsplit(",", 1)[-1].strip())
        if settings.BEACON_TRUST_PROXY and address:
            request.META["REMOTE_ADDR"] = address
        return self.get_response(request)


def bare_address(told: str) -> str:
    """Return the IP address that a proxy told, without the port that some append; "" if it is none."""
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::\d+)?", told)
    with_port = re.fullmatch(r"([\d.]+):\d+", told)
    found = bracketed or with_port
    try:
        return str(ipaddress.ip_address(found[1] if found else told))
    except ValueError:
        return ""


class PersonMiddleware:
    """Show times in the signed-in person's time zone, name them as the actor, and keep no page.

    A signed-in page that a browser or proxy kept could be seen after signing out, by Back.
    """

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_signed_in = request.user.is_authenticated
        if request.user.is_authenticated:
            request.actor = request.user.actor  # type: ignore[attr-defined]
            structlog.contextvars.bind_contextvars(user_id=request.user.pk)
            timezone.activate(zone_of(request.user.time_zone))
        try:
            response = self.get_response(request)
        finally:
            timezone.deactivate()
        if is_signed_in and _is_page(response):
            response.headers.setdefault("Cache-Control", "private, no-store")
        return response


class PackedPagesMiddleware(GZipMiddleware):
    """Send pages packed: a list of fifty rows is a tenth as long then.

    Pages alone: programs go by exact entity tags, which packing would weaken, and exports are
    streams. Django adds a header of random length, so that the packed size tells no secret.
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """Pack the answer if it is a page and the browser takes it so."""
        if not _is_page(response) or response.streaming:
            return response
        return super().process_response(request, response)


def _is_page(response: HttpResponseBase) -> bool:
    return response.headers.get("Content-Type", "").startswith("text/html")


def zone_of(name: str) -> zoneinfo.ZoneInfo:
    """Return the named time zone, or UTC if the system no longer knows it."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return zoneinfo.ZoneInfo("UTC")
