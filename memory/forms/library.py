"""Forms of the library: a document pasted or uploaded, and its title and text edited."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.documents.reading import LARGEST, LONGEST_TITLE
from memory.forms.fields import CleanTextField

ENDINGS = (".md", ".markdown", ".txt", ".rst", ".html", ".htm", ".pdf")
LONGEST_TEXT = 2_000_000  # characters, in a form
_NO_TEXT = gettext_lazy("A document needs some text. To be rid of it, move it to the trash.")


class AddDocumentForm(forms.Form):
    """A new document: pasted text or a file, not both."""

    title = CleanTextField(
        label=gettext_lazy("Title"),
        max_length=LONGEST_TITLE,
        required=False,
        help_text=gettext_lazy("Left empty, it is the document's own, or the file's name."),
    )
    text = CleanTextField(
        label=gettext_lazy("Text"),
        required=False,
        max_length=LONGEST_TEXT,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 12}),
        help_text=gettext_lazy("Markdown or plain text."),
    )
    file = forms.FileField(
        label=gettext_lazy("or a file"),
        required=False,
        allow_empty_file=True,  # that it is empty is said by whoever reads it
        widget=forms.FileInput(attrs={"accept": ",".join(ENDINGS)}),
        help_text=gettext_lazy("Markdown, text, HTML or PDF, at most 5 MiB."),
    )

    def clean_file(self) -> UploadedFile[bytes] | None:
        """Refuse what is not read or too large, before any of it is read."""
        file: UploadedFile[bytes] | None = self.cleaned_data["file"]
        if file is None:
            return None
        if PurePath(file.name or "").suffix.lower() not in ENDINGS:
            raise forms.ValidationError(
                _("“%(name)s” is none of %(endings)s.")
                % {"name": file.name, "endings": ", ".join(ENDINGS)}
            )
        if (file.size or 0) > LARGEST:
            raise forms.ValidationError(
                _("The file has %(size).1f MiB; at most 5 MiB are taken.")
                % {"size": (file.size or 0) / 1024 / 1024}
            )
        return file

    def clean(self) -> dict[str, Any]:
        """Ask for a text or a file, and for one of them only."""
        data = super().clean() or self.cleaned_data
        if self.errors:
            return data
        if not data["text"].strip() and data["file"] is None:
            self.add_error("text", _("Paste a text, or choose a file."))
        elif data["text"].strip() and data["file"] is not None:
            self.add_error(
                "file", _("Give a text or a file, not both: make two documents of them.")
            )
        return data


class EditDocumentForm(forms.Form):
    """A document's title and text, and which version they were made from."""

    title = CleanTextField(
        label=gettext_lazy("Title"),
        max_length=LONGEST_TITLE,
        error_messages={"required": gettext_lazy("A document needs a title: give it one.")},
    )
    text = CleanTextField(
        label=gettext_lazy("Text"),
        max_length=LONGEST_TEXT,
        strip=False,
        error_messages={"required": _NO_TEXT},
        widget=forms.Textarea(attrs={"rows": 24, "class": "mono"}),
    )
    why = CleanTextField(label=gettext_lazy("Why, for the history"), max_length=300, required=False)
    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)

    def clean_text(self) -> str:
        """Return the text as it can be stored, with line feeds alone."""
        text: str = self.cleaned_data["text"].replace("\r\n", "\n").replace("\r", "\n")
        if not text.strip():
            raise forms.ValidationError(_NO_TEXT)
        return text
