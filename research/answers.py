"""Answers that several pages give: where to go on, that it cannot be now, what was marked read."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django_htmx.http import HttpResponseClientRedirect

from beacon_site.http import BeaconRequest, page_of_ours
from research.running.allowance import NotNow


def go_to(request: BeaconRequest, url: str) -> HttpResponse:
    """Send the person to `url`: by redirect, or over htmx by its header."""
    return HttpResponseClientRedirect(url) if request.htmx else redirect(url)


def go_back(request: BeaconRequest, default: str) -> HttpResponse:
    """Send the person to where the form says it was (`next`, here only), else to `default`."""
    return go_to(request, page_of_ours(request.POST.get("next", ""), default))


def not_now(request: BeaconRequest, exc: NotNow) -> HttpResponse:
    """Say in words why no run starts: 429 with Retry-After where waiting helps, else 409."""
    status = 429 if exc.retry_after else 409
    response = render(request, f"{status}.html", {"why": str(exc)}, status=status)
    if exc.retry_after:
        response["Retry-After"] = str(exc.retry_after)
    return _for_notice(request, response)


def refused(request: BeaconRequest, why: str) -> HttpResponse:
    """Say that what was asked does not fit what is there (409)."""
    return _for_notice(request, render(request, "409.html", {"why": why}, status=409))


def _for_notice(request: BeaconRequest, response: HttpResponse) -> HttpResponse:
    if request.htmx:
        response["HX-Retarget"] = "#notice"
        response["HX-Reswap"] = "innerHTML"
    return response


def said_read(request: BeaconRequest, count: int, key: int) -> None:
    """Tell that reports were marked as read, with the way back."""
    words = ngettext("%(n)d report marked as read.", "%(n)d reports marked as read.", count)
    undo = "undo:" + reverse("research:reports-undo", args=[key]) if count else ""
    messages.success(request, words % {"n": count}, extra_tags=undo)


def said_unread(request: BeaconRequest, count: int, key: int, words: str = "") -> None:
    """Tell that reports are unread again, with the way back."""
    if not count:
        messages.info(request, _("What you chose is unread already."))
        return
    told = ngettext("%(n)d report is unread again.", "%(n)d reports are unread again.", count)
    undo = "undo:" + reverse("research:reports-undo-unread", args=[key])
    messages.success(request, words or told % {"n": count}, extra_tags=undo)
