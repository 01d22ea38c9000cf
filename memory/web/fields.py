"""Form fields: text without characters that can't be stored, and a day as people write it."""

from __future__ import annotations

from datetime import date
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.formats import date_format

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
