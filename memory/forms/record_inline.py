"""The form in a list's row: what a record says, its tags, and the version that was seen."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from memory.forms.fields import CleanTextField
from memory.forms.records import NOTHING
from memory.models.notes import LONGEST_TAG, MOST_TAGS

LONGEST = 200_000  # characters that are read at all; the record's own limit is told by its rules


class InlineForm(forms.Form):
    """Text and tags of one record; its own rules check them."""

    content = CleanTextField(
        label=_("Text"),
        max_length=LONGEST,
        strip=False,
        error_messages={"required": NOTHING},
        widget=forms.Textarea(attrs={"rows": 4, "dir": "auto", "data-focus": ""}),
    )
    tags = CleanTextField(
        label=_("Tags"),
        required=False,
        max_length=(LONGEST_TAG + 2) * MOST_TAGS * 2,
        help_text=_("Separated by commas."),
    )
    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
