"""The frame of the API: what happens to every request before and after its endpoint.

Data flow: bearer token -> size and type of the body -> the token's limit -> the Idempotency-Key ->
the endpoint's own scope, arguments and function -> JSON, or a problem.  An endpoint calls the same
model methods and activities as pages and tools; what they refuse becomes a problem by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI, Router
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation
from pydantic import BaseModel, ConfigDict, Field

from memory.api import bodies, idempotency, problems, shown, throttling
from memory.api.auth import ADMIN, authenticated
from memory.api.versions import one_transaction

PREFIX = "/api/v1"
# Addresses whose bodies may be larger than others'.
LARGER = {f"{PREFIX}/content": bodies.MOST_CONTENT_BODY}
_REF = "#/components/schemas/{model}"


class Body(BaseModel):
    """What is sent: types as JSON has them, and no field that is not known."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Held(shown.Textless):
    """The write waits for a person, under Review: nothing is stored yet."""

    proposal: str = Field(description="The proposal's id.")
    why: str = Field("", description="Why it is held, in words.")


def router(tag: str, *, is_held: bool = False) -> Router:
    """Return a router whose endpoints are listed under `tag` in the documents.

    `is_held` makes each change of one record a transaction that holds its row.
    """
    made = Router(tags=[tag])
    if is_held:
        made.add_decorator(one_transaction)
    return made


class BeaconAPI(NinjaAPI):
    """The API with Beacon's frame; an endpoint that names no scope takes `admin` alone."""

    def __init__(self, **more: Any) -> None:
        super().__init__(parser=bodies.StrictParser(), auth=ADMIN, **more)
        problems.install(self)
        self.add_decorator(entered, mode="view")
        self._document: OpenAPISchema | None = None

    def get_openapi_operation_id(self, operation: Operation) -> str:
        """Return the endpoint's function as its name; each has another."""
        return operation.view_func.__name__

    def get_openapi_schema(self, **more: Any) -> OpenAPISchema:
        """Return the OpenAPI document with every answer that can come; made once a process."""
        if self._document is None:
            document = super().get_openapi_schema(**more)
            _add_problems(document)
            self._document = document
        return self._document


def entered(run: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Wrap an endpoint's run in what is the same for all."""

    @wraps(run)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with shown.collected() as told:
            try:
                caller = authenticated(request)
                bodies.check_size(request, LARGER.get(request.path, bodies.MOST_BODY))
                throttling.check(caller)
                response = idempotency.once(request, caller, lambda: run(request, *args, **kwargs))
                if not caller.may("read"):
                    sent = bodies.said_in(request) if response.status_code >= 400 else ""
                    response = shown.without_stored_text(response, sent=sent)
                shown.noted(caller, response, told)
            except problems.Problem as exc:
                response = exc.answer()
        response["Cache-Control"] = "no-store"
        if taken := bodies.cleaned_header(request):
            response[bodies.CLEANED] = taken
        return response

    return answer


def located(response: HttpResponse, path: str) -> None:
    """Let the answer say where the thing is that was made (`/notes/0190…`)."""
    response["Location"] = PREFIX + path


# --- the OpenAPI document -----------------------------------------------------------------------------


def _add_problems(document: dict[str, Any]) -> None:
    """Name in each endpoint the problems that the frame or its arguments can lead to."""
    schema = problems.ProblemOut.model_json_schema(ref_template=_REF)
    document["components"]["schemas"]["ProblemOut"] = schema
    for path, methods in document["paths"].items():
        for method, endpoint in methods.items():
            known = {int(status): told for status, told in endpoint["responses"].items()}
            for status in _statuses(path, method, endpoint):
                known.setdefault(status, {"description": HTTPStatus(status).phrase})
            for status, told in known.items():
                if status >= 400:
                    reference = {"$ref": _REF.format(model="ProblemOut")}
                    told["content"] = {problems.MEDIA_TYPE: {"schema": reference}}
            endpoint["responses"] = {str(status): known[status] for status in sorted(known)}
            if method == "post":
                endpoint.setdefault("parameters", []).append(_IDEMPOTENCY_KEY)


def _statuses(path: str, method: str, endpoint: dict[str, Any]) -> list[int]:
    parameters = endpoint.get("parameters", [])
    found = [401, 403, 429, 503]
    if parameters or endpoint.get("requestBody") or method == "post":
        found.append(422)
    if method != "get":
        found += [400, 409, 411, 413, 415]
    if "{" in path:
        found.append(404)
    if any(one["name"] == "If-Match" for one in parameters):
        found += [412, 428]
    return found


_IDEMPOTENCY_KEY = {
    "in": "header",
    "name": idempotency.HEADER,
    "required": False,
    "schema": {
        "type": "string",
        "minLength": 1,
        "maxLength": 255,
        "pattern": "^[!-~]+$",
    },
    "description": "A new one for each request: sent twice with the same key it is done once.",
}
