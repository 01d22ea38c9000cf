"""Every error of the API as `application/problem+json` (RFC 9457), with the next step.

Data flow: an endpoint raises `Problem` or an error of memory -> the handlers of `install()` ->
one JSON object.  Pages that Django answers with (not found, wrong method, server error) are
converted in `ProblemMiddleware`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from django.db import DatabaseError, InterfaceError
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from pydantic import BaseModel

from beacon_site.db.errors import GONE, Failure, failure_of
from beacon_site.text.cleaning import clean, shorten
from beacon_site.web.http import Middleware
from memory.agents.tools.types import why_invalid
from memory.models.errors import InvalidValue, Locked, MemoryRefused, NoSuchKey, StaleWrite
from memory.services.files.texts import NoSuchFile, OverBudget

MEDIA_TYPE = "application/problem+json"
ROOT = "/api/"
CHAT_ROOT = "/v1/"  # where errors have OpenAI's form
MAX_DETAIL_LENGTH = 2_000
MAX_ERRORS = 20  # fields that are listed, since an invalid body can have thousands

# The code in `type`, by status.
_WORDS = {
    400: "malformed", 401: "token", 403: "forbidden", 404: "not-found", 405: "method",
    409: "conflict", 411: "length", 412: "stale", 413: "too-large", 415: "media-type",
    422: "invalid", 428: "if-match-missing", 429: "too-many", 500: "internal", 503: "unavailable",
}  # fmt: skip


class ProblemOut(BaseModel):
    """An error: the reason and what to do in `detail`, and for each field in `errors`."""

    type: str
    title: str
    status: int
    detail: str
    errors: dict[str, list[str]] | None = None
    current: int | str | None = None


class Problem(Exception):
    """An answer that is an error.  `more` has further members, such as `current`."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: Mapping[str, list[str]] | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail
        self.errors = dict(errors or {})
        self.headers = dict(headers or {})
        self.more = more

    def answer(self) -> HttpResponse:
        body: dict[str, Any] = {
            "type": f"urn:beacon:problem:{_WORDS.get(self.status, 'other')}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": shorten(clean(self.detail)[0], MAX_DETAIL_LENGTH),
            **self.more,
        }
        if self.errors:
            body["errors"] = {
                clean(str(field))[0][:200]: [clean(str(message))[0] for message in messages]
                for field, messages in list(self.errors.items())[:MAX_ERRORS]
            }
        text = json.dumps(body, default=str)
        return HttpResponse(text, status=self.status, content_type=MEDIA_TYPE, headers=self.headers)


def in_openais_form(problem: Problem) -> HttpResponse:
    """Return the answer for a client of OpenAI's API, which reads errors in its own form."""
    kind = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    usual = "server_error" if problem.status >= 500 else "invalid_request_error"
    error = {
        "message": shorten(clean(problem.detail)[0], MAX_DETAIL_LENGTH),
        "type": kind.get(problem.status, usual),
        "param": problem.more.get("param"),
        "code": problem.more.get("code", _WORDS.get(problem.status)),
    }
    text = json.dumps({"error": error})
    return HttpResponse(
        text, status=problem.status, content_type="application/json", headers=problem.headers
    )


def not_found(what: str = "") -> Problem:
    """Return the problem for a record that doesn't exist or belongs to another owner."""
    return Problem(404, what or _("This item doesn’t exist, or it isn’t yours."))


def of_refusal(exc: Exception, *, is_conditional: bool) -> Problem | None:
    """Return the problem for an error of memory; None for other exceptions.

    `is_conditional` means that the caller sent the version it saw, which is then outdated (412).
    """
    if isinstance(exc, NoSuchKey | NoSuchFile):
        return Problem(404, str(exc))
    if not isinstance(exc, MemoryRefused):
        return None
    if isinstance(exc, InvalidValue):
        errors = {
            field: [str(message) for message in messages]
            if isinstance(messages, list)
            else [str(messages)]
            for field, messages in exc.errors.items()
        }
        return Problem(422, str(exc), errors=errors)
    if isinstance(exc, Locked):
        return Problem(403, str(exc))
    if isinstance(exc, StaleWrite):
        status = 412 if is_conditional else 409
        return Problem(status, str(exc), current=exc.current)
    if isinstance(exc, OverBudget):
        return Problem(413, str(exc), have=exc.have, most=exc.most)
    return Problem(409, str(exc))


def of_failure(failure: Failure) -> Problem:
    """Return the problem for a failure of the database or the disk."""
    return Problem(
        failure.status, str(failure.words), headers={"Retry-After": str(failure.retry_after)}
    )


# --- errors of the framework ---


def install(api: NinjaAPI) -> None:
    """Make the API answer every exception with a problem."""
    handlers: dict[type[Exception], Callable[[HttpRequest, Any], Problem | None]] = {
        Problem: lambda _request, exc: exc,
        MemoryRefused: _refused,
        NoSuchKey: _refused,
        Http404: lambda _request, _exc: not_found(),
        HttpError: lambda _request, exc: _of_framework(exc),
        ValidationError: _invalid,
        DatabaseError: _failed,
        InterfaceError: _failed,
        OSError: _failed,
    }
    for kind, make in handlers.items():
        api.add_exception_handler(kind, _answering(make))


def _answering(
    make: Callable[[HttpRequest, Any], Problem | None],
) -> Callable[[HttpRequest, Any], HttpResponse]:
    def answer(request: HttpRequest, exc: Any) -> HttpResponse:
        problem = make(request, exc)
        if problem is None:
            raise exc
        return problem.answer()

    return answer


def _refused(request: HttpRequest, exc: Exception) -> Problem | None:
    return of_refusal(exc, is_conditional="If-Match" in request.headers)


def _failed(_request: HttpRequest, exc: Exception) -> Problem | None:
    failure = failure_of(exc)
    return of_failure(failure) if failure else None


def _of_framework(exc: HttpError) -> Problem:
    """Return the problem wrapped by the framework (for a body that can't be read), or its own."""
    cause = exc.__cause__
    return cause if isinstance(cause, Problem) else Problem(exc.status_code, str(exc))


def _invalid(request: HttpRequest, exc: ValidationError) -> Problem:
    """Return the problem for invalid fields, each named as the caller wrote it."""
    errors: dict[str, list[str]] = {}
    for one in exc.errors:
        # ("body", "note", "tags", 0): its place, the argument's name, the field.
        place = list(one["loc"])
        field = ".".join(map(str, place[2:] if place[0] == "body" else place[1:]))
        errors.setdefault(field or str(place[0]), []).append(why_invalid(one))
    text = "; ".join(f"{field}: {', '.join(words)}" for field, words in list(errors.items())[:5])
    detail = _("The request has invalid fields, so nothing was changed. %(fields)s")
    if request.method in ("GET", "HEAD"):
        detail = _("The request has invalid fields. %(fields)s")
    return Problem(422, detail % {"fields": text}, errors=errors)


class ProblemMiddleware(Middleware):
    """Answer API requests in JSON for errors where Django would send a page: 404, 405, 400, 500,
    503.
    """

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        is_chat = request.path.startswith(CHAT_ROOT)
        is_page = response.headers.get("Content-Type") != (
            "application/json" if is_chat else MEDIA_TYPE
        )
        is_api = is_chat or request.path.startswith(ROOT)
        if response.status_code < 400 or not is_api or not is_page:
            return response
        failure = getattr(response, "failure", None)
        problem = of_failure(failure) if failure else _problem_for(response.status_code)
        answer = in_openais_form(problem) if is_chat else problem.answer()
        for name in ("Allow", "Retry-After", "X-Frame-Options"):
            if name in response.headers:
                answer[name] = response.headers[name]
        answer["Content-Length"] = str(len(answer.content))
        return answer


def _problem_for(status: int) -> Problem:
    values = {
        400: _("The request couldn’t be understood."),
        404: _("There is nothing at this URL. See /api/v1/openapi.json for the available URLs."),
        405: _(
            "This URL doesn’t support that method. The Allow header lists the supported methods."
        ),
        413: _("The request is too large."),
    }
    if status == 503:
        return of_failure(GONE)
    server = _(
        "Something went wrong, and your change may not have been saved. The server log has the details."
    )
    return Problem(
        status, values.get(status, server if status >= 500 else HTTPStatus(status).phrase)
    )
