"""Context: what an agent would be given now, and the same as a text file."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.contexts import page as context_page
from memory.llm import connections
from memory.texts.token_count import how_in_words


@require_safe
@login_required
@vary_on_headers("HX-Request")
def context(request: BeaconRequest) -> HttpResponse:
    """Show the six layers for a message, a topic and a budget; over htmx the layers alone."""
    wanted = context_page.Wanted.of(request.GET)
    shown: dict[str, Any] = {
        "wanted": wanted,
        "preview": context_page.preview(request.user, wanted),
        "counted": how_in_words(),
        "address": request.GET.urlencode(),
        "has_model": connections.language_model() is not None,
    }
    if request.htmx and request.htmx.target == "context":
        return render(request, "memory/_context.html", shown)
    shown |= {
        "units": context_page.UNITS,
        "most_message": context_page.MOST_MESSAGE,
        "topics": context_page.topics_of(request.user),
    }
    return render(request, "memory/context.html", shown)


@require_safe
@login_required
def context_text(request: BeaconRequest) -> HttpResponse:
    """Give the context as a text file."""
    text = context_page.text_of(request.user, context_page.Wanted.of(request.GET))
    answer = HttpResponse(text, content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="beacon-context.txt"'
    return answer
