"""Forms of memory files: a file's whole text, and an entry of a month."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.validators import ProhibitNullCharactersValidator
from django.utils.translation import gettext_lazy as _

from memory.files.drafts import MOST_NOTE
from memory.forms.fields import CleanTextField


class _AsTyped(forms.CharField):
    """A text that the file's own rules mend and judge, not the form."""

    def __init__(self, **more: Any) -> None:
        super().__init__(strip=False, required=False, **more)
        nul = ProhibitNullCharactersValidator
        self.validators = [one for one in self.validators if not isinstance(one, nul)]


class FileForm(forms.Form):
    """The whole text of a file, with the version it was made from (0: there was no file)."""

    content = _AsTyped(
        label=_("Markdown"),
        widget=forms.Textarea(
            attrs={
                "rows": 24,
                "class": "mono file-editor",
                "data-file-text": "",
                "wrap": "soft",
                "dir": "auto",
            }
        ),
    )
    note = CleanTextField(
        label=_("What changed"),
        required=False,
        max_length=MOST_NOTE,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    seen = forms.IntegerField(min_value=0, max_value=2_000_000_000, widget=forms.HiddenInput)
    window = forms.UUIDField(widget=forms.HiddenInput)


class EpisodeForm(forms.Form):
    """One entry of a month's file, in the format that agents write (seed 003)."""

    title = CleanTextField(
        label=_("Title"),
        max_length=200,
        error_messages={"required": _("Say in a few words what it was about.")},
        help_text=_("What it was about, such as Tokyo flights."),
    )
    summary = CleanTextField(
        label=_("Summary"),
        max_length=300,
        error_messages={"required": _("Sum it up in one line, for the file's index.")},
        help_text=_("Under ten words: the file's line in the index is made of these."),
    )
    date = forms.DateField(
        label=_("Date"),
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        help_text=_("The day it was; its month says which file it goes to."),
    )
    task = CleanTextField(
        label=_("Task"),
        widget=forms.Textarea(attrs={"rows": 2}),
        error_messages={"required": _("Say what was to be done.")},
        help_text=_("What was to be done."),
    )
    findings = CleanTextField(
        label=_("Findings"), required=False, widget=forms.Textarea(attrs={"rows": 3})
    )
    decision = CleanTextField(
        label=_("Decision"), required=False, widget=forms.Textarea(attrs={"rows": 2})
    )
    lesson = CleanTextField(
        label=_("Lesson"), required=False, widget=forms.Textarea(attrs={"rows": 2})
    )

    def clean(self) -> dict[str, Any]:
        """Want at least one thing that came of it."""
        data = super().clean() or self.cleaned_data
        if not any(data.get(name) for name in ("findings", "decision", "lesson")):
            self.add_error(
                "findings",
                _("Say what came of it: findings, a decision or a lesson, at least one of them."),
            )
        return data
