"""A shorter text for a memory file, to look at before it is saved."""

from __future__ import annotations

from uuid import uuid4

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods
from django.views.decorators.vary import vary_on_headers

from beacon_site import health
from beacon_site.http import BeaconRequest
from memory.file_pages import condensing as file_condensing
from memory.file_pages.answers import file_or_404
from memory.file_pages.condensing import Asked, NotAsked, Shorter
from memory.file_pages.page import budget_of
from memory.llm import connections
from memory.models import MemoryFile


@require_http_methods(["GET", "POST"])
@login_required
@vary_on_headers("HX-Request", "HX-Target")
def condense(request: BeaconRequest, path: str) -> HttpResponse:
    """Propose a shorter text by rule; a POST lets the model be asked for one.  Nothing is stored.

    While the model is asked (`asked` in the address) a poll is answered by nothing (204).
    """
    file = file_or_404(request, path)
    asked = Asked.of(request.GET.get("asked", ""))
    problem = ""
    if request.method == "POST":
        try:
            asked = file_condensing.ask(request.user, file)
        except NotAsked as exc:
            asked, problem = None, str(exc)
        else:
            if not request.htmx:
                return redirect(_address(file, asked))
    shorter = file_condensing.proposed(file, asked) if asked else None
    if asked and shorter is None and request.method == "GET" and _in_place(request):
        return HttpResponse(status=204)
    response = _page(request, file, shorter, asked, problem)
    if request.method == "POST" and asked:
        response["HX-Push-Url"] = _address(file, asked)
    return response


def _page(
    request: BeaconRequest,
    file: MemoryFile,
    shorter: Shorter | None,
    asked: Asked | None,
    problem: str,
) -> HttpResponse:
    is_waiting = asked is not None and shorter is None
    context = {
        "file": file,
        "tab": "condense",
        "shorter": shorter or file_condensing.by_rule(file, problem=problem),
        "waiting": _address(file, asked) if is_waiting and asked else "",
        "since": asked.at if asked else None,
        "is_silent": is_waiting and "upkeep" in health.silent(health.ages()),
        "budget": budget_of(request.user, file),
        "has_model": connections.llm_profile() is not None,
        "no_model": file_condensing.why_no_model(file),
        "window": uuid4(),
    }
    template = "_file_condense" if _in_place(request) else "file_condense"
    return render(request, f"memory/{template}.html", context)


def _in_place(request: BeaconRequest) -> bool:
    return bool(request.htmx) and request.htmx.target == "file-condense"


def _address(file: MemoryFile, asked: Asked) -> str:
    return f"{reverse('memory:file-condense', args=[file.path])}?asked={asked}"
