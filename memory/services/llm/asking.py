"""Every model call goes through here: it redacts, checks the budget, counts and records the call.

Callers have their own fallback for the two cases without an answer: no model is configured (None is
returned), or the model failed (a ProviderError is raised).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Protocol

import structlog
from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import F, QuerySet, Sum, Value
from pydantic import BaseModel

from beacon_site.db.advisory_locks import LockId, advisory_lock
from beacon_site.net.errors import ProviderError, ProviderNonsense, ProviderUnavailable
from beacon_site.providers.llm.base import Answer, LlmProfile, Message, OnText, Tool, Usage
from beacon_site.providers.llm.openai_reply import estimate
from beacon_site.text.cleaning import clean
from beacon_site.text.messages import gettext as _
from beacon_site.text.redaction import redact
from memory.models import CallReservation, ModelCall, Topic, User
from memory.services.llm import connections, spending

logger = structlog.get_logger(__name__)

_STORED_ANSWER = 200_000  # characters of an answer that are stored with the call


def ask_model(
    purpose: str,
    messages: Sequence[Message],
    *,
    owner: User,
    source: str,
    topic: Topic | None = None,
    schema: type[BaseModel] | None = None,
    max_tokens: int = 2048,
    meter: Meter | None = None,
    wait_for: Callable[[Callable[[], Answer]], Answer] | None = None,
    on_text: OnText | None = None,
    tools: Sequence[Tool] = (),
) -> Answer | None:
    """Ask the model for this topic and purpose; None if there isn't one, or if `topic` is sensitive.

    `purpose` is one word (`plan`, `write`); `source` is the run or session that asks. `wait_for`
    runs the call, so that its caller can do other things in the meantime. `on_text` gets the whole
    text so far as it arrives, in the thread that runs the call; an exception from it ends the call.
    The model can call `tools`; the calls that it requests are in the answer (`tool_loop` runs
    them).

    Raises BudgetReached before the call, and ProviderUnavailable, ProviderRejected or, with a
    `schema`, ProviderNonsense after it. The call is recorded in each case.
    """
    model = connections.model_for(topic, purpose, owner=owner)
    if model is None:
        return None
    secrets = (model.profile.api_key, *connections.secrets_in_use())
    safe = [_without_secrets(message, secrets) for message in messages]
    call = ModelCall(
        owner=owner,
        topic=topic,
        purpose=purpose,
        source=source,
        model=model.profile.model,
        prompt=[_as_stored(message) for message in safe],
    )

    def ask() -> Answer:
        shown = _redacted(on_text, secrets) if on_text else None
        answer = model.ask(safe, max_tokens=max_tokens, schema=schema, on_text=shown, tools=tools)
        if schema is not None and answer.parsed is None and answer.tool_calls:
            raise _called_a_tool(answer)
        return answer

    # An abandoned call still costs money, so the most that it can cost is counted.
    most = Usage(estimate(safe, "").prompt_tokens, max_tokens)
    with paid(call, model.profile, most, meter) as counted:
        answer = wait_for(ask) if wait_for else ask()
        counted(answer.usage, _answer_text(answer))
    return answer


def _called_a_tool(answer: Answer) -> ProviderNonsense:
    params = {"tool": clean(answer.tool_calls[0].name)[0][:80]}
    return ProviderNonsense(
        _("The model called the tool “%(tool)s”, but wasn’t given any tools.") % params,
        text=answer.text,
        prompt_tokens=answer.usage.prompt_tokens,
        completion_tokens=answer.usage.completion_tokens,
    )


@contextmanager
def paid(
    call: ModelCall, profile: LlmProfile, most: Usage, meter: Meter | None
) -> Iterator[Callable[[Usage, str], None]]:
    """Pay for the call that is made in the block: reserve the most it can cost, and record it.

    The block passes its usage and answer to the function that it gets; until then, the call counts
    as `most`.  It is recorded in any case, as abandoned if something other than the model ends the
    block.  Raises BudgetReached if the meter doesn't allow the call.
    """
    held = None
    if meter is not None:
        held = reserve(call, most, price(most, profile), meter.check)
    try:
        with _recorded(call, profile, most, meter) as counted:
            yield counted
    finally:
        settle(held)


@contextmanager
def _recorded(
    call: ModelCall, profile: LlmProfile, most: Usage, meter: Meter | None
) -> Iterator[Callable[[Usage, str], None]]:
    usage, key = most, profile.api_key
    call.error = _("cancelled because the task that made the call was stopped")
    call.failure = ModelCall.Failure.LEFT
    began = time.monotonic()

    def counted(spent: Usage, answer: str) -> None:
        nonlocal usage
        usage, call.answer = spent, _storable(answer, key)

    try:
        yield counted
        call.error = call.failure = ""
    except ProviderError as exc:
        usage = Usage(exc.prompt_tokens, exc.completion_tokens)
        if isinstance(exc, ProviderNonsense):
            call.answer = _storable(exc.text, key)
        call.error, call.failure = _storable(str(exc), key), failure_of(exc)
        raise
    finally:
        call.milliseconds = round((time.monotonic() - began) * 1000)
        call.prompt_tokens, call.completion_tokens = usage.prompt_tokens, usage.completion_tokens
        call.money = price(usage, profile)
        call.save(force_insert=True)
        note(call)
        if meter is not None:
            meter.count(usage, call.money)
        logger.info(
            "model answered" if not call.error else "model failed",
            purpose=call.purpose,
            source=call.source,
            model=call.model,
            ms=call.milliseconds,
            tokens=usage.total,
        )


def _without_secrets(message: Message, secrets: Sequence[str]) -> Message:
    calls = tuple(
        replace(call, arguments=redacted_value(call.arguments, secrets))
        for call in message.tool_calls
    )
    return replace(message, content=redact(message.content, *secrets), tool_calls=calls)


def redacted_value(value: Any, secrets: Sequence[str]) -> Any:
    """Return a JSON value without these secrets."""
    if isinstance(value, str):
        return redact(value, *secrets)
    if isinstance(value, dict):
        return {key: redacted_value(one, secrets) for key, one in value.items()}
    if isinstance(value, list):
        return [redacted_value(one, secrets) for one in value]
    return value


def _as_stored(message: Message) -> dict[str, Any]:
    """Return a message in the form that is stored with the call, including tool calls."""
    stored: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        stored["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        stored["tool_call_id"] = message.tool_call_id
    return stored


def _answer_text(answer: Answer) -> str:
    """Return the model's text, followed by each tool call that it requests."""
    parts = [
        f"→ {call.name} {json.dumps(call.arguments, ensure_ascii=False)}"
        for call in answer.tool_calls
    ]
    return "\n".join([answer.text, *parts] if answer.text else parts)


def failure_of(exc: ProviderError) -> ModelCall.Failure:
    if isinstance(exc, ProviderNonsense):
        return ModelCall.Failure.NONSENSE
    if isinstance(exc, ProviderUnavailable):
        return ModelCall.Failure.UNAVAILABLE
    return ModelCall.Failure.REJECTED


def _redacted(on_text: OnText, secrets: Sequence[str]) -> OnText:
    return lambda text: on_text(redact(text, *secrets))


def _storable(text: str, key: str) -> str:
    return redact(clean(text)[0][:_STORED_ANSWER], key)


def price(usage: Usage, profile: LlmProfile) -> Decimal | None:
    """Return a call's cost by the profile's prices per million tokens.

    None if it is unknown because a price is missing or invalid (negative). A call without tokens
    costs nothing.
    """
    if not usage.total:
        return Decimal(0)
    price_in, price_out = profile.price_in, profile.price_out
    if price_in is None or price_out is None or price_in < 0 or price_out < 0:
        return None
    cost = usage.prompt_tokens * price_in + usage.completion_tokens * price_out
    return Decimal(cost) / 1_000_000


# --- reserving and booking the cost ---
# `reserve` takes the owner's lock while it checks the budget and adds a row that other checks count.
# Calls that begin at the same time therefore can't all pass a limit with room for only one. The row
# is deleted when the call is stored with its cost. If their transaction is rolled back, `kept_booked`
# stores the calls again, because the money is spent anyway.


# --- before the call ---------------------------------------------------------------------------


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
    rows: QuerySet[Any] = CallReservation.objects.for_user(user).held()
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
    calls = _noted.get()
    if calls is not None:
        calls.append(call)


def _book(calls: list[ModelCall]) -> None:
    """Store the calls that were rolled back, without hiding the error that caused it."""
    try:
        topics = {call.topic_id for call in calls if call.topic_id is not None}
        there = set(Topic.objects.filter(pk__in=topics).values_list("pk", flat=True))
        for call in calls:
            if (
                call.topic_id not in there
            ):  # the topic may have been created in the same transaction
                call.topic = None
        ModelCall.objects.bulk_create(calls, ignore_conflicts=True)
    except (DatabaseError, InterfaceError):
        spent = sum(call.prompt_tokens + call.completion_tokens for call in calls)
        logger.exception("model calls not recorded", calls=len(calls), tokens=spent)


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
    if limits := limits_of(user):
        of_tokens = _("the monthly limit of %(most)d tokens has been reached")
        of_money = _("the monthly limit of $%(most)s has been reached")
        _check_limits(limits, _used(user), of_tokens, of_money)


def check_topics_month(topic: Topic, limits: MonthLimits) -> None:
    """Raise BudgetReached if the topic's own monthly budget is used up, as check_month does."""
    if limits:
        of_tokens = _("this topic’s monthly limit of %(most)d tokens has been reached")
        of_money = _("this topic’s monthly limit of $%(most)s has been reached")
        _check_limits(limits, _used(topic.owner, topic), of_tokens, of_money)


def _check_limits(
    limits: MonthLimits, used: tuple[int, Decimal], of_tokens: str, of_money: str
) -> None:
    tokens, money = used
    if limits.tokens is not None and tokens >= limits.tokens:
        raise BudgetReached(of_tokens % {"most": limits.tokens})
    if limits.money is not None and money >= limits.money:
        raise BudgetReached(of_money % {"most": limits.money})


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
