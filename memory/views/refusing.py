"""“Block this source”: what can be refused and what that does, and the list of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from beacon_site.http import BeaconRequest
from memory.errors import MemoryRefused
from memory.models import Proposal, RefusedSource
from memory.responses import go_back, next_of
from memory.reviewing import refusing
from memory.reviewing.quarantine import MODELS


@require_safe
@login_required
def refused_sources(request: BeaconRequest) -> HttpResponse:
    """Show what is refused, how often that turned something away, and the way back."""
    rows = RefusedSource.objects.of(request.user)[: refusing.MOST]
    return render(request, "memory/refused_sources.html", {"rows": rows})


@require_http_methods(["GET", "POST"])
@login_required
def source_refuse(request: BeaconRequest, kind: str, pk: UUID) -> HttpResponse:
    """Say what refusing the source of a proposal or record would do, and do what is chosen."""
    models: dict[str, Any] = {**MODELS, "proposal": Proposal}
    if kind not in models:
        raise Http404
    about = get_object_or_404(models[kind].objects.of(request.user), pk=pk)
    about.owner = request.user
    choices = refusing.choices_of(request.user, about)
    wanted = request.POST.get("choice", "")
    chosen = next((one for one in choices if one.value == wanted), None)
    problem = _("Choose what is to be refused.") if request.method == "POST" else ""
    if request.method == "POST" and chosen is not None:
        why = request.POST.get("why", "")[:300]
        try:
            made = refusing.refuse(
                request.user, chosen.kind, chosen.name, by=request.actor, why=why
            )
        except MemoryRefused as exc:
            return _show_choices(request, kind, about, choices, str(exc))
        words = _("Nothing is taken from %(what)s any more.") % {"what": chosen.words}
        undo = f"undo:{reverse('memory:source-allow', args=[made.pk])}"
        messages.success(request, words, extra_tags=undo)
        return redirect(next_of(request, reverse("memory:refused-sources")))
    return _show_choices(request, kind, about, choices, problem)


def _show_choices(
    request: BeaconRequest, kind: str, about: Any, choices: Sequence[Any], problem: str
) -> HttpResponse:
    """Show the page, which leads back to where it was asked for."""
    if kind == "proposal":
        page = reverse("memory:proposal", args=[about.pk])
    else:
        page = reverse("memory:record-open", args=[kind, about.pk])
    context = {"about": about, "choices": choices, "problem": problem}
    context["back"] = next_of(request, page)
    return render(request, "memory/source_refuse.html", context)


@require_POST
@login_required
def source_allow(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Let a refused source in again; what was rejected with it waits again."""
    refused = get_object_or_404(RefusedSource.objects.of(request.user), pk=pk)
    refused.owner = request.user
    name, number = refused.name, refusing.allow(refused, by=request.actor)
    words = _("“%(name)s” is let in again.") % {"name": name}
    if number:
        back = ngettext("One proposal waits again.", "%(n)d proposals wait again.", number)
        words = f"{words} {back % {'n': number}}"
    messages.success(request, words)
    return go_back(request, reverse("memory:refused-sources"))
