"""Reserves the most that a model call can cost before it, and books the actual cost after it.

`reserve` takes the owner's lock while it checks the budget and adds a row that other checks count.
Calls that begin at the same time therefore can't all pass a limit with room for only one. The row
is deleted when the call is stored with its cost. If their transaction is rolled back, `kept_booked`
stores the calls again, because the money is spent anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

import structlog
from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import F, QuerySet, Sum, Value

from beacon_site.db.advisory_locks import LockId, advisory_lock
from beacon_site.providers.llm.base import Usage
from beacon_site.text.messages import gettext as _
from memory.models import CallReservation, ModelCall, Topic, User
from memory.services.llm import spending

# --- before the call ---------------------------------------------------------------------------

logger = structlog.get_logger(__name__)


def reserve(
    call: ModelCall, most: Usage, money: Decimal | None, check: Callable[[], object]
) -> CallReservation:
    """Reserve `most` for the next call, if `check` allows it.

    Raises what `check` raises; nothing is reserved then.  Reservations of an owner are serialized by
    a session lock: the transaction can stay open for as long as the model takes to answer.
    """
    with advisory_lock(LockId.SPENDING, str(call.owner_id), wait=True), transaction.atomic():
        check()
        return CallReservation.objects.create(
            owner_id=call.owner_id,
            topic_id=call.topic_id,
            source=call.source,
            tokens=most.total,
            money=money or Decimal(0),
        )


def settle(row: CallReservation | None) -> None:
    """Delete a reservation, since its call is stored now."""
    if row is None:
        return
    try:
        with transaction.atomic():
            CallReservation.objects.filter(pk=row.pk).delete()
    except DatabaseError:
        # The reservation expires by itself, and the call's own error matters more.
        logger.exception("reservation not settled", source=row.source)


def held_by(user: User, topic: Topic | None = None) -> QuerySet[Any]:
    """Return what is reserved for the user's calls, or for those of one topic."""
    rows: QuerySet[Any] = CallReservation.objects.of(user).held()
    return rows if topic is None else rows.filter(topic=topic)


# --- after the call ----------------------------------------------------------------------------

_noted: ContextVar[list[ModelCall] | None] = ContextVar("calls_made", default=None)


@contextmanager
def kept_booked() -> Iterator[None]:
    """Keep the block's model calls even if its transaction is rolled back.

    Use it around the transaction.
    """
    made: list[ModelCall] = []
    before = _noted.set(made)
    try:
        yield
    except BaseException:
        if made:
            _book(made)
        raise
    finally:
        _noted.reset(before)


def note(call: ModelCall) -> None:
    """Remember a call that was just stored."""
    made = _noted.get()
    if made is not None:
        made.append(call)


def _book(made: list[ModelCall]) -> None:
    """Store the calls that were rolled back, without hiding the error that caused it."""
    try:
        topics = {call.topic_id for call in made if call.topic_id is not None}
        there = set(Topic.objects.filter(pk__in=topics).values_list("pk", flat=True))
        for call in made:
            if (
                call.topic_id not in there
            ):  # the topic may have been created in the same transaction
                call.topic = None
        ModelCall.objects.bulk_create(made, ignore_conflicts=True)
    except (DatabaseError, InterfaceError):
        spent = sum(call.prompt_tokens + call.completion_tokens for call in made)
        logger.exception("model calls not recorded", calls=len(made), tokens=spent)


# --- meters ---


class BudgetReached(Exception):
    """The run or the month has no budget left; the message says which limit, and how much."""


class Meter(Protocol):
    """Pays for calls: checks the budget before each one and counts it afterwards."""

    def check(self) -> None:
        """Raise BudgetReached if there is no budget left."""
        ...

    def count(self, usage: Usage, money: Decimal | None) -> None:
        """Add the cost of a call; None means that the price is unknown."""
        ...


# --- Enforces an account's monthly spending limits before each model call ---


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
    held = _sums(held_by(user, topic), F("tokens"))
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
