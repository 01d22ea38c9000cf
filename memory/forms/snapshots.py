"""Forms of snapshots: which scope is kept, where one is brought back, and one from a file."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.forms.fields import CleanTextField

LARGEST = 64 * 1024 * 1024  # bytes of a file that a page takes
_SCOPE = {"autocomplete": "off", "spellcheck": "false", "list": "scopes", "class": "mono"}


class TakeForm(forms.Form):
    """A scope whose items are kept as they are now, under a name."""

    scope = CleanTextField(
        label=gettext_lazy("Scope"),
        max_length=200,
        initial="owner",
        error_messages={"required": gettext_lazy("Name a scope; owner is what is everywhere.")},
        help_text=gettext_lazy("owner for what is everywhere, or run:, session:, agent: …"),
        widget=forms.TextInput(attrs=_SCOPE),
    )
    title = CleanTextField(
        label=gettext_lazy("Name"),
        max_length=200,
        required=False,
        help_text=gettext_lazy("Left empty, it is called by its scope and the moment."),
    )


class RestoreForm(forms.Form):
    """Where a snapshot is brought back to: empty means the scope that it was taken of."""

    scope = CleanTextField(
        label=gettext_lazy("Into the scope"),
        max_length=200,
        required=False,
        widget=forms.TextInput(attrs=_SCOPE),
    )


class UploadSnapshotForm(forms.Form):
    """A snapshot that was downloaded as JSON."""

    file = forms.FileField(
        label=gettext_lazy("File"),
        allow_empty_file=True,  # that it is empty is said by whoever reads it
        widget=forms.FileInput(attrs={"accept": ".json,application/json"}),
        help_text=gettext_lazy("JSON that Beacon wrote, at most 64 MiB."),
    )

    def clean_file(self) -> UploadedFile[bytes]:
        """Refuse what is too large before any of it is read."""
        file: UploadedFile[bytes] = self.cleaned_data["file"]
        if (file.size or 0) > LARGEST:
            told = {"size": (file.size or 0) / 1024 / 1024}
            raise forms.ValidationError(
                _("The file has %(size).1f MiB; at most 64 MiB are taken.") % told
            )
        return file

    def text(self) -> str:
        """Return what the file says.  Raises ValidationError if it is no text in UTF-8."""
        try:
            return bytes(self.cleaned_data["file"].read()).decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            raise forms.ValidationError(
                _("The file is no text in UTF-8, so no snapshot: choose one that Beacon wrote.")
            ) from exc

    def refuse(self, problem: Any) -> None:
        """Say at the field what is wrong with the file."""
        self.add_error("file", problem)
