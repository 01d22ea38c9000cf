"""The form for how agents' writes are reviewed."""

from __future__ import annotations

from collections.abc import Mapping

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from memory.models import ReviewLevel
from memory.reviewing.levels import DEFAULT, KINDS

USUAL = "usual"  # a kind's own level is not set: it goes by the default
LABELS = {
    "accept": _lazy("Accept"),
    "hold risky": _lazy("Hold risky"),
    "hold all": _lazy("Hold all"),
}


class LevelsForm(forms.Form):
    """A level for each kind of write; a kind may go by the default."""

    def __init__(self, *args: object, own: Mapping[str, str], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        levels = [(level, LABELS[level]) for level in ReviewLevel.Level.values]
        usual = own.get(DEFAULT, ReviewLevel.Level.HOLD_RISKY.value)
        self.fields[DEFAULT] = forms.ChoiceField(
            label=_("By default"),
            choices=levels,
            initial=usual,
            help_text=_("For every kind below that says “as by default”."),
        )
        for kind, words in KINDS.items():
            self.fields[kind] = forms.ChoiceField(
                label=words,
                choices=[(USUAL, _("As by default")), *levels],
                initial=own.get(kind, USUAL),
            )

    @property
    def wanted(self) -> dict[str, str]:
        """Return the levels that were chosen, by kind; "" for one that goes by the default."""
        return {kind: self.cleaned_data[kind].replace(USUAL, "") for kind in self.fields}
