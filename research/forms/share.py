"""The form of a link that lets somebody read a report: for how long, and for whom."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from memory.errors import InvalidValue
from memory.forms.fields import CleanTextField
from research.models.shares import MOST_NOTE

_TIMES = (
    (1, _("one day")),
    (7, _("a week")),
    (30, _("30 days")),
    (90, _("90 days")),
    (365, _("a year")),
)


class ShareForm(forms.Form):
    """How long the link works, and a word for the owner's own list."""

    days = forms.TypedChoiceField(label=_("Works for"), choices=_TIMES, coerce=int, initial=30)
    note = CleanTextField(
        label=_("For whom"),
        required=False,
        max_length=MOST_NOTE,
        help_text=_("Only for your own list; it does not stand on the page that is read."),
    )

    def take(self, exc: InvalidValue) -> None:
        """Show what was refused at the fields that it names."""
        if not exc.errors:
            self.add_error(None, str(exc))
        for name, problems in exc.errors.items():
            self.add_error(name, problems)
