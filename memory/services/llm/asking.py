"""Every model call goes through here: it redacts, checks the budget, counts and records the call.

Callers have their own fallback for the two cases without an answer: no model is configured (None is
returned), or the model failed (a ProviderError is raised).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import structlog
from pydantic import BaseModel

from beacon_site.net.errors import ProviderError, ProviderNonsense, ProviderUnavailable
from beacon_site.providers.llm.base import Answer, LlmProfile, Message, OnText, Tool, Usage
from beacon_site.providers.llm.openai_reply import estimate
from beacon_site.text.cleaning import clean
from beacon_site.text.messages import gettext as _
from beacon_site.text.redaction import redact
from memory.models import ModelCall, Topic, User
from memory.services.llm import booking, connections
from memory.services.llm.booking import Meter

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
        counted(answer.usage, _said(answer))
    return answer


def _called_a_tool(answer: Answer) -> ProviderNonsense:
    told = {"tool": clean(answer.tool_calls[0].name)[0][:80]}
    return ProviderNonsense(
        _("The model called the tool “%(tool)s”, but wasn’t given any tools.") % told,
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
        held = booking.reserve(call, most, price(most, profile), meter.check)
    try:
        with _recorded(call, profile, most, meter) as counted:
            yield counted
    finally:
        booking.settle(held)


@contextmanager
def _recorded(
    call: ModelCall, profile: LlmProfile, most: Usage, meter: Meter | None
) -> Iterator[Callable[[Usage, str], None]]:
    usage, key = most, profile.api_key
    call.error = _("cancelled because its caller was stopped")
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
        booking.note(call)
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


def _said(answer: Answer) -> str:
    """Return the model's text, followed by each tool call that it requests."""
    wanted = [
        f"→ {call.name} {json.dumps(call.arguments, ensure_ascii=False)}"
        for call in answer.tool_calls
    ]
    return "\n".join([answer.text, *wanted] if answer.text else wanted)


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
