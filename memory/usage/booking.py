"""Calls of a model stay booked where the transaction in which they were made is rolled back.

What was spent is spent: budgets and the accounts are counted from these rows.  Data flow:
`kept_booked` round a transaction -> `ask_model` notes each call that it stores -> the transaction
fails -> the calls are stored once more, outside of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import structlog
from django.db import DatabaseError, InterfaceError

from memory.models import ModelCall, Topic

logger = structlog.get_logger(__name__)

_noted: ContextVar[list[ModelCall] | None] = ContextVar("calls_made", default=None)


@contextmanager
def kept_booked() -> Iterator[None]:
    """Keep the calls that are made inside, whatever is raised; to be put round a transaction."""
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
    """Take note of a call that was stored just now."""
    made = _noted.get()
    if made is not None:
        made.append(call)


def _book(made: list[ModelCall]) -> None:
    """Store the calls that are not there; what they were made for fails with its own reason."""
    try:
        topics = {call.topic_id for call in made if call.topic_id is not None}
        there = set(Topic.objects.filter(pk__in=topics).values_list("pk", flat=True))
        for call in made:
            if call.topic_id not in there:  # it may have been made in the same transaction
                call.topic = None
        ModelCall.objects.bulk_create(made, ignore_conflicts=True)
    except (DatabaseError, InterfaceError):
        spent = sum(call.prompt_tokens + call.completion_tokens for call in made)
        logger.exception("calls of a model are not booked", calls=len(made), tokens=spent)
