"""Beacon's metrics, as Prometheus reads them: for this machine, or with a token of staff."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from beacon_site import request_figures
from memory.accounts import tokens
from memory.api import throttling
from memory.api.auth import authenticated
from memory.api.problems import Problem
from research.figures import Figures

# By these a proxy tells for whom it asks, who may be anybody.
PROXIES = (
    "Forwarded",
    "Via",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Real-IP",
)


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Tell all figures; 401 or 403, as a problem, to whom they are not for."""
    try:
        _check(request)
    except Problem as exc:
        return exc.answer()
    site = CollectorRegistry()
    site.register(Figures())
    body = generate_latest(request_figures.registry()) + generate_latest(site)
    return HttpResponse(body, content_type=CONTENT_TYPE_LATEST)


def _check(request: HttpRequest) -> None:
    """Raise Problem unless the request comes from this machine or bears a token that may."""
    if _is_of_this_machine(request):
        return
    caller = authenticated(request)
    throttling.check(caller)
    if caller.may(tokens.METRICS) and caller.owner.is_staff:
        return
    words = _("Metrics take a token of scope metrics, made by somebody who is staff.")
    raise Problem(403, words)


def _is_of_this_machine(request: HttpRequest) -> bool:
    """Whether a program beside Beacon asks, of a Beacon that serves this machine alone.

    Where it is served to others a proxy may stand before it, whose requests come from here too: then
    nobody is let in by their address.
    """
    host = urlsplit(settings.BEACON_URL).hostname or ""
    if settings.BEACON_TRUST_PROXY or not (host == "localhost" or _is_loopback(host)):
        return False
    if any(name in request.headers for name in PROXIES):
        return False
    return _is_loopback(request.META.get("REMOTE_ADDR", ""))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
