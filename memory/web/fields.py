"""Checks of typed text: days, characters that can't be stored, and keys and passwords."""

from __future__ import annotations

from datetime import date
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.text import get_text_list
from django.utils.translation import gettext as _

from beacon_site.text import secret_scanner
from beacon_site.text.cleaning import clean
from beacon_site.text.dates import day_typed


class CleanTextField(forms.CharField):
    """Text without characters that can't be stored (NUL); `cleaned_of` lists where any were removed."""

    def to_python(self, value: Any) -> Any:
        """Return the text cleaned and stripped."""
        return super().to_python(clean(value)[0] if isinstance(value, str) else value)


class DayField(forms.DateField):
    """A day, written as pages show it: `23 Nov 2026`. What `day_typed()` reads is accepted."""

    widget = forms.TextInput

    def prepare_value(self, value: Any) -> Any:
        """Return the day as text."""
        return date_format(value, "j M Y") if isinstance(value, date) else value

    def to_python(self, value: Any) -> date | None:
        """Return the day that was typed."""
        if isinstance(value, str) and (day := day_typed(value, timezone.localdate())):
            return day
        return super().to_python(value)

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        """Return the example of the format."""
        today = date_format(timezone.localdate(), "j M Y")
        return super().widget_attrs(widget) | {"placeholder": today, "autocomplete": "off"}


def cleaned_of(form: forms.BaseForm) -> list[str]:
    """Return the labels of the fields from which characters were removed."""
    return [
        str(field.label)
        for name, field in form.fields.items()
        if isinstance(field, CleanTextField) and clean(str(form.data.get(name, "")))[1]
    ]


KEEP_SECRETS = "keep_secrets"


class AsksAboutSecrets(forms.Form):
    """A form that asks before it saves a key or a password.

    The error has a checkbox to save the text anyway. A secret that the stored text already has
    isn't asked about again; that text is the field's initial value, or comes from `stored_text`.
    """

    def stored_text(self) -> str:
        return " ".join(str(value) for value in self.initial.values())

    def full_clean(self) -> None:
        super().full_clean()
        if self.is_bound and not self.data.get(self.add_prefix(KEEP_SECRETS)):
            self._ask_about_secrets()

    def _ask_about_secrets(self) -> None:
        typed = {
            name: value
            for name, value in self.cleaned_data.items()
            if isinstance(value, str) and not self.fields[name].widget.is_hidden
        }
        for name, value in typed.items():
            found = secret_scanner.find(value)
            if not found:
                continue
            known = self.stored_text()
            new = [one for one in found if value[one.start : one.end] not in known]
            if new:
                self.add_error(name, self._question(list(dict.fromkeys(one.kind for one in new))))

    def _question(self, kinds: list[str]) -> str:
        told = _(
            "This text seems to contain a secret: %(kinds)s. Agents can read what you save, and models can receive it. Remove the secret, or select:"
        ) % {"kinds": get_text_list(kinds, _("and"))}
        return format_html(
            '{} <label class="keep-secrets"><input type="checkbox" name="{}" value="1"> {}</label>',
            told,
            self.add_prefix(KEEP_SECRETS),
            _("Save it anyway"),
        )
