"""What an account may spend on model calls in a month, kept before each call."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import F, QuerySet, Sum, Value
from django.utils.translation import gettext as _

from beacon_site.llm.base import Usage
from memory.models import Topic, User
from memory.usage import booking, spending
from memory.usage.booking import BudgetReached


@dataclass(frozen=True, slots=True)
class MonthLimits:
    """What a month may cost; None is no limit."""

    tokens: int | None = None
    money: Decimal | None = None

    def __bool__(self) -> bool:
        return self.tokens is not None or self.money is not None


def limits_of(user: User) -> MonthLimits:
    """Return what the user's month may cost."""
    return MonthLimits(user.monthly_tokens, user.monthly_money)


def check_month(user: User) -> None:
    """Raise BudgetReached if the user's month has nothing left.

    Calls whose price is unknown count by their tokens alone; those that are under way count by
    the most that they can cost.
    """
    limits = limits_of(user)
    if not limits:
        return
    tokens, money = _used(user)
    if limits.tokens is not None and tokens >= limits.tokens:
        raise BudgetReached(
            _("this month’s limit of %(most)d tokens has been reached") % {"most": limits.tokens}
        )
    if limits.money is not None and money >= limits.money:
        raise BudgetReached(
            _("this month’s limit of $%(most)s has been reached") % {"most": limits.money}
        )


def check_topics_month(topic: Topic, limits: MonthLimits) -> None:
    """Raise BudgetReached if the topic's own month has nothing left, as check_month does."""
    if not limits:
        return
    tokens, money = _used(topic.owner, topic)
    if limits.tokens is not None and tokens >= limits.tokens:
        raise BudgetReached(
            _("this topic’s monthly limit of %(most)d tokens has been reached")
            % {"most": limits.tokens}
        )
    if limits.money is not None and money >= limits.money:
        raise BudgetReached(
            _("this topic’s monthly limit of $%(most)s has been reached") % {"most": limits.money}
        )


def _used(user: User, topic: Topic | None = None) -> tuple[int, Decimal]:
    """Return the tokens and money of the month: what is spent, and what is under way; one query."""
    spent = _sums(spending.calls_of_month(user, topic), F("prompt_tokens") + F("completion_tokens"))
    held = _sums(booking.held_by(user, topic), F("tokens"))
    rows = list(spent.union(held, all=True))
    return sum(row[0] or 0 for row in rows), sum((row[1] or Decimal(0) for row in rows), Decimal(0))


def _sums(rows: QuerySet[Any], tokens: Any) -> QuerySet[Any]:
    summed = rows.order_by().values(of=Value(1)).annotate(tokens=Sum(tokens), cost=Sum("money"))
    told: QuerySet[Any] = summed.values_list("tokens", "cost")
    return told


class MonthMeter:
    """The budget of calls that no run pays for: the owner's month.  The calls themselves count."""

    def __init__(self, user: User) -> None:
        self.user = user

    def check(self) -> None:
        """Raise BudgetReached if the month has nothing left."""
        check_month(self.user)

    def count(self, usage: Usage, money: Decimal | None) -> None:
        """Nothing to add: the month is counted from the calls, which ask_model stores."""
