"""The form in which a person gives a topic's runs a standing rule."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from memory.errors import InvalidValue
from memory.forms.fields import CleanTextField
from research.topic_settings import standing_rules
from research.topic_settings.standing_rules import CHECK, STOP, Kind

# Its label, its help, and what is said of an empty one.
_WORDS: dict[Kind, tuple[Promise, Promise, Promise]] = {
    CHECK: (
        gettext_lazy("Words to search for, or an address"),
        gettext_lazy("Every run asks it or reads it, whatever else it plans."),
        gettext_lazy("Type words to search for, or the address of a page to read."),
    ),
    STOP: (
        gettext_lazy("A domain, or the address of one page"),
        gettext_lazy("Such as example.org; what lies below a domain is left out too."),
        gettext_lazy("Type a domain such as example.org, or the address of one page."),
    ),
}


class RuleForm(forms.Form):
    """One line: what is always checked, or where nobody looks any more."""

    rule = CleanTextField(widget=forms.TextInput(attrs={"autocomplete": "off", "dir": "auto"}))

    def __init__(self, kind: Kind, data: Any = None) -> None:
        super().__init__(data, auto_id=f"{kind}-%s")
        self.kind = kind
        field = self.fields["rule"]
        label, help_text, missing = _WORDS[kind]
        field.label, field.help_text = str(label), str(help_text)
        field.error_messages["required"] = str(missing)

    def clean_rule(self) -> str:
        """Return the rule as it is kept.  Raises ValidationError."""
        take = standing_rules.check_from if self.kind == CHECK else standing_rules.place_from
        try:
            return take(self.cleaned_data["rule"])
        except InvalidValue as exc:
            raise ValidationError(str(exc)) from exc
