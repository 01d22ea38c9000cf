"""Forms of the scratchpad: a value under its key."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from memory.forms.fields import CleanTextField
from memory.models.scratchpad import MOST_KEY


class EntryForm(forms.Form):
    """A key with its value, in a scope; what may be stored is checked where it is stored."""

    key = CleanTextField(
        label=_("Key"),
        error_messages={"required": _("Give the value a key to find it by, such as plan/next.")},
        help_text=_(
            "One line of at most 200 characters. Parts divided by / : or . make groups, "
            "such as plan/next."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    value = CleanTextField(
        label=_("Value"),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false", "class": "mono"}),
        help_text=_("Text or JSON, at most 64 KiB."),
    )
    scope = forms.CharField(
        label=_("Scope"),
        initial="owner",
        error_messages={"required": _("Name a scope; owner is the usual one.")},
        help_text=_("owner for all of your sessions and agents, or session:, run:, agent: …"),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )


class EditEntryForm(forms.Form):
    """The same entry's key and value, on the version that was seen."""

    key = EntryForm.base_fields["key"]
    value = EntryForm.base_fields["value"]
    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["key"].widget.attrs["maxlength"] = MOST_KEY * 2
