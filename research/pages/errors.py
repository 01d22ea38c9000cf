"""The pages for what went wrong, in the product's voice, whole or as a fragment for htmx."""

from __future__ import annotations

import json
import sys
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import (
    DisallowedHost,
    RequestDataTooBig,
    TooManyFieldsSent,
    TooManyFilesSent,
)
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.template.defaultfilters import filesizeformat
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.utils.translation import gettext as _

from beacon_site.db.errors import Failure, failure_of
from beacon_site.http import Respond

HOME = "/"


def problem(
    request: HttpRequest, status: int, *, why: str = "", back: str = HOME, heading: str = ""
) -> HttpResponse:
    """Answer with the page of `status`, which `why` explains further and that may lead `back`.

    Over htmx the same template is a fragment, shown in the page's `#notice`.
    """
    response = render(
        request, f"{status}.html", {"why": why, "back": back, "heading": heading}, status=status
    )
    if getattr(request, "htmx", False):
        response["HX-Retarget"] = "#notice"
        response["HX-Reswap"] = "innerHTML"
    return response


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer what could not be understood; what was too much, or came for another host, is told so."""
    if isinstance(exception, DisallowedHost):
        return render(request, "400.html", {"is_other_host": True}, status=400)
    if isinstance(exception, RequestDataTooBig):
        most = filesizeformat(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        why = _(
            "What you sent is larger than the %(most)s that Beacon takes at once, so nothing of it "
            "was stored. Go back: what you typed is still there. Make it smaller, or send it in "
            "parts."
        )
        return problem(request, 413, why=why % {"most": most})
    if isinstance(exception, TooManyFieldsSent | TooManyFilesSent):
        why = _(
            "The form held more fields or files than Beacon takes at once, so nothing of it was "
            "stored. Go back, and send fewer at a time."
        )
        return problem(request, 413, why=why)
    return problem(request, 400)


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer who may not do this."""
    return problem(request, 403)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer that there is no such page, or none of this person's."""
    return problem(request, 404)


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer that Beacon failed, or its database or disk did; nothing that could fail again is asked.

    Called while the exception is handled.
    """
    # A form is not sent again by a link: who sent one goes back.
    again = request.get_full_path() if request.method == "GET" else ""
    if failure := failure_of(sys.exc_info()[1]):
        return _failed(request, failure, again)
    number = getattr(request, "request_id", "")
    return render(None, "500.html", {"request_id": number, "again": again}, status=500)


def _failed(request: HttpRequest, failure: Failure, again: str) -> HttpResponse:
    """Answer that the database or the disk could not do it; over htmx a toast says so."""
    shown = {"failure": failure, "again": again}
    answer = render(None, "503.html", shown, status=failure.status)
    answer["Retry-After"] = str(failure.retry_after)
    answer.failure = failure  # type: ignore[attr-defined]  # for programs, who get it as JSON
    if getattr(request, "htmx", False):
        words = f"{failure.words} {_('What you typed is still here.')}"
        answer["HX-Trigger"] = json.dumps({"toast": {"text": words, "level": "error"}})
        answer["HX-Reswap"] = "none"
    return answer


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form whose token does not fit, most often as somebody signed in anew meanwhile."""
    why = _(
        "You were signed out, or signed in anew, after this page was opened, so nothing was "
        "changed. What you typed is not lost: go back, sign in in another tab if need be, and "
        "send it again."
    )
    return problem(request, 403, why=why, heading=_("This page is older than your sign-in"))


class InWordsMiddleware:
    """Answer in words where Django's own answer loses what was typed or says nothing.

    A POST by who is signed out: over htmx a notice (401), so that the form stays; else the sign-in,
    which leads back to the page with the form, as the form's address may take no GET.  And a page
    for an address that takes another method (405).
    """

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code == 405 and not response.content:
            answer = problem(request, 405, back=_came_from(request))
            answer["Allow"] = response["Allow"]
            return answer
        sign_in = resolve_url(settings.LOGIN_URL)
        asked_to_sign_in = response.headers.get("Location", "").startswith(f"{sign_in}?next=")
        if request.method in ("GET", "HEAD") or not asked_to_sign_in:
            return response
        if getattr(request, "htmx", False):
            return problem(request, 401)
        return redirect(f"{sign_in}?{urlencode({'next': _came_from(request)})}")


def _came_from(request: HttpRequest) -> str:
    """Return the path of our own page from which the request came, or Home."""
    referer = request.headers.get("Referer", "")
    if not url_has_allowed_host_and_scheme(referer, allowed_hosts={request.get_host()}):
        return HOME
    parts = urlsplit(referer)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    ours = path.startswith("/") and not path.startswith("//") and parts.path != request.path
    return path if ours else HOME
