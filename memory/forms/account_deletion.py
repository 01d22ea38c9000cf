"""The form that deletes an account."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.models import User


class AccountDeletionForm(forms.Form):
    """The account's username, and the password of whoever deletes it."""

    name = forms.CharField(
        label=gettext_lazy("Your username"),
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    password = forms.CharField(
        label=gettext_lazy("Your password"),
        max_length=4096,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )

    def __init__(self, *args: Any, person: User | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if person is not None:
            self.fields["name"].label = _("Their username")
