"""Enforces an account's monthly spending limits before each model call."""

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
    """Monthly limits; None means no limit."""

    tokens: int | None = None
    money: Decimal | None = None

    def __bool__(self) -> bool:
        return self.tokens is not None or self.money is not None


def limits_of(user: User) -> MonthLimits:
    return MonthLimits(user.monthly_tokens, user.monthly_money)


def check_month(user: User) -> None:
    """Raise BudgetReached if the user's month has nothing left.

    Calls with an unknown price count only by their tokens. Calls in progress count with the most
    that they can cost.
    """
    limits = limits_of(user)
    if not limits:
        return
    tokens, money = _used(user)
    if limits.tokens is not None and tokens >= limits.tokens:
        raise BudgetReached(
            _("the monthly limit of %(most)d tokens has been reached") % {"most": limits.tokens}
        )
    if limits.money is not None and money >= limits.money:
        raise BudgetReached(
            _("the monthly limit of $%(most)s has been reached") % {"most": limits.money}
        )


def check_topics_month(topic: Topic, limits: MonthLimits) -> None:
    """Raise BudgetReached if the topic's own monthly budget is used up, as check_month does."""
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
    """Return the month's tokens and money, spent and reserved, with one query."""
    spent = _sums(spending.calls_of_month(user, topic), F("prompt_tokens") + F("completion_tokens"))
    held = _sums(booking.held_by(user, topic), F("tokens"))
    rows = list(spent.union(held, all=True))
    return sum(row[0] or 0 for row in rows), sum((row[1] or Decimal(0) for row in rows), Decimal(0))


def _sums(rows: QuerySet[Any], tokens: Any) -> QuerySet[Any]:
    summed = rows.order_by().values(of=Value(1)).annotate(tokens=Sum(tokens), cost=Sum("money"))
    told: QuerySet[Any] = summed.values_list("tokens", "cost")
    return told


class MonthMeter:
    """The budget for calls outside runs: the owner's month, summed from the stored calls."""

    def __init__(self, user: User) -> None:
        self.user = user

    def check(self) -> None:
        check_month(self.user)

    def count(self, usage: Usage, money: Decimal | None) -> None:
        """Do nothing: the month is counted from the calls that ask_model stores."""
