"""What is wrong with a sentence of a report, what is right, and which facts that changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from memory.errors import InvalidValue
from memory.forms.fields import CleanTextField
from memory.models import TopicFact
from research.facts.correcting import MOST_WORDS, FactSeen


class SentenceForm(forms.Form):
    """A correction of one sentence; `facts` are those that came from it, each with its version."""

    wrong = CleanTextField(
        label=_("What is wrong?"),
        max_length=MOST_WORDS,
        error_messages={
            "required": _("Say what is wrong with the sentence: it is told to later runs.")
        },
        widget=forms.Textarea(attrs={"rows": 3, "data-focus": ""}),
        help_text=_("Later runs of this topic are told it, when they plan and when they write."),
    )
    right = CleanTextField(
        label=_("What is right?"),
        required=False,
        max_length=MOST_WORDS,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_(
            "May be left out. It then stands in the place of the first fact ticked below; without it "
            "those facts are struck."
        ),
    )

    def __init__(self, *args: Any, facts: Sequence[TopicFact], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.facts = facts

    def rows(self) -> list[tuple[TopicFact, bool]]:
        """Return the facts, each with whether it is ticked."""
        chosen = set(self._chosen()) if self.is_bound else None
        return [(fact, chosen is None or self._value(fact) in chosen) for fact in self.facts]

    def _chosen(self) -> list[str]:
        return self.data.getlist("fact") if isinstance(self.data, QueryDict) else []

    @staticmethod
    def _value(fact: TopicFact) -> str:
        return f"{fact.pk}:{fact.version}"

    def seen(self) -> list[FactSeen]:
        """Return the ticked facts, each with the version that was seen; others' are left out."""
        versions = {}
        for value in self._chosen():
            key, _colon, version = value.partition(":")
            if version.isascii() and version.isdecimal() and len(version) < 10:
                versions[key] = int(version)
        facts = [fact for fact in self.facts if str(fact.pk) in versions]
        return [FactSeen(fact, versions[str(fact.pk)]) for fact in facts]

    def take(self, exc: InvalidValue) -> None:
        """Show what was refused at the fields that it names."""
        for name, problems in exc.errors.items():
            field = {"text": "right", "url": "right"}.get(name, name)
            self.add_error(field if field in self.fields else None, problems)
        if not exc.errors:
            self.add_error(None, str(exc))
