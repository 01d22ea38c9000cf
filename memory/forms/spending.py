"""The form for what a person's month may spend."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from django import forms
from django.utils.translation import gettext_lazy

from memory.models import User

if TYPE_CHECKING:
    _OfUser = forms.ModelForm[User]
else:
    _OfUser = forms.ModelForm

MOST_TOKENS = 2_000_000_000  # what the column holds
_NEGATIVE = gettext_lazy(
    "A limit cannot be negative. 0 lets no call be made; empty means that there is no limit."
)


class LimitsForm(_OfUser):
    """A person's own limits of tokens and money for each month."""

    monthly_tokens = forms.IntegerField(
        label=gettext_lazy("Tokens a month"),
        required=False,
        min_value=0,
        max_value=MOST_TOKENS,
        help_text=gettext_lazy("Asked and answered together. Empty: no limit."),
        error_messages={
            "invalid": gettext_lazy("Enter a whole number of tokens, such as 2000000."),
            "min_value": _NEGATIVE,
        },
    )
    monthly_money = forms.DecimalField(
        label=gettext_lazy("Dollars a month"),
        required=False,
        min_value=Decimal(0),
        max_digits=10,
        decimal_places=2,
        help_text=gettext_lazy(
            "By the prices that staff entered for the model. Calls whose price is unknown count "
            "nothing here. Empty: no limit."
        ),
        error_messages={
            "invalid": gettext_lazy("Enter an amount in dollars, such as 12.50."),
            "min_value": _NEGATIVE,
        },
    )

    class Meta:
        model = User
        fields = ("monthly_tokens", "monthly_money")
