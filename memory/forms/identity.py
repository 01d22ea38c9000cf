"""Forms for who the agent is and how it thinks."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from memory.contexts.identity import LONGEST_NAME, Persona
from memory.errors import MemoryRefused
from memory.forms.fields import CleanTextField
from memory.models import Note


class _NoteForm(forms.Form):
    """A form that says which note was seen when it was opened."""

    SEEN = "version"

    def take(self, refused: MemoryRefused) -> None:
        """Show what the rules refused, by field where the form has it."""
        problems = getattr(refused, "errors", None) or {"": [str(refused)]}
        for name, reasons in problems.items():
            self.add_error(name if name in self.fields else None, reasons)

    def show_again(self, newest: Note) -> None:
        """Keep what was typed, and let the next save be based on `newest`, shown beside it."""
        data = QueryDict(mutable=True)
        data.update({name: self.data.get(name, "") for name in self.fields})
        data[self.SEEN] = str(newest.pk if self.SEEN == "standing" else newest.version)
        self.data = data


class PersonaForm(_NoteForm):
    """Name, personality and speaking style of the agent."""

    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    name = CleanTextField(
        label=_("Name"),
        max_length=LONGEST_NAME,
        error_messages={"required": _("Give the agent a name: by it it speaks of itself.")},
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    personality = CleanTextField(
        label=_("Personality"),
        required=False,
        help_text=_("What it cares for, and how it deals with doubt."),
        widget=forms.Textarea(attrs={"rows": 5}),
    )
    style = CleanTextField(
        label=_("Speaking style"),
        required=False,
        help_text=_("How it writes: length, tone, language."),
        widget=forms.Textarea(attrs={"rows": 5}),
    )

    @staticmethod
    def initial_of(note: Note | None) -> dict[str, Any]:
        """Return what the form shows of the agent note."""
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
        """Return what was asked for."""
        data = self.cleaned_data
        return Persona(data["name"], data["personality"], data["style"])


class SoulForm(_NoteForm):
    """A new soul, which supersedes the one that stands."""

    SEEN = "standing"
    standing = forms.UUIDField(widget=forms.HiddenInput, required=False)
    content = CleanTextField(
        label=_("Soul"),
        error_messages={"required": _("A soul needs some words: write at least a sentence.")},
        help_text=_("Markdown, at most 64 KiB. Saving writes a new soul; the old one stays below."),
        widget=forms.Textarea(attrs={"rows": 22, "spellcheck": "true", "class": "mono"}),
    )
    why = CleanTextField(
        label=_("Why"),
        required=False,
        max_length=300,
        help_text=_("For the history: what you changed, and what for."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )

    @staticmethod
    def initial_of(note: Note | None) -> dict[str, Any]:
        """Return what the form shows of the soul that stands."""
        return {"content": note.content, "standing": note.pk} if note else {}
