"""`/v1/chat/completions`: OpenAI's chat completions, with an agent's context added to each conversation.

Programs that can use a model by OpenAI's protocol get a memory without a line of code: Beacon adds
what it would give the agent, passes the request on to the connected model, and returns the model's
bytes unchanged.  It is paid for like any other call.  Errors have OpenAI's form, and a stream that
breaks ends with an error event, because its status was sent long before.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    JsonResponse,
    StreamingHttpResponse,
)
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt

from beacon_site.net.errors import ProviderError, ProviderUnavailable
from beacon_site.net.http import BodyTooLarge
from beacon_site.providers.llm.base import Message, Usage
from beacon_site.providers.llm.openai_reply import (
    CallFailed,
    StreamReading,
    TooManyTokens,
    estimate,
    plain_text,
    read_reply,
)
from beacon_site.text import secret_scanner
from beacon_site.text.cleaning import clean
from beacon_site.text.messages import grouped
from memory.accounts.tokens import CHAT
from memory.api import frame
from memory.api.auth import Bearer, Caller
from memory.api.problems import Problem, in_openais_form
from memory.models import ModelCall, Trust, Use, User
from memory.services.context.layers import MAX_RECALLED, Context, build_context, with_recalled
from memory.services.llm import connections
from memory.services.llm.asking import BudgetReached, MonthMeter, paid, redacted_value
from memory.services.notes.saving import lowest_trust
from memory.services.search.query import FOR_AGENTS, Question
from memory.services.search.recall import recall

if TYPE_CHECKING:
    from beacon_site.providers.llm.openai_model import OpenAIModel

MAX_BODY = 8 * 1024 * 1024  # bytes: a long conversation with pictures
MAX_QUESTION_LENGTH = 2_000  # characters of the last message that memory is searched for
RECORDS = "Beacon-Records"
ALIAS = "beacon"  # names the connected model, whichever it is
IN_SYSTEM = ("system", "developer")  # roles of a message that instructs the model
_MAY_CHAT = Bearer(CHAT)

View = Callable[[HttpRequest], HttpResponseBase]


def _answered(method: str) -> Callable[[Callable[[HttpRequest, Caller], HttpResponseBase]], View]:
    """Return a decorator for a view of one method, whose token has the scope and whose errors are
    OpenAI's.
    """

    def decorated(run: Callable[[HttpRequest, Caller], HttpResponseBase]) -> View:
        @csrf_exempt  # a program's token is in a header, which no other site can send
        @never_cache
        @wraps(run)
        def answer(request: HttpRequest) -> HttpResponseBase:
            try:
                if request.method != method:
                    words = _("This URL only supports %(method)s.") % {"method": method}
                    raise Problem(405, words, headers={"Allow": method})
                caller = _MAY_CHAT(request)
                frame.check_size(request, MAX_BODY)
                frame.check(caller)
                return run(request, caller)
            except Problem as exc:
                return in_openais_form(exc)

        return answer

    return decorated


@_answered("GET")
def models(request: HttpRequest, caller: Caller) -> HttpResponseBase:
    """List the connected models: the default one first, none without a connection."""
    data = [
        {"id": name, "object": "model", "created": 0, "owned_by": "beacon"}
        for name in connections.names_of_models()
    ]
    return JsonResponse({"object": "list", "data": data})


@_answered("POST")
def completions(request: HttpRequest, caller: Caller) -> HttpResponseBase:
    """Answer a conversation with the connected model, which also gets the agent's context."""
    body = frame.cleaned(frame.parsed(request.body), [])
    if not isinstance(body, dict):
        raise Problem(400, _("The body must be a JSON object."))
    try:
        body = checked(body)
        model = _model_for(body, caller)
        context = _context_for(caller, body["messages"])
        caller.note_shown(
            lowest_trust([Trust.OWNER, *(record.trust for record in context.records)])
        )
        body["messages"] = with_system(body["messages"], context.system)
        answer = pass_on(body, model, owner=caller.owner, source=caller.source)
    except InvalidRequest as exc:
        raise Problem(400, str(exc), param=exc.field) from exc
    except BudgetReached as exc:
        words = _("Nothing was sent to the model: %(why)s.") % {"why": exc}
        raise Problem(429, words, code="insufficient_quota", headers=_NO_RETRY) from exc
    except TooManyAtOnce as exc:
        words = _("Beacon is handling as many requests as it can. Try again in a few seconds.")
        raise Problem(429, words, code="too_many_at_once", headers={"Retry-After": "5"}) from exc
    except CallFailed as exc:
        raise _problem_of(exc) from exc
    response: HttpResponseBase
    if body.get("stream"):
        response = StreamingHttpResponse(answer, content_type=answer.content_type)
        response["X-Accel-Buffering"] = "no"  # or nginx would hold back the pieces
    else:
        response = HttpResponse(b"".join(answer), content_type=answer.content_type)
    response[RECORDS] = ", ".join(_name(record) for record in context.records)
    return response


_NO_RETRY = {"X-Should-Retry": "false"}  # OpenAI's clients would try again twice


def _model_for(body: Mapping[str, Any], caller: Caller) -> OpenAIModel:
    """Return the model that the request names.  Raises Problem without one, and for another name."""
    value = str(body.get("model"))
    model = connections.named_model(value, owner=caller.owner)
    if model is None:
        words = _(
            "No model is connected, so Beacon can’t answer. Your admin can connect one in Settings → Models and search."
        )
        raise Problem(503, words, code="no_model", headers=_NO_RETRY)
    if value not in (model.profile.model, ALIAS):
        have = "”, “".join(connections.names_of_models())
        words = _("This server uses the model “%(have)s”. Request it by this name, or as “beacon”.")
        raise Problem(404, words % {"have": have}, code="model_not_found", param="model")
    return cast("OpenAIModel", model)


def _context_for(caller: Caller, messages: Sequence[Mapping[str, Any]]) -> Context:
    """Return the agent's context for the last question, with what recall finds for it."""
    user_texts = [
        text_of(message.get("content")) for message in messages if message["role"] == "user"
    ]
    question = user_texts[-1][:MAX_QUESTION_LENGTH].strip() if user_texts else ""
    tools = caller.context()
    context = build_context(caller.owner, message=question, place=caller.place, scopes=tools.scopes)
    if not question:
        return context
    # A message isn't a query: a “-” in it excludes nothing.
    found = recall(
        caller.owner, Question(question, question, filters=FOR_AGENTS), limit=2 * MAX_RECALLED
    )
    added = with_recalled(context, [hit for hit in found if tools.may_read(hit.record)])
    Use.note_records(caller.owner, added.records[len(context.records) :], caller.place)
    return added


def with_system(messages: Sequence[Mapping[str, Any]], text: str) -> list[Mapping[str, Any]]:
    """Return the messages with `text` before the instructions of the first one.

    If the first message doesn't instruct the model, a new one is added.  There is only one in any
    case, because some models accept no second one.
    """
    first, *others = messages
    if first["role"] not in IN_SYSTEM:
        return [{"role": "system", "content": text}, *messages]
    content = first.get("content")
    if isinstance(content, list):
        return [{**first, "content": [{"type": "text", "text": text}, *content]}, *others]
    return [{**first, "content": f"{text}\n\n{content or ''}".rstrip()}, *others]


def _name(record: Any) -> str:
    return f"{record.record_type()}:{record.pk}"


def _problem_of(failed: CallFailed) -> Problem:
    """Return the problem for a failure of the model: the caller's only if it can be."""
    failure, words = failed.failure, str(failed.failure)
    if isinstance(failure, ProviderUnavailable):
        wait = {} if failure.retry_after is None else {"Retry-After": f"{failure.retry_after:.0f}"}
        status = 504 if failed.timed_out else 429 if failed.status == 429 else 503
        return Problem(status, words, code="model_unavailable", headers=wait)
    if failed.status in (400, 413, 415, 422):
        return Problem(400, words, code=failed.code or "model_refused")
    return Problem(502, words, code="model_failed", headers=_NO_RETRY)


# --- passing a conversation on to the model ---

# request -> checked limits -> budget -> endpoint -> the answer's bytes, unchanged -> its usage

PURPOSE = "chat"
USUAL_ANSWER = 4096  # tokens, if the request sets no limit: a budget needs one
MAX_ANSWER = 128_000
MAX_CHOICES = 8
# Calls at once in a process. Each one keeps a thread of the web server waiting, which has eight.
MAX_AT_ONCE = 4
STREAM, WHOLE = "text/event-stream", "application/json"
LIMITS = ("max_completion_tokens", "max_tokens")
# They make a call cost something else than the connection's prices.
UNPRICED = ("service_tier", "web_search_options")
_MAX_STORED_LENGTH = 200_000  # characters of one message that are stored with the call
_free = threading.BoundedSemaphore(MAX_AT_ONCE)


class InvalidRequest(Exception):
    """The request can't be passed on.  `field` is the field at fault."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


class TooManyAtOnce(Exception):
    """This process has as many calls in progress as it can."""


class StreamedAnswer:
    """An answer as an iterable of bytes.  Closing it ends the call, which is then recorded."""

    def __init__(self, flow: Iterator[bytes], content_type: str) -> None:
        self._flow = flow
        self.content_type = content_type

    def __iter__(self) -> Iterator[bytes]:
        return self._flow

    def close(self) -> None:
        """Stop reading.  The endpoint's connection is closed, too."""
        close: Any = getattr(self._flow, "close", None)
        if close is not None:
            close()


def checked(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request with everything that is passed on.  Raises InvalidRequest."""
    messages = body.get("messages")
    words = _("“messages” must be a list of messages, each with a “role” and usually a “content”.")
    if not isinstance(messages, list) or not messages:
        raise InvalidRequest(words, "messages")
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise InvalidRequest(words, "messages")
    if not isinstance(body.get("stream", False), bool | None):
        raise InvalidRequest(_("“stream” must be true or false."), "stream")
    if not isinstance(body.get("stream_options"), dict | None):
        raise InvalidRequest(_("“stream_options” must be an object."), "stream_options")
    for field, most in (*((name, MAX_ANSWER) for name in LIMITS), ("n", MAX_CHOICES)):
        value = body.get(field)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (is_number and 1 <= value <= most):
            words = _("“%(field)s” must be a whole number from 1 to %(most)s.")
            raise InvalidRequest(words % {"field": field, "most": grouped(most)}, field)
    for field in UNPRICED:
        if body.get(field) is not None:
            words = _("“%(field)s” isn’t supported, because Beacon doesn’t know what it costs.")
            raise InvalidRequest(words % {"field": field}, field)
    return {name: value for name, value in body.items() if value is not None}


def pass_on(
    body: Mapping[str, Any], model: OpenAIModel, *, owner: User, source: str
) -> StreamedAnswer:
    """Send a checked request to the model and return the answer as it arrives.

    Raises TooManyAtOnce, BudgetReached, and CallFailed until the endpoint has accepted the request.
    """
    if not _free.acquire(blocking=False):
        raise TooManyAtOnce
    flow = _released(_flow(body, model, owner, source))
    next(flow)  # up to the endpoint's status; a generator that hasn't begun can't clean up, either
    return StreamedAnswer(flow, STREAM if body.get("stream") else WHOLE)


def _released(flow: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from flow
    finally:
        _free.release()


def _flow(body: Mapping[str, Any], model: OpenAIModel, owner: User, source: str) -> Iterator[bytes]:
    """Yield b"" when the endpoint has accepted the request, and then the answer's bytes."""
    secrets = (model.profile.api_key, *connections.secrets_in_use())
    sent = redacted_value(dict(body), secrets)
    each = max((sent.pop(name) for name in LIMITS if name in sent), default=USUAL_ANSWER)
    messages = _as_messages(sent)
    call = ModelCall(
        owner=owner,
        purpose=PURPOSE,
        source=source,
        model=model.profile.model,
        prompt=[{"role": one.role, "content": _storable(one.content)} for one in messages[:-1]],
    )
    most = Usage(estimate(messages, "").prompt_tokens, each * sent.get("n", 1))
    has_begun = False
    try:
        with paid(call, model.profile, most, MonthMeter(owner)) as counted:
            answer = _Answer(model, messages, wants_usage=_wants_usage(sent))
            try:
                with model.passed_on(sent, each) as chunks:
                    if not sent.get("stream"):
                        content = answer.whole(chunks)
                        counted(answer.usage, answer.text)
                        yield b""
                        yield content
                        return
                    yield b""
                    has_begun = True
                    yield from answer.pieces(chunks)
                answer.check_complete()
            except GeneratorExit:  # the client has left: what was written so far is billed
                answer.read()
                spent = answer.usage if answer.usage.total else estimate(messages, "")
                counted(spent, answer.text)
                raise
            except CallFailed as exc:
                answer.read()
                counted(answer.usage, answer.text)
                exc.failure.prompt_tokens = answer.usage.prompt_tokens
                exc.failure.completion_tokens = answer.usage.completion_tokens
                raise exc.failure from exc
            counted(answer.usage, answer.text)
    except ProviderError as exc:
        if not has_begun:
            raise exc.__cause__ or exc from None
        if not answer.has_told_error:
            yield _error_event(exc)


class _Answer:
    """The answer on its way: what has arrived, and what it means."""

    def __init__(self, model: OpenAIModel, asked: Sequence[Message], *, wants_usage: bool) -> None:
        self.text = ""
        self.usage = Usage()  # nothing has been written yet, so nothing is billed
        self.has_told_error = False
        self._model = model
        self._asked = asked
        self._wants_usage = wants_usage
        self._kept: list[bytes] = []
        self._reading: StreamReading | None = None

    def whole(self, chunks: Iterable[bytes]) -> bytes:
        """Return the body of an answer that isn't streamed.  Raises CallFailed."""
        content = b"".join(chunks)
        self._take(self._model.wire.completion_in(content).body)
        return content

    def pieces(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield a stream's bytes, without the usage if the client didn't ask for it.

        An endpoint that can't stream sends a whole completion, which becomes a stream of one event.
        """
        arrived = self._noted(chunks)
        first = b""
        for chunk in arrived:
            first += chunk
            if first.strip():
                break
        if first.lstrip().startswith(b"{"):
            content = first + b"".join(arrived)
            body = self._model.wire.completion_in(content).body
            self._take(body)
            yield _as_stream(body)
            return
        rest = _chained(first, arrived)
        yield from rest if self._wants_usage else _without_usage(rest)

    def _noted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._kept.append(chunk)
            yield chunk

    def read(self) -> None:
        """Read what has arrived of a stream, for its text and its usage."""
        if self._reading is not None or not self._kept or self.text:
            return
        reading = self._reading = StreamReading(lambda _text: None, most_characters=2**31)
        # The connection limits both, so what was read by then is all that is needed.
        with suppress(TooManyTokens, BodyTooLarge):
            reading.read([b"".join(self._kept)], lambda: None)
        self._take(reading.completion())

    def check_complete(self) -> None:
        """Raise CallFailed for a stream that ended with an error, or too early."""
        self.read()
        reading = self._reading
        if reading is None:
            return
        if reading.error is not None:
            self.has_told_error = True
            raise self._model.wire.error_in(reading.error)
        if not (reading.is_complete and reading.has_begun):
            raise self._model.wire.cut_off()

    def _take(self, body: Mapping[str, Any]) -> None:
        reply = read_reply(body)
        if reply is None:
            return
        calls = [f"→ {call.name} {json.dumps(call.arguments)}" for call in reply.tool_calls]
        self.text = "\n".join([reply.text or reply.refusal, *calls]).strip()
        self.usage = reply.usage or estimate(self._asked, self.text)


def _chained(first: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _without_usage(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a stream's lines without the event that only has the usage.

    Beacon asks for it, to pay.  A client that didn't ask might not expect an event without choices.
    """
    rest, skips = b"", False
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        kept = []
        for line in lines:
            if skips and not line.strip():
                skips = False
                continue
            skips = _is_usage(line)
            if not skips:
                kept.append(line + b"\n")
        if kept:
            yield b"".join(kept)
    if rest and not _is_usage(rest):
        yield rest


def _is_usage(line: bytes) -> bool:
    if not line.startswith(b"data:") or b'"usage"' not in line:
        return False
    try:
        event = json.loads(line.removeprefix(b"data:"))
    except (ValueError, RecursionError):
        return False
    return isinstance(event, dict) and event.get("choices") == [] and bool(event.get("usage"))


def _as_stream(body: Mapping[str, Any]) -> bytes:
    """Return a whole completion as a stream of one event."""
    choices = [
        {
            "index": one.get("index", 0),
            "delta": one.get("message") or {},
            "finish_reason": one.get("finish_reason") or "stop",
        }
        for one in body.get("choices") or ()
        if isinstance(one, dict)
    ]
    for choice in choices:
        for place, each in enumerate(choice["delta"].get("tool_calls") or ()):
            each.setdefault("index", place)
    event = {
        "id": body.get("id") or "chatcmpl-beacon",
        "object": "chat.completion.chunk",
        "created": body.get("created") or int(time.time()),
        "model": body.get("model") or "",
        "choices": choices,
    }
    return b"data: " + json.dumps(event).encode() + b"\n\ndata: [DONE]\n\n"


def _error_event(exc: ProviderError) -> bytes:
    """Return the event that ends a broken stream.  It begins with a line break, to end an incomplete line."""
    error = {"message": str(exc), "type": "server_error", "param": None, "code": "stream_broken"}
    return b"\n\ndata: " + json.dumps({"error": error}).encode() + b"\n\n"


def _wants_usage(body: Mapping[str, Any]) -> bool:
    return bool((body.get("stream_options") or {}).get("include_usage"))


# --- messages ---


def text_of(content: object) -> str:
    """Return the text of a message's content.  Pictures and other parts are named by their type."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(
        str(part["text"]) if isinstance(part.get("text"), str) else f"[{part.get('type')}]"
        for part in parts
        if isinstance(part, dict)
    )


def _as_messages(body: Mapping[str, Any]) -> list[Message]:
    """Return the messages as text, followed by whatever else the model reads, to estimate the size."""
    messages = []
    for one in body["messages"]:
        calls = one.get("tool_calls")
        text = text_of(one.get("content"))
        text += f"\n→ {json.dumps(calls)}" if calls else ""
        messages.append(Message(one["role"], text))
    other = [body[name] for name in ("tools", "functions", "response_format") if name in body]
    return [*messages, Message("system", json.dumps(other) if other else "")]


def _storable(text: str) -> str:
    return secret_scanner.mask(clean(plain_text(text))[0][:_MAX_STORED_LENGTH])[0]
