"""The pages for what went wrong, in the product's voice, whole or as a fragment for htmx."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _


def problem(request: HttpRequest, status: int, *, why: str = "") -> HttpResponse:
    """Answer with the page of `status`, which `why` explains further.

    Over htmx the same template is a fragment, shown in the page's `#notice`.
    """
    response = render(request, f"{status}.html", {"why": why}, status=status)
    if getattr(request, "htmx", False):
        response["HX-Retarget"] = "#notice"
        response["HX-Reswap"] = "innerHTML"
    return response


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer what could not be understood."""
    return problem(request, 400)


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer who may not do this."""
    return problem(request, 403)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer that there is no such page, or none of this person's."""
    return problem(request, 404)


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer that Beacon itself failed; nothing that could fail again is asked for."""
    return render(None, "500.html", status=500)


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form whose token does not fit, most often one that lay open for very long."""
    why = _(
        "The form was open too long or came from another page, so nothing was changed. "
        "Go back, reload the page and send it again."
    )
    return problem(request, 403, why=why)
