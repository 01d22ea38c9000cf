"""The fields of a topic's form that say what its owner wants to be told."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.forms.fields import CleanTextField
from research.forms.fields import LinesField
from research.intent.telling import MOST_ALSO

LONGEST_INTENT = 10_000


class IntentField(CleanTextField):
    """A wish in the owner's words.

    The limit is said and not set on the control: a browser would cut off what is pasted.
    """

    def to_python(self, value: Any) -> Any:
        """Return the text with plain line ends.  Raises ValidationError beyond the limit."""
        text = str(super().to_python(value) or "").replace("\r\n", "\n")
        if len(text) > LONGEST_INTENT:
            raise ValidationError(
                _(
                    "An intent has at most %(most)s characters, and this one %(have)s. Your words "
                    "still stand in the field: shorten them, and save again."
                )
                % {"most": f"{LONGEST_INTENT:,}", "have": f"{len(text):,}"}
            )
        return text


class AlsoField(LinesField):
    """Sentences of which a person said: tell me such things; one a line."""

    def to_python(self, value: Any) -> Any:
        """Return the sentences.  Raises ValidationError where there are too many."""
        lines = super().to_python(value)
        if len(lines) > MOST_ALSO:
            raise ValidationError(
                _("At most %(most)d lines; these are %(have)d.")
                % {"most": MOST_ALSO, "have": len(lines)}
            )
        return lines

    def entry(self, line: str) -> str:
        """Return the sentence.  Raises ValidationError if it is too long."""
        if len(line) > self.longest:
            told = {"most": self.longest, "have": len(line), "line": line[:80]}
            words = _("“%(line)s…” has %(have)d characters; a line may have %(most)d.")
            raise ValidationError(words % told)
        return line


class IntentFields(forms.Form):
    """What is told of a run's changes; all of it is remembered in any case."""

    intent = IntentField(
        label=gettext_lazy("Tell me only if"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "dir": "auto"}),
        help_text=gettext_lazy(
            "For example: only prices, or a new entrant. What you did not ask for is remembered, and "
            "stands folded in the report with the reason. Empty: everything is told."
        ),
    )
    tell_also = AlsoField(
        label=gettext_lazy("Tell me such things too"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "dir": "auto"}),
        help_text=gettext_lazy("Sentences that were withheld and that you wanted; one a line."),
    )
