"""Forms by which people write, correct and strike topic facts."""

from __future__ import annotations

import unicodedata
from urllib.parse import urlsplit

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.errors import InvalidValue
from memory.forms.fields import CleanTextField
from memory.models import TopicFact
from memory.models.library import ADDRESS

_NO_FACT = gettext_lazy("Write the fact itself: one whole sentence that can be checked.")


def _is_foreign(char: str) -> bool:
    """Whether the character stands in no address: white space, controls, invisible ones, quotes.

    The apostrophe may: many an encyclopaedia's address holds one.
    """
    return char in '"<>\\`“”' or unicodedata.category(char) in ("Cc", "Cf", "Zs", "Zl", "Zp")


class FactForm(forms.Form):
    """A new fact and where it stands."""

    text = CleanTextField(
        label=gettext_lazy("Fact"),
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=gettext_lazy("One whole statement that can be checked."),
        error_messages={"required": _NO_FACT},
    )
    url = CleanTextField(
        label=gettext_lazy("Source address"),
        required=False,
        max_length=2000,
        widget=forms.TextInput(attrs={"inputmode": "url", "spellcheck": "false"}),
    )

    def clean_text(self) -> str:
        """Return the text as it is stored.  Raises ValidationError if it is no whole statement."""
        try:
            return TopicFact.checked_text(self.cleaned_data["text"])
        except InvalidValue as exc:
            raise ValidationError(str(exc)) from exc

    def clean_url(self) -> str:
        """Return the address.  Raises ValidationError for what is none of web or library."""
        url: str = self.cleaned_data["url"]
        if not url or url == self.initial.get("url") or ADDRESS.fullmatch(url):
            return url
        try:
            parts = urlsplit(url)
            is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
            is_web = is_web and not any(_is_foreign(char) for char in url)
        except ValueError:
            is_web = False
        if not is_web:
            raise ValidationError(
                _(
                    "“%(url)s” is no web address. It begins with https:// or http:// and holds no "
                    "spaces, quotation marks or < >."
                )
                % {"url": url[:80]}
            )
        return url


class CorrectionForm(FactForm):
    """A fact corrected; `version` is the one that was seen."""

    text = CleanTextField(
        label=gettext_lazy("Fact"),
        widget=forms.Textarea(attrs={"rows": 3, "data-focus": ""}),
        help_text=gettext_lazy("One whole statement that can be checked."),
        error_messages={"required": _NO_FACT},
    )
    version = forms.IntegerField(widget=forms.HiddenInput, min_value=1)


class StrikeForm(forms.Form):
    """Why a fact is struck; it may be left out."""

    why = CleanTextField(
        label=gettext_lazy("Why is it wrong, or not wanted?"), required=False, max_length=300
    )
