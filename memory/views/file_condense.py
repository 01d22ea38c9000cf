"""A shorter text for a memory file, to look at before it is saved."""

from __future__ import annotations

from uuid import uuid4

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory import connections, file_condensing
from memory.file_answers import file_or_404
from memory.file_page import budget_of


@require_http_methods(["GET", "POST"])
@login_required
@vary_on_headers("HX-Request", "HX-Target")
def condense(request: BeaconRequest, path: str) -> HttpResponse:
    """Propose a shorter text by rule; a POST asks the model for one.  Nothing is stored."""
    file = file_or_404(request, path)
    if request.method == "POST":
        shorter = file_condensing.by_model(request.user, file)
    else:
        shorter = file_condensing.by_rule(file)
    context = {
        "file": file,
        "tab": "condense",
        "shorter": shorter,
        "budget": budget_of(request.user, file),
        "has_model": connections.llm_profile() is not None,
        "no_model": file_condensing.why_no_model(file),
        "window": uuid4(),
    }
    in_place = request.htmx and request.htmx.target == "file-condense"
    template = "memory/_file_condense.html" if in_place else "memory/file_condense.html"
    return render(request, template, context)
