"""What became of a memory file: history, any two versions, one put back, blame, a month by days."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.errors import MemoryRefused
from memory.file_pages import history as file_blame
from memory.file_pages import history as file_history
from memory.file_pages import history as file_timeline
from memory.file_pages.answers import file_or_404, number, say_with_undo
from memory.file_texts.paths import is_fact
from memory.files.errors import FileConflict
from memory.files.services import restore_version
from memory.responses import go_to, refused


@require_safe
@login_required
def history(request: BeaconRequest, path: str) -> HttpResponse:
    """Show who changed the file, when, why and by how much, the latest change first."""
    file = file_or_404(request, path)
    page = file_history.history_of(file, cursor=request.GET.get("cursor", ""))
    context = {
        "file": file,
        "tab": "history",
        "changes": page.changes,
        "next_cursor": page.next_cursor,
    }
    return render(request, "memory/file_history.html", context)


@require_safe
@login_required
@vary_on_headers("HX-Request", "HX-Target")
def compare(request: BeaconRequest, path: str) -> HttpResponse:
    """Show what differs between any two versions: one text below the other, or side by side."""
    file = file_or_404(request, path)
    asked = file_history.Asked.of(request.GET, file.version)
    context: dict[str, Any] = {
        "file": file,
        "tab": "history",
        "asked": asked,
        "comparison": file_history.compare(file, asked),
    }
    in_place = request.htmx and request.htmx.target == "file-compare"
    template = "memory/_file_compare.html" if in_place else "memory/file_compare.html"
    return render(request, template, context)


@require_POST
@login_required
def restore(request: BeaconRequest, path: str) -> HttpResponse:
    """Put the text back as it was at an older version, as a new version."""
    file = file_or_404(request, path)
    wanted, seen = (number(request.POST.get(name, "")) for name in ("version", "seen"))
    try:
        saved = restore_version(
            request.user, path, wanted, by=request.actor, seen=seen or file.version
        )
    except FileConflict as exc:
        messages.warning(
            request,
            _(
                "Nothing was restored: %(path)s was changed meanwhile and is at version "
                "%(version)d. This is what restoring version %(wanted)d would change now."
            )
            % {"path": path, "version": exc.version, "wanted": wanted},
        )
        here = reverse("memory:file-compare", args=[path])
        return go_to(request, f"{here}?from={wanted}&to={exc.version}")
    except MemoryRefused as exc:
        return refused(request, str(exc))
    if saved.file.version == file.version:
        messages.info(request, _("Nothing is changed: the file says what it said then."))
    else:
        said = _("Version %(version)d stands again.") % {"version": wanted}
        say_with_undo(request, saved.file, said)
    return go_to(request, file.get_absolute_url())


@require_safe
@login_required
def blame(request: BeaconRequest, path: str) -> HttpResponse:
    """Show for each line who wrote it, when, why and in which run; of an older version too."""
    file = file_or_404(request, path)
    version, line = (number(request.GET.get(name, "")) for name in ("version", "line"))
    page = file_blame.blame_of(file, version=version, line=line or 1)
    context = {"file": file, "tab": "blame", "page": page}
    return render(request, "memory/file_blame.html", context)


@require_safe
@login_required
def timeline(request: BeaconRequest, path: str) -> HttpResponse:
    """Show a month's entries by day, with what is amiss with any; a fact file has none."""
    if is_fact(path):
        raise Http404
    file = file_or_404(request, path)
    page = file_timeline.timeline_of(file, begin=number(request.GET.get("from", "")))
    context = {"file": file, "tab": "timeline", "page": page}
    return render(request, "memory/file_timeline.html", context)
