"""Reserving what a call of a model may cost at most, before it is made; settled when it is counted.

Data flow: `ask_model` -> `reserve` holds the owner's lock while the meter checks and the row is
made -> others' checks count the row -> the call is stored with what it spent, and the row goes.
So calls that begin at the same time cannot all pass a limit that only one of them may.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import structlog
from django.db import DatabaseError, transaction
from django.db.models import QuerySet

from beacon_site.providers.llm import Usage
from memory.advisory_locks import LockId, advisory_lock
from memory.models import CallReservation, ModelCall, Topic, User

logger = structlog.get_logger(__name__)


def reserve(
    call: ModelCall, most: Usage, money: Decimal | None, check: Callable[[], object]
) -> CallReservation:
    """Reserve `most` for a call that is about to be made, if `check` lets it.

    Raises what `check` raises; nothing is reserved then.  One after the other for each owner: the
    lock isn't the transaction's, which can stay open for as long as the model takes to answer.
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
    """Take a reservation back: its call stands among the calls now."""
    if row is None:
        return
    try:
        with transaction.atomic():
            CallReservation.objects.filter(pk=row.pk).delete()
    except DatabaseError:
        # It runs out by itself; what the call itself met is the error to tell of.
        logger.exception("reservation not settled", source=row.source)


def held_by(user: User, topic: Topic | None = None) -> QuerySet[Any]:
    """Return what the user's calls, or those of one topic, hold of budgets."""
    rows: QuerySet[Any] = CallReservation.objects.of(user).held()
    return rows if topic is None else rows.filter(topic=topic)
