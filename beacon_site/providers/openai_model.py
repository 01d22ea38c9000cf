"""LanguageModel over any endpoint that speaks OpenAI's chat completions.

Structured output goes down a ladder, json_schema -> json_object -> words in the prompt, as far as
the endpoint needs; pydantic always validates, and one repair round may follow.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import structlog
from django.utils.translation import gettext as _
from pydantic import BaseModel

from beacon_site.providers.errors import ProviderError, ProviderNonsense
from beacon_site.providers.llm import JSON_MODES, Answer, LlmProfile, Message, Usage
from beacon_site.providers.openai_reply import (
    CallFailed,
    ChatReply,
    estimate,
    read_reply,
    wire_message,
)
from beacon_site.providers.structured import (
    NotAsAsked,
    instruction,
    is_strict,
    parse_answer,
    strict_schema,
    without_thoughts,
)

if TYPE_CHECKING:
    from beacon_site.providers.openai_wire import ChatWire

logger = structlog.get_logger(__name__)

PROMPT = len(JSON_MODES) - 1  # the lowest rung
REFUSED_FORMAT = (400, 415, 422)  # "this response_format I do not know"
BROKE_ON_FORMAT = (500, 501)  # llama-cpp-python answers json_schema so, but so does an outage
STRIKES = 2  # doubtful signs before a rung is given up for good
SHOWN_FOR_REPAIR = 4000  # characters of the answer that is to be repaired


@dataclass(slots=True)
class Learned:
    """What an endpoint has shown of itself in this process."""

    rung: int
    limit_field: str
    strikes: int = 0
    certain_at: int = STRIKES

    def doubt(self, rung: int) -> None:
        """Count a sign, perhaps of an outage, that only `rung` works; believe it at the last."""
        self.strikes += 1
        if self.strikes >= self.certain_at:
            self.rung, self.strikes = rung, 0


@lru_cache(maxsize=64)
def learned_about(profile: LlmProfile) -> Learned:
    """Return what is remembered for this profile; equal profiles share it."""
    rung = JSON_MODES.index(profile.json_mode) if profile.json_mode in JSON_MODES else 0
    return Learned(rung, profile.max_tokens_field)


class OpenAIModel:
    """LanguageModel by `openai`; see LanguageModel.ask for what it promises."""

    def __init__(self, profile: LlmProfile, *, learned: Learned | None = None) -> None:
        """`learned` is given by a probe, which must find out for itself."""
        self.profile = profile
        self.learned = learned or learned_about(profile)

    @cached_property
    def _wire(self) -> ChatWire:
        # Put off: 0.6 s and 50 MB, which a process without a model never pays.
        from beacon_site.providers.openai_wire import wire_for

        return wire_for(self.profile)

    def ask(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int = 1024,
        schema: type[BaseModel] | None = None,
    ) -> Answer:
        """Return the answer; with `schema` a validated one.  See LanguageModel.ask."""
        began = time.monotonic()
        asking = _Asking(self, messages, max_tokens)
        try:
            answer = asking.structured(schema) if schema else asking.plain()
        except CallFailed as exc:
            failure: ProviderError = asking.failure_of(exc)
        else:
            logger.info(
                "model answered",
                model=answer.model,
                ms=round((time.monotonic() - began) * 1000),
                tokens=answer.usage.total,
                calls=asking.calls,
            )
            return answer
        raise failure

    def complete(
        self,
        messages: Sequence[Message],
        max_tokens: int,
        *,
        response_format: Mapping[str, Any] | None = None,
        retries: int = 1,
    ) -> dict[str, Any]:
        """Return one completion's body, the token limit under the name the endpoint takes.

        Raises CallFailed.
        """
        params: dict[str, Any] = {
            "model": self.profile.model,
            "messages": [wire_message(message) for message in messages],
        }
        if response_format:
            params["response_format"] = response_format
        final = BROKE_ON_FORMAT if response_format else ()
        field = self.learned.limit_field
        try:
            return self._wire.complete({**params, field: max_tokens}, retries=retries, final=final)
        except CallFailed as exc:
            other = _other_limit_field(field, exc)
            if other is None:
                raise
        body = self._wire.complete({**params, other: max_tokens}, retries=retries, final=final)
        self.learned.limit_field = other
        return body


class _Asking:
    """One question: the calls it takes, what they spent, and where on the ladder they stood."""

    def __init__(self, model: OpenAIModel, messages: Sequence[Message], max_tokens: int) -> None:
        self.calls = 0
        self._model = model
        self._messages = tuple(messages)
        self._max_tokens = max_tokens
        self._usage = Usage()

    def plain(self) -> Answer:
        """Return whatever text or tool calls the model answers with."""
        reply = self._call(self._messages)
        text = without_thoughts(reply.text)
        if not text and not reply.tool_calls:
            raise self._nonsense(_why_empty(reply, self._max_tokens), reply.text)
        return self._answer(reply, text)

    def structured(self, schema: type[BaseModel]) -> Answer:
        """Return an answer that holds `schema`, after at most one repair round."""
        learned = self._model.learned
        first = learned.rung
        reply, rung = self._descend(schema)
        text = without_thoughts(reply.text)
        try:
            parsed = parse_answer(text, schema)
            if rung == first:
                learned.strikes = 0
            return self._answer(reply, text, parsed)
        except NotAsAsked as exc:
            why, ignored = str(exc), exc.no_json and bool(text)
        cut = reply.finish_reason == "length"
        if cut:
            why = _("the answer was cut off after %(n)d tokens") % {"n": self._max_tokens}
        ignored = ignored and rung < PROMPT and not cut  # the server ignored response_format
        repair = self._repair(schema, text, why, shorter=cut)
        try:
            reply = self._call(repair, _format(schema, PROMPT if ignored else rung))
        except CallFailed as exc:
            raise self._nonsense(f"{why}; {exc.failure}", text) from None
        text = without_thoughts(reply.text)
        try:
            parsed = parse_answer(text, schema)
        except NotAsAsked as exc:
            raise self._nonsense(str(exc), text) from None
        if ignored:
            learned.doubt(PROMPT)
        return self._answer(reply, text, parsed)

    def failure_of(self, failed: CallFailed) -> ProviderError:
        """Return the failure to raise for a call; a refused flood counts what it may have cost."""
        if not failed.too_large:
            return failed.failure
        asked = estimate(self._messages, "").prompt_tokens
        return ProviderNonsense(
            str(failed.failure), prompt_tokens=asked, completion_tokens=self._max_tokens
        )

    def _descend(self, schema: type[BaseModel]) -> tuple[ChatReply, int]:
        """Return the first reply and its rung, stepping down while the format is refused.

        Only the first rung's call is retried: with three rungs a server that is down is asked
        at most three times.
        """
        learned = self._model.learned
        first = rung = learned.rung
        certain = True
        while True:
            try:
                reply = self._call(
                    self._shown(schema, rung), _format(schema, rung), retries=int(rung == first)
                )
                break
            except CallFailed as exc:
                if rung == PROMPT or not _is_about_format(exc):
                    raise
                certain = certain and exc.status in REFUSED_FORMAT
                logger.info("structured output steps down", mode=JSON_MODES[rung], why=exc.said)
            rung += 1
        if rung != first and certain:
            learned.rung = rung
        elif rung != first:
            learned.doubt(rung)
        return reply, rung

    def _shown(self, schema: type[BaseModel], rung: int) -> tuple[Message, ...]:
        """Return the messages; below the top rung the shape is asked for in words.

        The words go into the last message of the user: some chat templates take one system
        message or none.
        """
        if rung == 0:
            return self._messages
        *before, last = self._messages or (Message("user", ""),)
        words = instruction(schema)
        if last.role != "user":
            return (*before, last, Message("user", words))
        return (*before, replace(last, content=f"{last.content}\n\n{words}"))

    def _repair(
        self, schema: type[BaseModel], text: str, why: str, *, shorter: bool
    ) -> tuple[Message, ...]:
        briefly = " Be much shorter than before." if shorter else ""
        return (
            *self._messages,
            Message("assistant", text[:SHOWN_FOR_REPAIR] or "(nothing)"),
            Message("user", f"That cannot be used: {why}.{briefly}\n\n{instruction(schema)}"),
        )

    def _call(
        self,
        messages: Sequence[Message],
        response_format: Mapping[str, Any] | None = None,
        *,
        retries: int = 1,
    ) -> ChatReply:
        """Return one reply and count what it spent.  A refusal is no answer to work with."""
        self.calls += 1
        body = self._model.complete(
            messages, self._max_tokens, response_format=response_format, retries=retries
        )
        reply = read_reply(body)
        if reply is None:
            raise self._nonsense(_("there is no message in the answer"), "")
        self._usage += reply.usage or estimate(messages, reply.text)
        if reply.refusal and not reply.text:
            raise self._nonsense(_("it refused: %(text)s") % {"text": reply.refusal[:300]})
        return reply

    def _answer(self, reply: ChatReply, text: str, parsed: BaseModel | None = None) -> Answer:
        return Answer(
            text=text,
            usage=self._usage,
            model=reply.model or self._model.profile.model,
            finish_reason=reply.finish_reason,
            parsed=parsed,
            tool_calls=reply.tool_calls,
        )

    def _nonsense(self, why: str, text: str = "") -> ProviderNonsense:
        told = {"model": self._model.profile.model, "why": why.rstrip(".")}
        return ProviderNonsense(
            _("The model “%(model)s” answered, but not as asked: %(why)s.") % told,
            text=text,
            prompt_tokens=self._usage.prompt_tokens,
            completion_tokens=self._usage.completion_tokens,
        )


def _format(schema: type[BaseModel], rung: int) -> dict[str, Any] | None:
    """Return the response_format of a rung; the lowest has none."""
    if rung == PROMPT:
        return None
    if JSON_MODES[rung] == "object":
        return {"type": "json_object"}
    shape = strict_schema(schema)
    asked = {"name": schema.__name__[:64], "schema": shape, "strict": is_strict(shape)}
    return {"type": "json_schema", "json_schema": asked}


def _is_about_format(failed: CallFailed) -> bool:
    """Tell whether a lower rung may help: not for keys, limits, or a prompt that is too long."""
    told = f"{failed.code} {failed.said}".lower()
    if "context_length" in told or "context length" in told or "maximum context" in told:
        return False
    return failed.status in REFUSED_FORMAT or failed.status in BROKE_ON_FORMAT


def _other_limit_field(field: str, failed: CallFailed) -> str | None:
    """Return the other name of the token limit if the endpoint complained about this one."""
    other = "max_completion_tokens" if field == "max_tokens" else "max_tokens"
    complained = failed.status in REFUSED_FORMAT and f"'{field}'" in failed.said
    return other if complained or (failed.status == 400 and other in failed.said) else None


def _why_empty(reply: ChatReply, max_tokens: int) -> str:
    if reply.finish_reason == "length":
        return _("it spent all %(n)d tokens without an answer") % {"n": max_tokens}
    if reply.finish_reason == "content_filter":
        return _("a content filter withheld the answer")
    return _("the answer is empty")
