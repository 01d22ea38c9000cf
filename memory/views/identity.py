"""Settings of the agent: its persona, and its soul with the chain of those before."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from beacon_site.http import BeaconRequest
from memory.contexts import identity
from memory.errors import MemoryRefused, StaleWrite
from memory.forms.identity import PersonaForm, SoulForm
from memory.models import Note
from memory.responses import undo_tag


@require_http_methods(["GET", "POST"])
@login_required
def persona(request: BeaconRequest) -> HttpResponse:
    """Show and rewrite the agent note: name, personality, speaking style."""
    note = identity.active(request.user, Note.Kind.AGENT)
    form = PersonaForm(request.POST or None, initial=PersonaForm.initial_of(note))
    theirs: dict[str, Any] = {}
    if request.method == "POST" and form.is_valid():
        version = form.cleaned_data["version"]
        try:
            note = identity.write_persona(
                request.user, form.persona(), by=request.actor, expected_version=version
            )
        except StaleWrite as exc:
            theirs = _conflict(form, note, exc)
        except MemoryRefused as exc:
            form.take(exc)
        else:
            messages.success(
                request,
                _("The persona is saved; it holds from the next question on."),
                extra_tags=undo_tag(note),
            )
            if not request.htmx:
                return redirect("memory:persona")
            form = PersonaForm(initial=PersonaForm.initial_of(note))
    template = "memory/_persona.html" if request.htmx else "memory/settings_persona.html"
    return render(request, template, {"form": form, "note": note, "tab": "persona", **theirs})


@require_http_methods(["GET", "POST"])
@login_required
def soul(request: BeaconRequest) -> HttpResponse:
    """Show the soul with those before it, and write a new one."""
    note = identity.active(request.user, Note.Kind.SOUL)
    form = SoulForm(request.POST or None, initial=SoulForm.initial_of(note))
    theirs: dict[str, Any] = {}
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            new = identity.write_soul(
                request.user,
                data["content"],
                by=request.actor,
                why=data["why"],
                expected=data["standing"],
            )
        except StaleWrite as exc:
            theirs = _conflict(form, note, exc)
        except MemoryRefused as exc:
            form.take(exc)
        else:
            _say(request, new, note)
            if not request.htmx:
                return redirect("memory:soul")
            note, form = new, SoulForm(initial=SoulForm.initial_of(new))
    return _soul_page(request, form, note, theirs)


@require_POST
@login_required
def soul_bring_back(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Let an older soul stand again, by a new one with its text."""
    souls = Note.objects.of(request.user).live().filter(kind=Note.Kind.SOUL)
    older = get_object_or_404(souls, pk=pk)
    note = identity.active(request.user, Note.Kind.SOUL)
    try:
        new = identity.bring_back_soul(request.user, older, by=request.actor)
    except MemoryRefused as exc:
        messages.error(request, str(exc))
    else:
        _say(request, new, note)
        note = new
    if not request.htmx:
        return redirect("memory:soul")
    return _soul_page(request, SoulForm(initial=SoulForm.initial_of(note)), note, {})


@require_POST
@login_required
def soul_undo(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Let the soul stand again that this one came after, unless another one stands meanwhile."""
    new = get_object_or_404(Note.objects.of(request.user).filter(kind=Note.Kind.SOUL), pk=pk)
    before = Note.objects.of(request.user).live().filter(superseded_by=new).first()
    standing = identity.active(request.user, Note.Kind.SOUL)
    if before is None or standing is None or standing.pk != new.pk:
        words = _("Another soul stands since, so that one is not taken back. The chain shows all.")
        messages.warning(request, words)
        return redirect("memory:soul")
    try:
        again = identity.bring_back_soul(request.user, before, by=request.actor)
    except MemoryRefused as exc:
        messages.warning(request, str(exc))
    else:
        _say(request, again, new)
    return redirect("memory:soul")


def _soul_page(
    request: BeaconRequest, form: SoulForm, note: Note | None, theirs: dict[str, Any]
) -> HttpResponse:
    template = "memory/_soul.html" if request.htmx else "memory/settings_soul.html"
    chain = identity.old_souls(request.user)
    context = {"form": form, "note": note, "chain": chain, "tab": "soul", **theirs}
    return render(request, template, context)


def _say(request: BeaconRequest, new: Note, before: Note | None) -> None:
    if before is not None and new.pk == before.pk:
        messages.success(request, _("The soul says this already: nothing was changed."))
        return
    words = _("A new soul stands; the one before is kept in the chain below.")
    undo = f"undo:{reverse('memory:soul-undo', args=[new.pk])}" if before is not None else ""
    messages.success(request, words, extra_tags=undo)


def _conflict(form: PersonaForm | SoulForm, note: Note | None, exc: StaleWrite) -> dict[str, Any]:
    """Return what tells of a save by somebody else; what was typed stays in the form."""
    if note is None:
        form.take(exc)
        return {}
    form.show_again(note)
    return {"theirs": note, "why_refused": str(exc)}
