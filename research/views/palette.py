"""The palette: one field that leads everywhere, in a dialog and as a page of its own."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from research import palette as rows
from research.context_processors import sections, settings_pages


@require_safe
@login_required
@vary_on_headers("HX-Request")
def palette(request: BeaconRequest) -> HttpResponse:
    """Show what the words may mean; over htmx the rows alone."""
    typed = request.GET.get("words", "")
    words = rows.asked(typed)
    groups = rows.offered(request.user, words, sections(request.path), settings_pages(request.user))
    found = sum(len(one.rows) for one in groups)
    context = {"typed": typed, "words": words, "groups": groups, "found": found}
    template = "research/_palette_rows.html" if request.htmx else "research/palette.html"
    return render(request, template, context)
