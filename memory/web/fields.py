"""A text field without characters that can't be stored, and the names of the fields it changed."""

from __future__ import annotations

from typing import Any

from django import forms

from beacon_site.text.cleaning import clean


class CleanTextField(forms.CharField):
    """Text without characters that can't be stored (NUL); `cleaned_of` lists where any were removed."""

    def to_python(self, value: Any) -> Any:
        """Return the text cleaned and stripped."""
        return super().to_python(clean(value)[0] if isinstance(value, str) else value)


def cleaned_of(form: forms.BaseForm) -> list[str]:
    """Return the labels of the fields from which characters were removed."""
    return [
        str(field.label)
        for name, field in form.fields.items()
        if isinstance(field, CleanTextField) and clean(str(form.data.get(name, "")))[1]
    ]
