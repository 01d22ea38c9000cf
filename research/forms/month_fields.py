"""The parts of a topic's form that say what a month may cost, and how long facts stay fresh."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from research.forms.fields import UsualChoiceField
from research.models import TopicSettings

MOST_TOKENS = 2_000_000_000  # what the column holds, in round figures
LONGEST_DAYS = 3650


class MonthFields(forms.Form):
    """Limits of a topic's month, and its staleness."""

    month_tokens = forms.IntegerField(
        label=gettext_lazy("Tokens a month"),
        required=False,
        min_value=0,
        max_value=MOST_TOKENS,
        widget=forms.NumberInput(attrs={"inputmode": "numeric"}),
        help_text=gettext_lazy("All runs of this topic together. Empty: no limit."),
    )
    month_money = forms.DecimalField(
        label=gettext_lazy("Dollars a month"),
        required=False,
        min_value=0,
        max_digits=10,
        decimal_places=2,
        widget=forms.NumberInput(attrs={"inputmode": "decimal", "step": "0.01"}),
        help_text=gettext_lazy("Cannot be kept for a model whose price is not known."),
    )
    over_limit = UsualChoiceField(
        label=gettext_lazy("A scheduled run that would not fit"),
        choices=TopicSettings.OverLimit,
        usual=TopicSettings.OverLimit.SKIP,
        widget=forms.RadioSelect,
    )
    stale_days = forms.IntegerField(
        label=gettext_lazy("Facts are stale after so many days"),
        required=False,
        min_value=1,
        max_value=LONGEST_DAYS,
        widget=forms.NumberInput(attrs={"inputmode": "numeric"}),
        help_text=gettext_lazy(
            "Without a check. Empty: 30 days, or three times the gap between two runs if that is "
            "longer."
        ),
    )
    recheck = forms.BooleanField(
        label=gettext_lazy("Recheck stale facts each month"),
        required=False,
        help_text=gettext_lazy(
            "On the first of the month their sources are read again, without a model and without "
            "a plan."
        ),
    )

    def _is_set(self, *names: str) -> bool:
        raise NotImplementedError

    @property
    def freshness_is_set(self) -> bool:
        """Whether anything of “how fresh facts stay” was chosen, or is wrong."""
        return self._is_set("stale_days", "recheck")


MONTH_LIMITS: tuple[Any, ...] = ("month_tokens", "month_money", "over_limit")
