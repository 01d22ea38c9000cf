"""Outside services, for staff: where they are, their keys, and test buttons with the real answer."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from beacon_site.http import BeaconRequest
from memory import connections, trying
from memory.forms.connections import ConnectionForm, FeedTestForm, ModelForm, SerpApiForm
from memory.guards import staff_only

FORMS: dict[str, type[ConnectionForm]] = {form.NAME: form for form in (ModelForm, SerpApiForm)}


@require_safe
@staff_only
def connection_list(request: BeaconRequest) -> HttpResponse:
    """Show every outside service with its state."""
    return _page(request, {})


def _page(request: BeaconRequest, more: dict[str, Any]) -> HttpResponse:
    context = {f"{name}_form": form() for name, form in FORMS.items()} | {
        "feed_form": FeedTestForm(),
        "llm": connections.llm_profile(),
        "serpapi": connections.search_profile("serpapi"),
        "usual_services": connections.search_services(),
        "search_is_fixed": bool(settings.BEACON_SEARCH),
        "library_folder": settings.BEACON_LIBRARY_DIR,
        "tab": "connections",
    }
    return render(request, "memory/connections.html", context | more)


@sensitive_post_parameters()
@require_POST
@staff_only
def save_connection(request: BeaconRequest, name: str) -> HttpResponse:
    """Store one service's settings."""
    if name not in FORMS:
        raise Http404
    form = FORMS[name](request.POST)
    if form.is_valid():
        form.save(by=request.user)
        messages.success(request, _("Saved. A test shows whether it works."))
        if not request.htmx:
            return redirect("memory:connections")
        form = FORMS[name]()
    if request.htmx:
        context = {f"{name}_form": form, **_state()}
        return render(request, f"memory/_connection_{name}.html", context)
    return _page(request, {f"{name}_form": form})


def _state() -> dict[str, Any]:
    return {"llm": connections.llm_profile(), "serpapi": connections.search_profile("serpapi")}


@require_POST
@staff_only
def test_connection(request: BeaconRequest, name: str) -> HttpResponse:
    """Try one service as it is set up now, and show what it really answered."""
    if name not in trying.TESTS:
        raise Http404
    return _tested(request, {"tested": name, "result": trying.TESTS[name]()})


@require_POST
@staff_only
def test_feed(request: BeaconRequest) -> HttpResponse:
    """Read the feed whose address was given."""
    form = FeedTestForm(request.POST)
    result = trying.try_feed(form.cleaned_data["url"]) if form.is_valid() else None
    return _tested(request, {"tested": "feeds", "result": result, "feed_form": form})


def _tested(request: BeaconRequest, more: dict[str, Any]) -> HttpResponse:
    if request.htmx:
        return render(request, "memory/_connection_test.html", more)
    return _page(request, more)
