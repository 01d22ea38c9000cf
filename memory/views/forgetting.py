"""Forgetting everything from one source: what would go, the act, and taking it back."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory import origins
from memory.errors import InvalidValue, MemoryRefused
from memory.responses import go_back, go_to, next_of
from memory.trash import forgetting


@require_http_methods(["GET", "POST"])
@login_required
@vary_on_headers("HX-Request")
def forget(request: BeaconRequest) -> HttpResponse:
    """Show what is remembered from a source; a POST moves it to the trash, with the way back."""
    asked = str(request.POST.get("source") or request.GET.get("source") or "")
    context: dict[str, Any] = {"source": asked, "next": next_of(request)}
    if request.method == "POST":
        try:
            key, count = forgetting.forget_source(request.user, asked, by=request.actor)
        except MemoryRefused as exc:
            context["problem"] = str(exc)
        else:
            said = ngettext(
                "One record is in the trash for 30 days.",
                "%(count)d records are in the trash for 30 days.",
                count,
            ) % {"count": count}
            undo = "undo:" + reverse("memory:forgotten-undo", args=[key])
            messages.success(request, said, extra_tags=undo)
            return go_to(request, context["next"] or reverse("memory:notes"))
    if asked:
        context |= _going(request, asked)
    context |= _act(request)
    template = "memory/_source_forget.html" if request.htmx else "memory/source_forget.html"
    return render(request, template, context)


def _going(request: BeaconRequest, asked: str) -> dict[str, Any]:
    """Return what would go, or why the source cannot be looked for."""
    try:
        source = forgetting.checked_source(asked)
    except InvalidValue as exc:
        return {"problem": str(exc)}
    going = forgetting.what_would_go(request.user, source)
    return {
        "source": source,
        "origin": origins.of(request.user, [source])[source],
        "going": going,
        "total": sum(one.count for one in going),
        "by_hand": sum(one.by_hand for one in going),
    }


def _act(request: BeaconRequest) -> dict[str, Any]:
    """Return the act that the log leads from, as far as it can be taken back."""
    try:
        key = UUID(request.GET.get("act", ""))
    except ValueError:
        return {}
    return {"act": key, "act_count": forgetting.lying_in_trash(request.user, key)}


@require_POST
@login_required
def undo(request: BeaconRequest, key: UUID) -> HttpResponse:
    """Bring back what was forgotten with that key."""
    came, refused = forgetting.take_back(request.user, key, by=request.actor)
    if came or not refused:
        said = ngettext(
            "%(count)d record is back from the trash.",
            "%(count)d records are back from the trash.",
            came,
        )
        messages.success(request, said % {"count": came})
    if refused:
        told = {"count": len(refused), "why": " ".join(refused[:3])}
        messages.error(request, _("%(count)d stay in the trash. %(why)s") % told)
    return go_back(request, reverse("memory:notes"))
