"""What is said to the agent, and a session's title."""

from __future__ import annotations

import uuid
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from memory.chat.conversation import LONGEST_TITLE
from memory.forms.fields import CleanTextField


class MessageForm(forms.Form):
    """One message; its length is checked where it is stored.

    `key` is the id of the session that a first message begins, so that the form sent twice begins
    one; `seen` the last message that the page showed.
    """

    content = CleanTextField(
        label=_("Message"),
        required=False,
        widget=forms.Textarea(
            attrs={
                "rows": 3,
                "placeholder": _("Ask, or tell it something to remember"),
                "dir": "auto",
            }
        ),
    )
    key = forms.UUIDField(required=False, widget=forms.HiddenInput)
    seen = forms.IntegerField(required=False, min_value=-1, widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, initial: dict[str, Any] | None = None) -> None:
        super().__init__(data, initial={"key": uuid.uuid4(), **(initial or {})})


class TitleForm(forms.Form):
    """A session's title, on the version that was seen."""

    title = CleanTextField(
        label=_("Title"),
        required=False,
        widget=forms.TextInput(attrs={"maxlength": LONGEST_TITLE, "dir": "auto"}),
    )
    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)
