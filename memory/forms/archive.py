"""Forms of export and import: the upload, and how a file is to be read."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from memory.archive.foreign_formats import Shape
from memory.models import Note, Observation

ENDINGS = ".zip,.jsonl,.ndjson,.json,.md,.markdown,.txt"
_FROM_ELSEWHERE = (Note.Kind.LOG, Note.Kind.SUMMARY)


class UploadForm(forms.Form):
    """The file that is to be looked through."""

    file = forms.FileField(
        label=gettext_lazy("File"),
        widget=forms.FileInput(attrs={"accept": ENDINGS}),
        allow_empty_file=True,  # that it is empty is said by whoever reads it
        error_messages={"required": gettext_lazy("Choose a file first.")},
        help_text=gettext_lazy(
            "An archive of Beacon, a zip of Markdown files, or JSON lines; at most 512 MiB."
        ),
    )


class ReadingForm(forms.Form):
    """How a file is read; which fields there are depends on what it is."""

    own = forms.BooleanField(
        label=gettext_lazy("I made this archive myself"),
        required=False,
        help_text=gettext_lazy(
            "Then who wrote what, and how far it is believed, stays as it is. Else everything is "
            "marked as from outside, and schedules come in paused."
        ),
    )
    bullets = forms.ChoiceField(
        label=gettext_lazy("A file becomes"),
        choices=[
            ("no", gettext_lazy("a note: the whole file")),
            ("yes", gettext_lazy("observations: one for each bullet")),
        ],
        widget=forms.RadioSelect,
    )
    kind = forms.ChoiceField(
        label=gettext_lazy("Notes that name no kind are"),
        choices=[(kind.value, kind.label) for kind in _FROM_ELSEWHERE],
    )
    category = forms.ChoiceField(
        label=gettext_lazy("Observations that name no category are"),
        choices=Observation.Category.choices,
    )

    def __init__(self, data: Any = None, *, options: dict[str, Any]) -> None:
        shape = options.get("shape")
        initial = options | {"bullets": "yes" if options.get("bullets") else "no"}
        super().__init__(data, initial=initial)
        wanted = {
            Shape.BEACON: ("own",),
            Shape.MARKDOWN: ("bullets", "kind", "category"),
            Shape.LINES: ("category",),
        }[Shape(str(shape))]
        for name in set(self.fields) - set(wanted):
            del self.fields[name]

    def options(self) -> dict[str, Any]:
        """Return what was chosen, as the row keeps it."""
        chosen = dict(self.cleaned_data)
        if "bullets" in self.fields:
            chosen["bullets"] = self.cleaned_data["bullets"] == "yes"
        return chosen
