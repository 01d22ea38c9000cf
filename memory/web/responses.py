"""Responses shared by pages: redirects and 409 Conflict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django_htmx.http import HttpResponseClientRedirect

from beacon_site.http import BeaconRequest, current_page, page_of_ours


def redirect_to(request: BeaconRequest, url: str) -> HttpResponse:
    """Redirect to `url`, over htmx by its header. The Inbox swaps the page it's sent to."""
    by_header = request.htmx and not is_in_inbox(request)
    return HttpResponseClientRedirect(url) if by_header else redirect(url)


def is_in_inbox(request: BeaconRequest) -> bool:
    """Whether a form of the Inbox was sent over htmx."""
    return bool(request.htmx) and request.htmx.target == "inbox"


def in_inbox(
    request: BeaconRequest, template: str, context: dict[str, Any], *, key: object
) -> HttpResponse:
    """Show an item where the Inbox shows the selected one, and keep its list.

    On a narrow screen the item has the page for itself, like one that was opened.
    """
    shown = context | {"is_in_inbox": True, "template": template, "key": key}
    response = render(request, "memory/_in_inbox.html", shown)
    response["HX-Retarget"] = "#inbox-detail"
    response["HX-Reswap"] = "innerHTML"
    return response


def next_of(request: BeaconRequest, default: str = "") -> str:
    """Return the `next` of the form or the URL if it is a page of this site, else `default`."""
    asked = str(request.POST.get("next") or request.GET.get("next") or "")
    return page_of_ours(asked, default)


def redirect_back(request: BeaconRequest, default: str) -> HttpResponse:
    """Redirect to `next`, else to `default`."""
    return redirect_to(request, next_of(request, default))


def list_of(request: BeaconRequest) -> str:
    """Return the list that a panel is beside, with its filters."""
    return page_of_ours(current_page(request), reverse("memory:recall"))


def moved(name: str, **fixed: str) -> Callable[..., HttpResponse]:
    """Return a view of an old address that redirects permanently to the page of this name.

    The query string is kept, with `fixed` added. A form that was open before is sent again as it is.
    """

    @login_required
    def redirected(request: BeaconRequest, **named: Any) -> HttpResponse:
        query = request.GET.copy()
        query.update(fixed)
        url = reverse(name, kwargs=named) + (f"?{query.urlencode()}" if query else "")
        keeps_method = request.method not in ("GET", "HEAD")
        return redirect(url, permanent=True, preserve_request=keeps_method)

    return redirected


def refused(request: BeaconRequest, why: str, *, way: str = "") -> HttpResponse:
    """Answer 409 Conflict with the reason; `way` is a link to continue."""
    return in_notice(request, render(request, "409.html", {"why": why, "way": way}, status=409))


def in_notice(request: BeaconRequest, response: HttpResponse) -> HttpResponse:
    """Show the response in the page's notice area where htmx asked for it."""
    if request.htmx:
        response["HX-Retarget"] = "#notice"
        response["HX-Reswap"] = "innerHTML"
    return response


def report_cleaned(request: BeaconRequest, labels: list[Any]) -> None:
    """Report the fields from which characters were removed that can't be stored or shown."""
    if labels:
        words = _("Characters that can’t be stored or shown were removed from: %(fields)s.")
        messages.warning(request, words % {"fields": ", ".join(map(str, labels))})
