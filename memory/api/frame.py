"""The frame of the API: what happens to every request before and after its endpoint.

Bodies are read strictly: JSON of limited size and depth.  Characters that Postgres can't store
(NUL, lone surrogates, controls) are removed from all texts, and the header `Beacon-Cleaned` of
the answer names the fields.  Keys and passwords are replaced by their kind, and the header
`Beacon-Masked` lists the kinds.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext as _
from ninja import NinjaAPI, Router
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation
from ninja.parser import Parser
from pydantic import BaseModel, ConfigDict, Field

from beacon_site.db.advisory_locks import LockId, try_lock_until_commit
from beacon_site.text import secret_scanner
from beacon_site.text.cleaning import clean, one_line
from beacon_site.text.messages import grouped
from memory.accounts import tokens
from memory.api import problems
from memory.api import shown as api_shown
from memory.api.auth import ADMIN, Caller, authenticated
from memory.api.problems import Problem
from memory.api.shown import bare_text, current, shows
from memory.api.versions import one_transaction
from memory.models import ApiAnswer, ApiToken
from memory.models.accounts import MAX_KEY_LENGTH
from memory.services.llm.asking import kept_booked

MAX_BODY = 1024 * 1024  # bytes in a request
MAX_CONTENT_BODY = 12 * 1024 * 1024  # of one that stores a content item: 8 MiB, escaped as JSON
MAX_DEPTH = 32  # levels of nested lists and objects
JSON = "application/json"
CLEANED = "Beacon-Cleaned"
MASKED = "Beacon-Masked"
# A request with this header stores secrets as they are. Only for tokens with the scope admin.
KEEP_SECRETS = "Beacon-Keep-Secrets"
# Fields that quote stored text, which masking would make different from it, and encoded files.
_QUOTING = frozenset(
    {"old_text", "oldText", "old_str", "path", "old_path", "new_path", "key", "file"}
)
_WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")


class _Malformed(ValueError):
    """JSON that the format or Python allows, but the API doesn't."""


def check_size(request: HttpRequest, most: int = MAX_BODY) -> None:
    """Check a body's size, length header and media type before reading it."""
    if request.method not in _WITH_BODY:
        return
    if request.headers.get("Transfer-Encoding"):
        words = _("Send the request with a Content-Length header. Chunked bodies aren’t supported.")
        raise Problem(411, words)
    have = _length(request)
    if have > most:
        params = {"most": grouped(most), "have": grouped(have)}
        words = _("Requests to this URL can be at most %(most)s bytes. This one is %(have)s.")
        if most == MAX_CONTENT_BODY:
            words += " " + _("The text of a content item can be at most 8 MiB. Store it in parts.")
        raise Problem(413, words % params, most=most)
    if have and request.content_type != JSON:
        told_type = {"have": request.content_type or "-"}
        words = _(
            "Send JSON with the header Content-Type: application/json. This request has “%(have)s”."
        )
        raise Problem(415, words % told_type)


def _length(request: HttpRequest) -> int:
    try:
        return max(int(request.META.get("CONTENT_LENGTH") or 0), 0)
    except ValueError:
        return 0


class StrictParser(Parser):
    """Reads bodies and query strings strictly."""

    def parse_body(self, request: HttpRequest) -> Any:
        """Return the JSON of the body.  Raises Problem with the reason."""
        value = parsed(request.body)
        taken: list[str] = []
        value = cleaned(value, taken)
        _note(request, taken)
        if authenticated(request).may("admin") and request.headers.get(KEEP_SECRETS):
            return value
        value, kinds = secret_scanner.mask_all(value, keep=_QUOTING)
        request.api_masked = tuple(kinds)  # type: ignore[attr-defined]
        return value

    def parse_querydict(
        self, data: MultiValueDict[str, Any], list_fields: list[str], request: HttpRequest
    ) -> dict[str, Any]:
        """Return the query string's values, with spaces for characters that can't be stored.

        This keeps their length: query strings aren't stored, but their length is checked.
        """
        read = super().parse_querydict(data, list_fields, request)
        return {
            name: [_spaced(one) for one in value] if isinstance(value, list) else _spaced(value)
            for name, value in read.items()
        }


def parsed(body: bytes) -> Any:
    """Return the value of a JSON text.  Raises Problem if it is invalid or nested too deeply."""
    words = ""
    try:
        value = json.loads(
            body.decode("utf-8-sig"), object_pairs_hook=_object, parse_constant=_no_number
        )
        _check_depth(value)
    except _Malformed as exc:
        words = str(exc)
    except UnicodeDecodeError:
        words = _("The body isn’t valid UTF-8.")
    except RecursionError:
        words = _too_deep()
    except ValueError as exc:
        words = _("The body isn’t valid JSON: %(why)s.") % {"why": exc}
    if words:
        raise Problem(400, words + " " + _("Nothing was changed."))
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        named = Counter(name for name, _value in pairs)
        twice = next(name for name, times in named.items() if times > 1)
        raise _Malformed(
            _("The body contains “%(name)s” twice in the same object.") % {"name": twice[:80]}
        )
    return found


def _no_number(text: str) -> Any:
    raise _Malformed(
        _("The body contains %(text)s, which isn’t a valid JSON number.") % {"text": text}
    )


def _too_deep() -> str:
    return _("The lists and objects in the body are nested more than %(most)d levels deep.") % {
        "most": MAX_DEPTH
    }


def _check_depth(value: Any) -> None:
    level: list[Any] = [value]
    for _depth in range(MAX_DEPTH + 1):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return
    raise _Malformed(_too_deep())


def _inside(value: Any) -> Iterable[Any]:
    found: Iterable[Any] = ()
    if isinstance(value, dict):
        found = value.values()
    elif isinstance(value, list):
        found = value
    return [one for one in found if isinstance(one, dict | list)]


def _spaced(text: str) -> str:
    kept, was_cleaned = clean(text)
    return "".join(clean(char)[0] or " " for char in text) if was_cleaned else kept


def cleaned(value: Any, taken: list[str], place: str = "") -> Any:
    """Return the value with its texts cleaned, and add the changed fields to `taken`."""
    if isinstance(value, str):
        text, was_cleaned = clean(value)
        if was_cleaned:
            taken.append(place or "body")
        return text
    if isinstance(value, dict):
        kept = {}
        for name, one in value.items():
            field = clean(name)[0]
            kept[field] = cleaned(one, taken, place or field)
        return kept
    return [cleaned(one, taken, place) for one in value] if isinstance(value, list) else value


def said_in(request: HttpRequest) -> str:
    """Return all text in a request as one line: its URL and the texts in its body."""
    texts = [unquote(request.get_full_path())]
    with suppress(
        ValueError, RecursionError
    ):  # not JSON: it was rejected, and its answer quotes nothing
        texts += texts_in(json.loads(request.body or b"null"))
    return one_line(clean("\n".join(texts))[0])


def texts_in(value: Any) -> list[str]:
    """Return all texts in a JSON value, including field names."""
    if isinstance(value, str):
        return [value]
    names = list(value) if isinstance(value, dict) else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*names, *(text for one in inner for text in texts_in(one))]


def _note(request: HttpRequest, taken: list[str]) -> None:
    if taken:
        fields = dict.fromkeys([*getattr(request, "api_cleaned", ()), *taken])
        request.api_cleaned = tuple(fields)  # type: ignore[attr-defined]


def cleaned_header(request: HttpRequest) -> str:
    """Return the value of the header: the fields from which characters were removed."""
    fields = getattr(request, "api_cleaned", ())
    return ", ".join(field for field in fields if field.isascii() and field.isprintable())[:500]


# --- Idempotency-Key ---

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
_KEY = re.compile(rf"[!-~]{{1,{MAX_KEY_LENGTH}}}")
_KEPT_HEADERS = ("Location", "ETag", "Content-Type")


def once(request: HttpRequest, caller: Caller, run: Callable[[], HttpResponse]) -> HttpResponse:
    """Call `run`, or return the answer that the same request got within 24 hours.

    A request that only reads runs each time, because what it can show changes.
    Raises Problem: 422 for a key used for another request, 409 while the first one is in
    progress.
    """
    key = request.headers.get(HEADER)
    if key is None or request.method != "POST":
        return run()
    key, same = _checked(key), fingerprint(request)
    with kept_booked(), transaction.atomic():
        if not _hold(caller.token, key):
            raise _at_work()
        mine = ApiAnswer.objects.filter(token=caller.token, key=key)
        known = mine.kept().first()
        if known is not None:
            return _again(known, same)
        mine.delete()
        response = run()
        only_reads = getattr(request, "api_scope", "") == "read"
        if response.status_code < 300 and not only_reads:
            shown = current()
            answer = ApiAnswer(token=caller.token, key=key, fingerprint=same, trust=shown.lowest())
            headers = {name: response[name] for name in _KEPT_HEADERS if name in response.headers}
            body = response.content.decode()
            answer.save_answer(
                response.status_code, headers, body, bare=bare_text(body), ids=shown.ids
            )
    return response


def fingerprint(request: HttpRequest) -> str:
    """Return what identical requests share: method, URL and body."""
    head = f"{request.method} {request.get_full_path()}\n"
    return hashlib.sha256(head.encode() + request.body).hexdigest()


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        words = _(
            "An Idempotency-Key must have 1 to %(most)d visible ASCII characters. A UUID works well. Use a new key for each new request."
        ) % {"most": MAX_KEY_LENGTH}
        raise Problem(422, words, errors={HEADER: [words]})
    return key


def _hold(token: ApiToken, key: str) -> bool:
    """Lock the key until the transaction ends; False if another request has it."""
    with connection.cursor() as cursor:
        # A model can take longer to answer than a transaction is usually allowed to be
        # idle.
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '15min'")
    return try_lock_until_commit(LockId.IDEMPOTENCY_KEY, f"{token.pk}:{key}")


def _at_work() -> Problem:
    words = _(
        "A request with this Idempotency-Key is in progress. Wait for its response, or send this request again in a moment to get the same response."
    )
    return Problem(409, words, headers={"Retry-After": "1"})


def _again(known: ApiAnswer, same: str) -> HttpResponse:
    if known.fingerprint != same:
        words = _(
            "This Idempotency-Key was used for a different request in the last 24 hours, so nothing was changed. Use a new key for each new request."
        )
        raise Problem(422, words, errors={HEADER: [words]})
    shows(trust=known.trust)
    response = HttpResponse(known.body, status=known.status, headers=known.headers)
    response[REPLAYED] = "true"
    return response


# --- rate limit per token ---


def check(caller: Caller) -> None:
    """Count a request.  Raises Problem (429) with Retry-After over the limit per minute."""
    if seconds := tokens.count_request(caller.token):
        raise Problem(429, tokens.too_many(seconds), headers={"Retry-After": str(seconds)})


# --- requests and answers ---

PREFIX = "/api/v1"
# URLs with a higher limit for bodies.
LARGER = {f"{PREFIX}/content": MAX_CONTENT_BODY, f"{PREFIX}/library": MAX_CONTENT_BODY}
_REF = "#/components/schemas/{model}"


class Body(BaseModel):
    """A request body: strict JSON types, and unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", strict=True)


class PendingOut(api_shown.NoStoredText):
    """The write waits for a person's approval. Nothing has been saved yet."""

    proposal: str = Field(description="The proposal's ID.")
    reason: str = Field("", description="Why it needs approval.")


def router(tag: str, *, is_held: bool = False) -> Router:
    """Return a router whose endpoints are listed under `tag` in the reference.

    `is_held` makes each change of one record a transaction that locks its row.
    """
    made = Router(tags=[tag])
    if is_held:
        made.add_decorator(one_transaction)
    return made


class BeaconAPI(NinjaAPI):
    """The API with Beacon's request handling. An endpoint without a scope needs `admin`."""

    def __init__(self, **more: Any) -> None:
        super().__init__(parser=StrictParser(), auth=ADMIN, **more)
        problems.install(self)
        self.add_decorator(entered, mode="view")
        self._document: OpenAPISchema | None = None

    def get_openapi_operation_id(self, operation: Operation) -> str:
        """Return the name of the endpoint's function, which is unique."""
        return operation.view_func.__name__

    def get_openapi_schema(self, **more: Any) -> OpenAPISchema:
        """Return the OpenAPI document with every possible answer, created once per process."""
        if self._document is None:
            document = super().get_openapi_schema(**more)
            _add_problems(document)
            self._document = document
        return self._document


def entered(run: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Wrap an endpoint in the steps that all endpoints share.

    `run` is the bound method of its operation, which knows its parameters.
    """
    known = _query_names(run.__self__)  # type: ignore[attr-defined]

    @wraps(run)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with api_shown.collected() as told:
            try:
                caller = authenticated(request)
                check_size(request, LARGER.get(request.path, MAX_BODY))
                check(caller)
                caller.check_topics(request)
                _check_query(request, known)
                response = once(request, caller, lambda: run(request, *args, **kwargs))
                if not caller.may("read"):
                    sent = said_in(request) if response.status_code >= 400 else ""
                    response = api_shown.without_stored_text(response, sent=sent)
                api_shown.noted(caller, response, told)
            except problems.Problem as exc:
                response = exc.answer()
        response["Cache-Control"] = "no-store"
        if taken := cleaned_header(request):
            response[CLEANED] = taken
        if kinds := getattr(request, "api_masked", ()):
            response[MASKED] = ", ".join(kind for kind in kinds if kind.isascii())
        return response

    return answer


def _query_names(operation: Operation) -> list[str]:
    """Return the names of the query parameters that an operation reads."""
    models: Iterable[Any] = operation.models
    queries = [one for one in models if one.__ninja_param_source__ == "query"]
    return [name for one in queries for name in one.__ninja_flatten_map__]


def _check_query(request: HttpRequest, known: list[str]) -> None:
    """Raise Problem (422) for parameters that the endpoint doesn't have.

    Without this, a misspelled filter would return all records.
    """
    unknown = [name for name in request.GET if name not in known]
    if not unknown:
        return
    params = {"names": ", ".join(unknown), "known": ", ".join(known)}
    if known:
        words = _("Unknown query parameters: %(names)s. This call accepts %(known)s.")
    else:
        words = _("Unknown query parameters: %(names)s. This call accepts none.")
    why = _("isn’t a known parameter")
    raise Problem(422, words % params, errors={name: [why] for name in unknown})


def located(response: HttpResponse, path: str) -> None:
    """Set the answer's Location to the URL of the new object (`/notes/0190…`)."""
    response["Location"] = PREFIX + path


# --- OpenAPI ---


def _add_problems(document: dict[str, Any]) -> None:
    """Add the problems that the frame or the arguments can cause to each endpoint."""
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
    found = [401, 403, 422, 429, 503]
    if method != "get":
        found += [400, 409, 411, 413, 415]
    if "{" in path:
        found.append(404)
    if any(one["name"] == "If-Match" for one in parameters):
        found += [412, 428]
    return found


_IDEMPOTENCY_KEY = {
    "in": "header",
    "name": HEADER,
    "required": False,
    "schema": {
        "type": "string",
        "minLength": 1,
        "maxLength": 255,
        "pattern": "^[!-~]+$",
    },
    "description": "Use a new key for each request. A request repeated with the same key is executed only once.",
}
