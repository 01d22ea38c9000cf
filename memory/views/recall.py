"""Recall: one question to all that is remembered, with what each hit's place is owed to."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.errors import MemoryRefused
from memory.recall import page as recall_page
from memory.records import saved_views
from memory.responses import refused


@require_safe
@login_required
@vary_on_headers("HX-Request")
def recall(request: BeaconRequest) -> HttpResponse:
    """Ask memory; a person's looking is no use of what is found."""
    wanted = recall_page.Wanted.of(request.GET)
    query = request.GET.copy()
    query.pop("limit", None)
    context: dict[str, Any] = {
        "wanted": wanted,
        "found": recall_page.found(request.user, wanted) if wanted.is_asked else None,
        "shows": {name: words for name, (words, _how) in recall_page.SHOWS.items()},
        "filters": query.urlencode(),
        "examples": recall_page.examples(),
    }
    if request.htmx and request.htmx.target == "recall":
        return render(request, "memory/_recall.html", context)
    context |= {
        "modes": recall_page.MODE_WORDS,
        "topics": recall_page.topics_of(request.user),
        "views": saved_views.views_of(request.user, "recall", query.urlencode()),
    }
    return render(request, "memory/recall.html", context)


@require_safe
@login_required
def recall_file(request: BeaconRequest, kind: str) -> HttpResponse:
    """Give the hits of a question as a file, two hundred at most."""
    if kind not in recall_page.FILES:
        why = _("There is no such file. There are: %(kinds)s.")
        said = why % {"kinds": ", ".join(recall_page.FILES)}
        return render(request, "404.html", {"why": said}, status=404)
    media_type, write = recall_page.FILES[kind]
    try:
        hits = recall_page.hits_of(request.user, recall_page.Wanted.of(request.GET))
    except MemoryRefused as exc:
        return refused(request, str(exc))
    answer = HttpResponse(write(hits), content_type=media_type)
    answer["Content-Disposition"] = f'attachment; filename="beacon-recall-{kind}"'
    return answer
