"""What an account may spend on model calls in a month, kept before each call."""

from __future__ import annotations

from decimal import Decimal

from django.utils.translation import gettext as _

from beacon_site.providers.llm import Usage
from memory import spending
from memory.asking import BudgetReached
from memory.models import User


def check_month(user: User) -> None:
    """Raise BudgetReached if the user's month has nothing left.

    Calls whose price is unknown count by their tokens alone.
    """
    if user.monthly_tokens is None and user.monthly_money is None:
        return
    spent = spending.spent_this_month(user)
    if user.monthly_tokens is not None and spent.tokens >= user.monthly_tokens:
        raise BudgetReached(
            _("this month's budget of %(most)d tokens is used up") % {"most": user.monthly_tokens}
        )
    if user.monthly_money is not None and spent.money >= user.monthly_money:
        raise BudgetReached(
            _("this month's budget of $%(most)s is used up") % {"most": user.monthly_money}
        )


class MonthMeter:
    """The budget of calls that no run pays for: the owner's month.  The calls themselves count."""

    def __init__(self, user: User) -> None:
        self.user = user

    def check(self) -> None:
        """Raise BudgetReached if the month has nothing left."""
        check_month(self.user)

    def count(self, usage: Usage, money: Decimal | None) -> None:
        """Nothing to add: the month is counted from the calls, which ask_model stores."""
