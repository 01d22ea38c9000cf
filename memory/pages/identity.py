"""The settings pages of the agent's identity: its persona, and its soul with earlier versions."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.text.markdown import by_direction, without_title
from beacon_site.text.markdown import render as render_markdown
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import (
    CleanTextField,
    RefusalErrorsMixin,
    SecretConfirmationMixin,
    signed_in,
)
from memory.models import Note
from memory.models.errors import MemoryRefused, StaleWrite
from memory.pages.shared.undo import offer, toast_with_undo, undoes
from memory.services.context import identity
from memory.services.context.identity import MAX_NAME_LENGTH, Persona


class PersonaForm(SecretConfirmationMixin, RefusalErrorsMixin):
    """Name, personality and speaking style of the agent."""

    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    name = CleanTextField(
        label=gettext_lazy("Name"),
        max_length=MAX_NAME_LENGTH,
        error_messages={"required": gettext_lazy("Enter a name for the agent.")},
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    personality = CleanTextField(
        label=gettext_lazy("Personality"),
        required=False,
        help_text=gettext_lazy("Describe the agent’s values, and how it handles uncertainty."),
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    style = CleanTextField(
        label=gettext_lazy("Speaking style"),
        required=False,
        help_text=gettext_lazy("Describe how the agent writes: length, tone and language."),
        widget=forms.Textarea(attrs={"rows": 3}),
    )

    @staticmethod
    def initial_of(note: Note | None) -> dict[str, Any]:
        """Return the form's values from the agent note."""
        if note is None:
            return {}
        persona = Persona.of_text(note.content)
        return {
            "name": persona.name,
            "personality": persona.personality,
            "style": persona.style,
            "version": note.version,
        }

    def persona(self) -> Persona:
        data = self.cleaned_data
        return Persona(data["name"], data["personality"], data["style"])


class SoulForm(SecretConfirmationMixin, RefusalErrorsMixin):
    """A new soul, which replaces the current one."""

    SEEN = "standing", "pk"
    standing = forms.UUIDField(widget=forms.HiddenInput, required=False)
    content = CleanTextField(
        label=gettext_lazy("Soul"),
        error_messages={"required": gettext_lazy("Enter at least one sentence.")},
        help_text=gettext_lazy(
            "Use Markdown (at most 64 KiB). The previous soul stays in the list below."
        ),
        widget=forms.Textarea(attrs={"rows": 16, "spellcheck": "true"}),
    )
    why = CleanTextField(
        label=gettext_lazy("Why"),
        required=False,
        max_length=300,
        help_text=gettext_lazy(
            "Describe the change and the reason for it. The history shows this text."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )

    @staticmethod
    def initial_of(note: Note | None) -> dict[str, Any]:
        """Return the form's values from the current soul."""
        return {"content": note.content, "standing": note.pk} if note else {}


# --- pages ---


@signed_in("GET", "POST")
def persona(request: BeaconRequest) -> HttpResponse:
    """Show and edit the agent note: name, personality, speaking style."""
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
            note = identity.active(request.user, Note.Kind.AGENT)
            theirs = form.on_newest(note, exc)
        except MemoryRefused as exc:
            form.take(exc)
        else:
            message = _("Persona saved. It applies from the next question.")
            toast_with_undo(request, note, message, seen=version)
            if not request.htmx:
                return redirect("memory:persona")
            form = PersonaForm(initial=PersonaForm.initial_of(note))
    template = "memory/_persona.html" if request.htmx else "memory/settings_persona.html"
    return render(request, template, {"form": form, "note": note, "tab": "persona", **theirs})


@signed_in("GET", "POST")
def soul(request: BeaconRequest) -> HttpResponse:
    """Show the soul with its earlier versions; with `edit`, the form for a new one."""
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
            note = identity.active(request.user, Note.Kind.SOUL)
            theirs = form.on_newest(note, exc)
        except MemoryRefused as exc:
            form.take(exc)
        else:
            _report_saved(request, new, note)
            if not request.htmx:
                return redirect("memory:soul")
            response = _soul_page(request, SoulForm(initial=SoulForm.initial_of(new)), new, {})
            response["HX-Replace-Url"] = request.path
            return response
    return _soul_page(request, form, note, theirs)


@signed_in("POST")
def soul_restore(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Restore an older soul, as a new one with its text."""
    souls = Note.objects.for_user(request.user).live().filter(kind=Note.Kind.SOUL)
    older = get_object_or_404(souls, pk=pk)
    note = identity.active(request.user, Note.Kind.SOUL)
    try:
        new = identity.restore_soul(request.user, older, by=request.actor)
    except MemoryRefused as exc:
        messages.error(request, str(exc))
    else:
        _report_saved(request, new, note)
        note = new
    if not request.htmx:
        return redirect("memory:soul")
    return _soul_page(request, SoulForm(initial=SoulForm.initial_of(note)), note, {})


@undoes("soul-written")
def _undo_soul(request: BeaconRequest, soul: str) -> HttpResponse:
    """Restore the soul before this one, unless it has changed since."""
    new = get_object_or_404(
        Note.objects.for_user(request.user).filter(kind=Note.Kind.SOUL), pk=soul
    )
    before = Note.objects.for_user(request.user).live().filter(superseded_by=new).first()
    standing = identity.active(request.user, Note.Kind.SOUL)
    if before is None or standing is None or standing.pk != new.pk:
        raise MemoryRefused(
            _(
                "The soul has changed since then, so your change couldn’t be undone. You can find all versions under Agents → Identity."
            )
        )
    _report_saved(request, identity.restore_soul(request.user, before, by=request.actor), new)
    return redirect("memory:soul")


def _soul_page(
    request: BeaconRequest, form: SoulForm, note: Note | None, theirs: dict[str, Any]
) -> HttpResponse:
    template = "memory/_soul.html" if request.htmx else "memory/settings_soul.html"
    rendered = ""  # while it's edited
    if note is not None and not form.is_bound and "edit" not in request.GET:
        rendered = by_direction(render_markdown(without_title(note.content, "Soul")))
    context = {
        "form": form,
        "note": note,
        "rendered": rendered,
        "note_bytes": len(note.content.encode()) if note else 0,
        "chain": identity.old_souls(request.user),
        "tab": "soul",
        **theirs,
    }
    return render(request, template, context)


def _report_saved(request: BeaconRequest, new: Note, before: Note | None) -> None:
    if before is not None and new.pk == before.pk:
        messages.success(request, _("Nothing changed. The soul already has this text."))
        return
    words = _("Soul updated. The previous version is listed below.")
    undo = offer(request, "soul-written", soul=new.pk) if before is not None else ""
    messages.success(request, words, extra_tags=undo)
