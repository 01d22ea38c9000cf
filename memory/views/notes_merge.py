"""Merging notes by hand: which, what they say together, and taking a merge or a successor back."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.errors import MemoryRefused, StaleWrite
from memory.llm import connections
from memory.models import Note
from memory.notes import merging
from memory.responses import go_back, go_to, refused, say_cleaned


def _asked(data: Any) -> list[UUID]:
    """Return the ids that an address or a form names, each once, as far as they are ids."""
    found = []
    for text in ",".join([*data.getlist("ids"), *data.getlist("id")]).split(","):
        try:
            found.append(UUID(text.strip()))
        except ValueError:
            continue
    return list(dict.fromkeys(found))[: merging.MOST + 1]


@require_http_methods(["GET", "POST"])
@login_required
@vary_on_headers("HX-Request")
def merge(request: BeaconRequest) -> HttpResponse:
    """Show what the chosen notes would say together; a POST merges them, or asks the model first."""
    posted = request.method == "POST"
    data = request.POST if posted else request.GET
    ids = _asked(data)
    notes = sorted(Note.objects.of(request.user).filter(pk__in=ids), key=lambda note: note.created)
    context: dict[str, Any] = {
        "notes": notes,
        "content": data.get("content", "") if posted else merging.concatenation(notes),
        "is_sensitive": any(note.sensitivity == "sensitive" for note in notes),
        "has_model": connections.llm_profile() is not None,
    }
    if posted and "propose" in data:
        proposal = merging.proposed(notes, owner=request.user)
        context |= {"content": proposal.content, "proposal": proposal}
    elif posted:
        try:
            made = merging.merge(
                request.user,
                ids,
                by=request.actor,
                content=data.get("content", ""),
                versions=_versions(data, ids),
            )
        except StaleWrite as exc:
            context |= {"problem": str(exc), "is_stale": True}
        except MemoryRefused as exc:
            context["problem"] = str(exc)
        else:
            return _merged(request, made.note, len(notes))
    template = "memory/_notes_merge.html" if request.htmx else "memory/notes_merge.html"
    return render(request, template, context)


def _versions(data: Any, ids: list[UUID]) -> dict[UUID, int]:
    """Return which version of each note was seen."""
    seen = {key: data.get(f"version-{key}", "") for key in ids}
    return {key: int(text) for key, text in seen.items() if text.isdecimal() and len(text) < 9}


def _merged(request: BeaconRequest, note: Note, count: int) -> HttpResponse:
    said = _("%(count)d notes are merged into this one. They stay readable in its chain.")
    undo = "undo:" + reverse("memory:note-unsupersede", args=[note.pk])
    messages.success(request, said % {"count": count}, extra_tags=undo)
    say_cleaned(request, [_("Note")] if note.cleaned else [])
    return go_to(request, note.get_absolute_url())


@require_POST
@login_required
def unsupersede(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Take a merge or a superseding back: the older notes stand again, this one is trashed."""
    note: Note = get_object_or_404(Note.objects.of(request.user), pk=pk)
    try:
        originals = merging.unmerge(note, by=request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    said = ngettext(
        "The older note stands again; the newer one is in the trash.",
        "The %(count)d older notes stand again; the newer one is in the trash.",
        len(originals),
    )
    messages.success(request, said % {"count": len(originals)})
    back = originals[0].get_absolute_url()
    # Where the newer note's own page asked, the older one's is what a person wants to see.
    if request.POST.get("next", "") == note.get_absolute_url():
        return go_to(request, back)
    return go_back(request, back)
