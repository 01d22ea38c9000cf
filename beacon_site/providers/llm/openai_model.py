"""A LanguageModel for any endpoint with OpenAI's chat completions, and what it learns about each."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import structlog
from pydantic import BaseModel

from beacon_site.net.errors import ProviderError, ProviderNonsense
from beacon_site.providers.llm.base import (
    JSON_MODES,
    Answer,
    LlmProfile,
    Message,
    OnText,
    Tool,
    Usage,
)
from beacon_site.providers.llm.endpoints import PATIENCE, kind_of, missing_model
from beacon_site.providers.llm.openai_errors import is_final, is_missing_model
from beacon_site.providers.llm.openai_reply import (
    CallFailed,
    ChatReply,
    Completion,
    estimate,
    read_reply,
    wasted,
    wire_message,
    wire_tool,
)
from beacon_site.providers.llm.structured import (
    SchemaMismatch,
    instruction,
    is_strict,
    parse_answer,
    strict_schema,
    without_thoughts,
)
from beacon_site.text.messages import gettext as _

if TYPE_CHECKING:
    from beacon_site.providers.llm.openai_client import ChatWire

PROMPT = len(JSON_MODES) - 1  # the last mode
REFUSED_FORMAT = (400, 415, 422)  # an unknown response_format
BROKE_ON_FORMAT = (
    500,
    501,
)  # llama-cpp-python's answer to json_schema, but an outage looks the same
_UNKNOWN_FIELD = re.compile(r"unrecognized|unsupported|not supported|unknown|extra", re.I)
STRIKES = 2  # doubtful signs before a mode is given up permanently


@dataclass(frozen=True, slots=True)
class Form:
    """The form of requests that an endpoint accepts: the limit's name, and streaming or not.

    `counts` means that a stream can be asked to report its usage.
    """

    limit_field: str
    stream: bool = False
    counts: bool = True


@dataclass(slots=True)
class EndpointCapabilities:
    """What this process has learned about an endpoint."""

    rung: int
    limit_field: str
    strikes: int = 0
    certain_at: int = STRIKES
    streams: bool | None = None
    stream_counts: bool = True
    ignored_schema: bool = False

    def doubt(self, rung: int) -> None:
        """Count a sign that only `rung` works, and believe it after STRIKES.  It may be an outage."""
        self.strikes += 1
        if self.strikes >= self.certain_at:
            self.rung, self.strikes = rung, 0


@lru_cache(maxsize=64)
def learned_about(profile: LlmProfile) -> EndpointCapabilities:
    """Return what was learned about this profile; equal profiles share it."""
    rung = JSON_MODES.index(profile.json_mode) if profile.json_mode in JSON_MODES else 0
    limit_field = profile.max_tokens_field or kind_of(profile).limit_field
    return EndpointCapabilities(rung, limit_field, streams=profile.streams)


def in_form(params: Mapping[str, Any], form: Form, max_tokens: int) -> dict[str, Any]:
    """Return the parameters of a request in the given form."""
    values = {**params, form.limit_field: max_tokens}
    if form.stream and form.counts:
        values["stream_options"] = {"include_usage": True}
    return values


def another_form(form: Form, failed: CallFailed) -> Form | None:
    """Return another form to try if the endpoint complained about this one, else None."""
    text, field = failed.said, form.limit_field
    refused = failed.status in REFUSED_FORMAT
    if form.stream and refused and ("stream_options" in text or "include_usage" in text):
        return replace(form, counts=False)
    other = "max_completion_tokens" if field == "max_tokens" else "max_tokens"
    named = f"'{field}'" in text or bool(_UNKNOWN_FIELD.search(text) and field in text)
    if (refused and named) or (failed.status == 400 and other in text):
        return replace(form, limit_field=other)
    if form.stream and (refused or failed.status == 501) and "stream" in text.lower():
        return replace(form, stream=False)
    return None


# --- the model ---

logger = structlog.get_logger(__name__)

SHOWN_FOR_REPAIR = 4000  # characters of an answer that needs a repair
TRUNCATED = 0.5  # share of a question's estimated tokens; a server that counts fewer has cut it
MIN_TRUNCATED = 2000  # tokens; below that, the estimate is too rough


class OpenAIModel:
    """A LanguageModel that uses the `openai` package."""

    def __init__(
        self,
        profile: LlmProfile,
        *,
        learned: EndpointCapabilities | None = None,
        ends_at: float = float("inf"),
    ) -> None:
        """A probe passes its own `learned`, to start from nothing, and `ends_at` (monotonic).

        No call waits past `ends_at`.
        """
        self.profile = profile
        self.learned = learned or learned_about(profile)
        self.ends_at = ends_at

    @cached_property
    def wire(self) -> ChatWire:
        # Imported late, because it costs 0.6 s and 50 MB that a process without a model doesn't need.
        from beacon_site.providers.llm.openai_client import wire_for

        return wire_for(self.profile)

    def ask(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int = 1024,
        schema: type[BaseModel] | None = None,
        on_text: OnText | None = None,
        tools: Sequence[Tool] = (),
    ) -> Answer:
        """Return the answer; with `schema` a validated one.  See LanguageModel.ask."""
        began = time.monotonic()
        asking = _Request(self, messages, max_tokens, on_text, tools)
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
                warning=answer.warning,
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
        on_text: OnText | None = None,
        tools: Sequence[Tool] = (),
    ) -> Completion:
        """Return one completion, in the form that the endpoint accepts and within its time.

        If it refuses the token limit's field or a stream, another form is tried, and remembered
        once it works.  Raises CallFailed.
        """
        params: dict[str, Any] = {
            "model": self.profile.model,
            "messages": [wire_message(message) for message in messages],
        }
        if response_format:
            params["response_format"] = response_format
        if tools:
            params["tools"] = [wire_tool(tool) for tool in tools]
        learned = self.learned
        streams = on_text is not None and learned.streams is not False
        form = Form(learned.limit_field, streams, learned.stream_counts)
        tried: list[Form] = []
        lost: tuple[str, ...] = ()
        wire = self.wire  # the import doesn't count as the endpoint's time
        ends_at = min(self.ends_at, time.monotonic() + self.profile.timeout)
        while True:
            tried.append(form)
            try:
                completion = wire.complete(
                    in_form(params, form, max_tokens),
                    retries=retries,
                    final=BROKE_ON_FORMAT if response_format else (),
                    on_text=on_text,
                    stream=form.stream,
                    ends_at=ends_at,
                )
            except CallFailed as exc:
                lost = exc.lost = lost + exc.lost
                other = another_form(form, exc)
                if other is None or other in tried:
                    raise
                form = other
            else:
                self._remember(tried[0], form, completion)
                return replace(completion, lost=lost + completion.lost)

    @contextmanager
    def passed_on(self, body: Mapping[str, Any], max_tokens: int) -> Iterator[Iterator[bytes]]:
        """Send someone else's request to the model, and give the bytes of its answer.

        The model, the token limit and, for a stream, the request for its usage are set here, in
        the form that the endpoint accepts.  Raises CallFailed; see ChatWire.passed_on.
        """
        params = {**body, "model": self.profile.model}
        learned = self.learned
        streams = bool(body.get("stream"))
        form = Form(learned.limit_field, streams, learned.stream_counts)
        tried: list[Form] = []
        wire = self.wire
        ends_at = time.monotonic() + self.profile.timeout
        with ExitStack() as opened:
            while True:
                tried.append(form)
                sent = in_form(params, form, max_tokens)
                try:
                    seconds = max(0.1, ends_at - time.monotonic())
                    chunks = opened.enter_context(wire.passed_on(sent, seconds=seconds))
                    break
                except CallFailed as exc:
                    other = another_form(form, exc)
                    if other is None or other in tried or other.stream != form.stream:
                        raise
                    form = other
            learned.limit_field, learned.stream_counts = form.limit_field, form.counts
            yield chunks

    def _remember(self, first: Form, form: Form, completion: Completion) -> None:
        learned = self.learned
        learned.limit_field, learned.stream_counts = form.limit_field, form.counts
        if completion.streamed:
            learned.streams = True
        elif first.stream and not learned.streams:  # requested, but refused or sent whole
            learned.streams = False


class _Request:
    """One question: its calls, the tokens they spent, and the JSON mode they reached."""

    def __init__(
        self,
        model: OpenAIModel,
        messages: Sequence[Message],
        max_tokens: int,
        on_text: OnText | None,
        tools: Sequence[Tool],
    ) -> None:
        self.calls = 0
        self._model = model
        self._messages = tuple(messages)
        self._max_tokens = max_tokens
        self._on_text = on_text
        self._tools = tuple(tools)
        self._usage = Usage()
        self._warning = ""

    def plain(self) -> Answer:
        """Return whatever text or tool calls the model answers with."""
        reply = self._call(self._messages)
        text = without_thoughts(reply.text)
        if not text and not reply.tool_calls:
            raise self._nonsense(_why_empty(reply, self._max_tokens), reply.text)
        return self._answer(reply, text)

    def structured(self, schema: type[BaseModel]) -> Answer:
        """Return an answer that fits `schema`, after at most one repair round."""
        learned = self._model.learned
        first = learned.rung
        reply, rung = self._descend(schema)
        text = without_thoughts(reply.text)
        if reply.tool_calls and not text:
            return self._answer(reply, text)
        try:
            parsed = parse_answer(text, schema)
            if rung == first:
                learned.strikes = 0
            return self._answer(reply, text, parsed)
        except SchemaMismatch as exc:
            # If the server enforced the schema, there couldn't be JSON of another shape.
            why = str(exc)
            ignored = bool(text) and (exc.no_json or (exc.other_shape and rung == 0))
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
        except SchemaMismatch as exc:
            raise self._nonsense(str(exc), text) from None
        if ignored:
            learned.ignored_schema = True
            learned.doubt(PROMPT)
        return self._answer(reply, text, parsed)

    def failure_of(self, failed: CallFailed) -> ProviderError:
        """Return the failure to raise for a call, with the tokens spent on the question.

        If the model doesn't exist, the message names those that do.
        """
        failure, model = failed.failure, self._model
        if is_missing_model(failed.status, failed.code, failed.said):
            patience = max(0.1, min(PATIENCE, model.ends_at - time.monotonic()))
            failure = missing_model(model.profile, failed.said, timeout=patience) or failure
        failure.prompt_tokens = self._usage.prompt_tokens
        failure.completion_tokens = self._usage.completion_tokens
        return failure

    def _descend(self, schema: type[BaseModel]) -> tuple[ChatReply, int]:
        """Return the first reply and its JSON mode, stepping down while the format is refused.

        Only the first mode's call is retried, so a server that is down is asked at most three times.
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
                logger.info("structured output downgraded", mode=JSON_MODES[rung], why=exc.said)
            rung += 1
        if rung != first and certain:
            learned.rung = rung
        elif rung != first:
            learned.doubt(rung)
        return reply, rung

    def _shown(self, schema: type[BaseModel], rung: int) -> tuple[Message, ...]:
        """Return the messages; below the best mode, the shape is asked for in words.

        The words go into the user's last message, since some chat templates accept only one system
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
            Message("user", f"That can't be used: {why}.{briefly}\n\n{instruction(schema)}"),
        )

    def _call(
        self,
        messages: Sequence[Message],
        response_format: Mapping[str, Any] | None = None,
        *,
        retries: int = 1,
    ) -> ChatReply:
        """Return one reply and count its tokens.  Raises for a refusal."""
        self.calls += 1
        try:
            completion = self._model.complete(
                messages,
                self._max_tokens,
                response_format=response_format,
                retries=retries,
                on_text=self._on_text,
                tools=self._tools,
            )
        except CallFailed as exc:  # its cost counts in any case
            self._usage += wasted(exc, messages, self._max_tokens)
            raise
        for text in completion.lost:
            self._usage += estimate(messages, text)
        reply = read_reply(completion.body)
        if reply is None:
            raise self._nonsense(_("the answer contains no message"), "")
        self._usage += reply.usage or estimate(messages, reply.text)
        self._warning = self._warning or _cut_short(self._model.profile, messages, reply)
        if reply.refusal and not reply.text:
            raise self._nonsense(
                _("it refused to answer: %(text)s") % {"text": reply.refusal[:300]}
            )
        return reply

    def _answer(self, reply: ChatReply, text: str, parsed: BaseModel | None = None) -> Answer:
        return Answer(
            text=text,
            usage=self._usage,
            model=reply.model or self._model.profile.model,
            finish_reason=reply.finish_reason,
            parsed=parsed,
            tool_calls=reply.tool_calls,
            warning=self._warning,
        )

    def _nonsense(self, why: str, text: str = "") -> ProviderNonsense:
        params = {"model": self._model.profile.model, "why": why.rstrip(".")}
        return ProviderNonsense(
            _("The model “%(model)s” gave an answer that Beacon can’t use: %(why)s.") % params,
            text=text,
            prompt_tokens=self._usage.prompt_tokens,
            completion_tokens=self._usage.completion_tokens,
        )


def _format(schema: type[BaseModel], rung: int) -> dict[str, Any] | None:
    """Return the response_format of a JSON mode; the last has none."""
    if rung == PROMPT:
        return None
    if JSON_MODES[rung] == "object":
        return {"type": "json_object"}
    shape = strict_schema(schema)
    values = {"name": schema.__name__[:64], "schema": shape, "strict": is_strict(shape)}
    return {"type": "json_schema", "json_schema": values}


def _is_about_format(failed: CallFailed) -> bool:
    """Return whether a lower mode can help, which it can't for keys, limits or a long prompt."""
    return not is_final(failed.status, failed.code, failed.said)


def _cut_short(profile: LlmProfile, messages: Sequence[Message], reply: ChatReply) -> str:
    """Return a warning if the server counts far fewer tokens than the question has, else "".

    Ollama silently drops what doesn't fit its window, half of the question at once.
    """
    have = estimate(messages, "").prompt_tokens
    if reply.usage is None or have < MIN_TRUNCATED:
        return ""
    if not 0 < reply.usage.prompt_tokens < have * TRUNCATED:
        return ""
    text = _(
        "“%(model)s” read only %(read)d of about %(have)d tokens. The rest of the prompt didn’t fit in its context window."
    )
    params = {"model": profile.model, "read": reply.usage.prompt_tokens, "have": have}
    return f"{text % params} {kind_of(profile).context}".rstrip()


def _why_empty(reply: ChatReply, max_tokens: int) -> str:
    if reply.finish_reason == "length":
        return _("it used all %(n)d tokens without answering") % {"n": max_tokens}
    if reply.finish_reason == "content_filter":
        return _("a content filter blocked the answer")
    return _("the answer is empty")
