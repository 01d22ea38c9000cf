"""Error pages, whole or as a fragment for htmx."""

from __future__ import annotations

import json
import sys
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import (
    BadRequest,
    DisallowedHost,
    RequestDataTooBig,
    SuspiciousOperation,
    TooManyFieldsSent,
    TooManyFilesSent,
)
from django.http import HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.shortcuts import redirect, render, resolve_url
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.utils.translation import gettext as _

from beacon_site.db.errors import Failure, failure_of
from beacon_site.web.http import BeaconRequest, Middleware
from beacon_site.web.responses import in_notice, refused
from memory.models import Topic
from memory.models.errors import MemoryRefused
from memory.pages.accounts.views import keep_form, sent_form
from research.services.runs.execution.starting import RunNotAllowed

HOME = "/"


def problem(
    request: HttpRequest, status: int, *, why: str = "", back: str = HOME, heading: str = ""
) -> HttpResponse:
    """Respond with the error page of `status`.

    `why` explains the error, and `back` is the URL to go back to. Over htmx, the same template is a
    fragment shown in the page's `#notice`.
    """
    response = render(
        request, f"{status}.html", {"why": why, "back": back, "heading": heading}, status=status
    )
    if getattr(request, "htmx", False):
        response["HX-Retarget"] = "#notice"
        response["HX-Reswap"] = "innerHTML"
    return response


def _not_now(request: BeaconRequest, exc: RunNotAllowed) -> HttpResponse:
    """Explain why no run starts: 429 with Retry-After if waiting helps, otherwise 409."""
    status = 429 if exc.retry_after else 409
    values = {"why": str(exc), "heading": _("The run wasn’t started")}
    response = render(request, f"{status}.html", values, status=status)
    if exc.retry_after:
        response["Retry-After"] = str(exc.retry_after)
    return in_notice(request, response)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Respond to a request that is invalid, too large, or for another host."""
    if isinstance(exception, DisallowedHost):
        return render(request, "400.html", {"is_other_host": True}, status=400)
    if isinstance(exception, RequestDataTooBig):
        most = filesizeformat(settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        why = _(
            "Your upload is larger than the limit of %(most)s, so nothing was saved. Your text is still there if you go back. Shorten it, or send it in parts."
        )
        return problem(request, 413, why=why % {"most": most})
    if isinstance(exception, TooManyFieldsSent | TooManyFilesSent):
        why = _(
            "The form had too many fields or files, so nothing was saved. Go back and send fewer at a time."
        )
        return problem(request, 413, why=why)
    return problem(request, 400)


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return problem(request, 403)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return _to_renamed_topic(request) or _typed_text(request) or problem(request, 404)


def _typed_text(request: HttpRequest) -> HttpResponse | None:
    """Respond with the text of a form for an item that is gone, such as moved to Trash in another tab.

    None if there is no text, or if htmx keeps the form on its page.
    """
    user = getattr(request, "user", None)
    is_known = request.resolver_match and user and user.is_authenticated
    if request.method != "POST" or not is_known or getattr(request, "htmx", False):
        return None
    try:
        sent = sent_form(request, HOME)
    except (MultiPartParserError, SuspiciousOperation, BadRequest, OSError):  # it isn't a form
        return None
    if sent is None:
        return None
    return render(request, "memory/kept_form.html", {**sent, "is_gone": True}, status=404)


def _to_renamed_topic(request: HttpRequest) -> HttpResponse | None:
    """Redirect from a URL with a topic's earlier name, such as one in an email, or return None.

    A form that was open while the topic was renamed is sent to the new URL.
    """
    match, user = request.resolver_match, getattr(request, "user", None)
    slug = match.kwargs.get("slug") if match else None
    if not (match and slug and user and user.is_authenticated):
        return None
    topic = Topic.objects.renamed_from(user, slug)
    if topic is None:
        return None
    path = reverse(match.view_name, kwargs={**match.kwargs, "slug": topic.slug})
    query = request.META.get("QUERY_STRING", "")
    is_form = request.method not in ("GET", "HEAD")
    return redirect(f"{path}?{query}" if query else path, preserve_request=is_form)


def server_error(request: HttpRequest) -> HttpResponse:
    """Respond that Beacon, its database or its disk failed, using nothing that could fail again.

    Called while the exception is being handled.
    """
    # A link can't submit the form again, so the person has to go back.
    again = request.get_full_path() if request.method == "GET" else ""
    if failure := failure_of(sys.exc_info()[1]):
        return _failed(request, failure, again)
    number = getattr(request, "request_id", "")
    return render(None, "500.html", {"request_id": number, "again": again}, status=500)


def _failed(request: HttpRequest, failure: Failure, again: str) -> HttpResponse:
    """Respond that the database or the disk failed, over htmx with a toast."""
    shown = {"failure": failure, "again": again}
    answer = render(None, "503.html", shown, status=failure.status)
    answer["Retry-After"] = str(failure.retry_after)
    answer.failure = failure  # type: ignore[attr-defined]  # for programs, who get it as JSON
    if getattr(request, "htmx", False):
        words = f"{failure.words} " + _("Your text is still here.")
        answer["HX-Trigger"] = json.dumps({"toast": {"text": words, "level": "error"}})
        answer["HX-Reswap"] = "none"
    return answer


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Respond to a form with a wrong token, usually after someone signed in again."""
    why = _(
        "You signed out, or signed in again, after opening this page, so nothing was changed. Your text isn’t lost. Go back, use another tab to sign in if you need to, and submit again."
    )
    return problem(request, 403, why=why, heading=_("Your session changed"))


class InWordsMiddleware(Middleware):
    """Replaces Django responses that would lose typed text or explain nothing.

    A POST by someone who is signed out gets a notice over htmx (401), so the form stays. Otherwise
    it redirects to the sign-in page and then back to the form's page, because the form's own URL
    might not allow GET, or to a page from which the form can be sent again. A wrong method (405) gets an error page.

    A refused change (MemoryRefused) or run (RunNotAllowed) is answered with its reason.
    """

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
        goal = keep_form(request, _came_from(request))
        return redirect(f"{sign_in}?{urlencode({'next': goal})}")

    def process_exception(self, request: BeaconRequest, exc: Exception) -> HttpResponse | None:
        if isinstance(exc, MemoryRefused):
            return refused(request, str(exc), way=getattr(exc, "way", ""))
        return _not_now(request, exc) if isinstance(exc, RunNotAllowed) else None


def _came_from(request: HttpRequest) -> str:
    """Return the path of the Beacon page that the request came from, or Home."""
    referer = request.headers.get("Referer", "")
    if not url_has_allowed_host_and_scheme(referer, allowed_hosts={request.get_host()}):
        return HOME
    parts = urlsplit(referer)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    ours = path.startswith("/") and not path.startswith("//") and parts.path != request.path
    return path if ours else HOME
