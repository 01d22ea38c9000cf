"""What stands in no log and in no stored prompt: keys and passwords, and what looks like one.

Data flow: settings and whatever was unsealed in this process (`remember`) -> `redact` for texts that
are kept, `redact_line` for a line of the log as it is written, so that it meets our own lines, those
of every library, and tracebacks.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, MutableMapping
from typing import Any
from urllib.parse import quote
from uuid import UUID

import structlog
from django.conf import settings

LEAST = 8  # characters: what is shorter would take ordinary words out of texts
MOST = 500  # unsealed secrets that one process keeps in mind
SECRET = "[secret]"  # noqa: S105 - the word that stands in its place  # nosec B105

_KEYS = re.compile(r"\b(?:sk-[A-Za-z0-9_-]{16,}|bcn_[A-Za-z0-9_-]{16,}|tvly-[A-Za-z0-9-]{16,})")
# The token of a one-time link or of a private address, wherever a line holds it.
_LINKS = re.compile(
    r"(/|%2F)(first-account|invitation|feeds|unsubscribe|shared)(/|%2F)[\w%~.:-]+", re.IGNORECASE
)
# `Authorization: Bearer …`, also in a dictionary of headers.
_HEADERS = re.compile(r"\b(bearer|basic) +[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_COOKIES = re.compile(r"\b((?:__Host-)?sessionid|csrftoken|csrfmiddlewaretoken)(\W{1,4})[\w-]{16,}")
_USERINFO = re.compile(r"(://)[^\s/@\"'\\]+@")
# What people looked for stands after the question mark; keys of services do, too.
_QUERIES = re.compile(r"((?:://|/)[^\s?\"'<>\\]*)\?[^\s\"'<>\\]+")

_lock = threading.Lock()
_unsealed: dict[str, None] = {}


def remember(*secrets: str) -> None:
    """Keep in mind what was unsealed here, the newest `MOST`: no line of this process shows it."""
    with _lock:
        for secret in secrets:
            if len(secret) >= LEAST:
                _unsealed.pop(secret, None)
                _unsealed[secret] = None
        while len(_unsealed) > MOST:
            del _unsealed[next(iter(_unsealed))]


def redact(text: str, *more: str) -> str:
    """Return `text` without anything that is, or looks like, one of our secrets; or `more`."""
    for secret in (*_ours(), *more):
        if secret and len(secret) >= LEAST:
            text = text.replace(secret, SECRET)
    return _KEYS.sub(SECRET, text)


def redact_line(line: str) -> str:
    """Return a line of the log as it may be written: no secret, no private address, no query."""
    with _lock:
        unsealed = list(_unsealed)
    for secret in (*_ours(), *unsealed):
        if len(secret) >= LEAST:
            for written in _ways_to_write(secret):
                line = line.replace(written, SECRET)
    line = _KEYS.sub(SECRET, line)
    line = _LINKS.sub(r"\1\2\3[token]", line)
    line = _HEADERS.sub(rf"\1 {SECRET}", line)
    line = _COOKIES.sub(rf"\1\2{SECRET}", line)
    line = _USERINFO.sub(rf"\1{SECRET}@", line)
    return _QUERIES.sub(r"\1?[left out]", line)


def _ours() -> Iterable[str]:
    """Return the secrets of the settings."""
    database = settings.DATABASES["default"].get("PASSWORD", "")
    return (
        settings.SECRET_KEY,
        settings.OPENAI_API_KEY,
        settings.EMAIL_HOST_PASSWORD,
        str(database or ""),
        *settings.SEARCH_KEYS.values(),
    )


def _ways_to_write(secret: str) -> set[str]:
    """Return the secret as it is, as JSON writes it, and as an address does."""
    return {secret, json.dumps(secret)[1:-1], quote(secret, safe="")}


# --- The lines of the log: readable or JSON, each with its ids, and what they leave out ---

Event = MutableMapping[str, Any]

READABLE, JSON = "readable", "json"
_PROBES = ("GET /livez", "GET /readyz", "HEAD /livez", "HEAD /readyz", "GET /metrics")
# What Postgres adds to an error: the values of the row.  It stands at the end of the error's text.
_ROWS = re.compile(
    r"\n(?:DETAIL|CONTEXT|QUERY): .*?(?=\n\n(?:The above exception|During handling)|\Z)", re.DOTALL
)
# What Pydantic adds to an error: what it was given.
_INPUTS = re.compile(r"input_value=.*?(?=, input_type=)", re.DOTALL)


def formatter(form: str, process: str) -> dict[str, Any]:
    """Return the formatter of the console, for `logging.config`; `form` is READABLE or JSON."""
    is_json = form == JSON
    readable = structlog.processors.LogfmtRenderer(
        key_order=["timestamp", "level", "event"], bool_as_flag=False
    )
    return {
        "()": structlog.stdlib.ProcessorFormatter,
        "processors": [
            told_by_route,
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            without_rows,
            # Behind `make up`'s own column a line need not say again which process it is of.
            *([_OfProcess(process)] if is_json else []),
            structlog.processors.JSONRenderer() if is_json else readable,
            without_secrets,
        ],
        "foreign_pre_chain": SHARED,
    }


class _OfProcess:
    """Names the process in each line."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, _logger: Any, _name: str, event: Event) -> Event:
        event["process"] = self._name
        return event


def told_by_route(_logger: Any, _name: str, event: Event) -> Event:
    """Put the route in the place of the address, in what Django logs of a request."""
    request = getattr(event.get("_record"), "request", None)
    path = getattr(request, "path", "")
    if path and isinstance(event.get("event"), str):
        # Django escapes what it fills in (`log_response`).
        for written in (path, path.encode("unicode_escape").decode("ascii")):
            event["event"] = event["event"].replace(written, address_of(request))
    return event


def address_of(request: Any) -> str:
    """Return the address of a request, with `<name>` for each part that is somebody's words.

    Numbers and ids stand as they are; an address that leads nowhere is not told.
    """
    match = getattr(request, "resolver_match", None)
    if match is None:
        return "/static/…" if request.path.startswith("/static/") else "(no route)"

    def part(found: re.Match[str]) -> str:
        value = match.kwargs.get(found["name"])
        return str(value) if isinstance(value, int | UUID) else f"<{found['name']}>"

    return "/" + re.sub(r"<(?:\w+:)?(?P<name>\w+)>", part, match.route)


def without_rows(_logger: Any, _name: str, event: Event) -> Event:
    """Cut the values of rows, and of what was checked, out of the texts of errors."""
    for key, value in event.items():
        if isinstance(value, BaseException):
            value = event[key] = f"{type(value).__name__}: {value}"
        if isinstance(value, str):
            event[key] = _INPUTS.sub("input_value=[left out]", _ROWS.sub("", value))
    return event


def without_secrets(_logger: Any, _name: str, line: str) -> str:
    """Mask every secret in the line as it is written."""
    return redact_line(line)


def without_noise(_logger: Any, _name: str, event: Event) -> Event:
    """Drop the line at a request's beginning (its end tells all), and those of probes."""
    if event.get("event") == "request_started" and "code" not in event:
        raise structlog.DropEvent
    is_probe = str(event.get("request")) in _PROBES and event.get("code", 500) < 400
    if event.get("event") == "request_finished" and is_probe:
        raise structlog.DropEvent
    return event


SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]
