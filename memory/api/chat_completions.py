"""`/v1/chat/completions`: OpenAI's chat completions, with an agent's context added to each conversation.

Programs that can use a model by OpenAI's protocol get a memory without a line of code: Beacon adds
what it would give the agent, passes the request on to the connected model, and returns the model's
bytes unchanged.  Errors have OpenAI's form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

from beacon_site.net.errors import ProviderUnavailable
from beacon_site.providers.llm.openai_reply import CallFailed
from memory.accounts.tokens import CHAT
from memory.api import frame
from memory.api.auth import Bearer, Caller
from memory.api.problems import Problem, in_openais_form
from memory.models import Trust, Use
from memory.services.context.layers import MOST_RECALLED, Context, build_context, with_recalled
from memory.services.llm import connections
from memory.services.llm.booking import BudgetReached
from memory.services.llm.passing_on import (
    InvalidRequest,
    TooManyAtOnce,
    checked,
    pass_on,
    text_of,
)
from memory.services.notes.saving import lowest_trust
from memory.services.search.query import FOR_AGENTS, Question
from memory.services.search.recall import recall

if TYPE_CHECKING:
    from beacon_site.providers.llm.openai_model import OpenAIModel

MOST_BODY = 8 * 1024 * 1024  # bytes: a long conversation with pictures
LONGEST_QUESTION = 2_000  # characters of the last message that memory is searched for
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
                frame.check_size(request, MOST_BODY)
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
        caller.note_shown(lowest_trust([Trust.OWNER, *(one.trust for one in context.records)]))
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
    response[RECORDS] = ", ".join(_name(one) for one in context.records)
    return response


_NO_RETRY = {"X-Should-Retry": "false"}  # OpenAI's clients would try again twice


def _model_for(body: Mapping[str, Any], caller: Caller) -> OpenAIModel:
    """Return the model that the request names.  Raises Problem without one, and for another name."""
    wanted = str(body.get("model"))
    model = connections.named_model(wanted, owner=caller.owner)
    if model is None:
        words = _(
            "No model is connected, so Beacon can’t answer. Your admin can connect one in Settings → Models and search."
        )
        raise Problem(503, words, code="no_model", headers=_NO_RETRY)
    if wanted not in (model.profile.model, ALIAS):
        have = "”, “".join(connections.names_of_models())
        words = _("This server uses the model “%(have)s”. Request it by this name, or as “beacon”.")
        raise Problem(404, words % {"have": have}, code="model_not_found", param="model")
    return cast("OpenAIModel", model)


def _context_for(caller: Caller, messages: Sequence[Mapping[str, Any]]) -> Context:
    """Return the agent's context for the last question, with what recall finds for it."""
    asked = [text_of(one.get("content")) for one in messages if one["role"] == "user"]
    question = asked[-1][:LONGEST_QUESTION].strip() if asked else ""
    tools = caller.context()
    context = build_context(caller.owner, message=question, place=caller.place, scopes=tools.scopes)
    if not question:
        return context
    # A message isn't a query: a “-” in it excludes nothing.
    found = recall(
        caller.owner, Question(question, question, filters=FOR_AGENTS), limit=2 * MOST_RECALLED
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
