"""The format of log lines, and the masking of secrets in logs and stored prompts.

`redact` masks keys and passwords, and text that looks like one, in stored texts.  `redact_line` does
it for each log line as it is written, including lines from libraries and tracebacks.  The secrets
come from the settings and from values decrypted in this process (`remember`).
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, MutableMapping
from typing import Any
from urllib.parse import quote
from uuid import UUID

import structlog
from django.conf import settings

from beacon_site.text.secret_scanner import mask

LEAST = 8  # characters; masking shorter secrets would remove ordinary words
MOST = 500  # decrypted secrets that one process remembers
SECRET = "[secret]"  # noqa: S105 - the replacement  # nosec B105

# A log line needs no exception for examples, which secret_scanner leaves alone.
_KEYS = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|bc[cnor]_[A-Za-z0-9_.-]{16,}|tvly-[A-Za-z0-9-]{16,})"
)
# The token of a one-time link or a private URL, anywhere in a line.
_LINKS = re.compile(
    r"(/|%2F)(first-account|invitation|feeds|unsubscribe|shared)(/|%2F)[\w%~.:-]+", re.IGNORECASE
)
# `Authorization: Bearer …`, also in a dictionary of headers.
_HEADERS = re.compile(r"\b(bearer|basic) +[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_COOKIES = re.compile(r"\b((?:__Host-)?sessionid|csrftoken|csrfmiddlewaretoken)(\W{1,4})[\w-]{16,}")
_USERINFO = re.compile(r"(://)[^\s/@\"'\\]+@")
# After the question mark are people's searches, and keys of services.
_QUERIES = re.compile(r"((?:://|/)[^\s?\"'<>\\]*)\?[^\s\"'<>\\]+")

_lock = threading.Lock()
_unsealed: dict[str, None] = {}


def remember(*secrets: str) -> None:
    """Remember decrypted secrets, the newest `MOST`, so that no log line shows them."""
    with _lock:
        for secret in secrets:
            if len(secret) >= LEAST:
                _unsealed.pop(secret, None)
                _unsealed[secret] = None
        while len(_unsealed) > MOST:
            del _unsealed[next(iter(_unsealed))]


def redact(text: str, *more: str) -> str:
    """Return `text` without our secrets, texts that look like one, and `more`."""
    for secret in (*_ours(), *more):
        if secret and len(secret) >= LEAST:
            text = text.replace(secret, SECRET)
    return _KEYS.sub(SECRET, mask(text, SECRET)[0])


def redact_line(line: str) -> str:
    """Return a log line without secrets, private URLs and queries."""
    with _lock:
        unsealed = list(_unsealed)
    for secret in (*_ours(), *unsealed):
        if len(secret) >= LEAST:
            for written in _ways_to_write(secret):
                line = line.replace(written, SECRET)
    line = _KEYS.sub(SECRET, mask(line, SECRET)[0])
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
    """Return the secret as it is, as JSON writes it, and as a URL does."""
    return {secret, json.dumps(secret)[1:-1], quote(secret, safe="")}


# --- log lines, readable or JSON ---

Event = MutableMapping[str, Any]

READABLE, JSON = "readable", "json"
_PROBES = ("GET /livez", "GET /readyz", "HEAD /livez", "HEAD /readyz", "GET /metrics")
# Postgres adds the values of the row at the end of an error's text.
_ROWS = re.compile(
    r"\n(?:DETAIL|CONTEXT|QUERY): .*?(?=\n\n(?:The above exception|During handling)|\Z)", re.DOTALL
)
# Pydantic adds the input to an error's text.
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
            redact_url,
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            without_rows,
            # `make up` already prints the process in a column.
            *([_OfProcess(process)] if is_json else []),
            structlog.processors.JSONRenderer() if is_json else readable,
            without_secrets,
        ],
        "foreign_pre_chain": SHARED,
    }


class _OfProcess:
    """Names the process in each line.  A fork has another name than the process that loaded this."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, _logger: Any, _name: str, event: Event) -> Event:
        event["process"] = os.environ.get("BEACON_PROCESS") or self._name
        return event


def redact_url(_logger: Any, _name: str, event: Event) -> Event:
    """Replace the URL with the route in Django's log lines about requests."""
    request = getattr(event.get("_record"), "request", None)
    path = getattr(request, "path", "")
    if path and isinstance(event.get("event"), str):
        # Django escapes the values it fills in (`log_response`).
        for written in (path, path.encode("unicode_escape").decode("ascii")):
            event["event"] = event["event"].replace(written, address_of(request))
    return event


def address_of(request: Any) -> str:
    """Return the path of a request, with `<name>` for each part that a person wrote.

    Numbers and ids stay.  A path without a route isn't shown.
    """
    match = getattr(request, "resolver_match", None)
    if match is None:
        return "/static/…" if request.path.startswith("/static/") else "(no route)"

    def part(found: re.Match[str]) -> str:
        value = match.kwargs.get(found["name"])
        return str(value) if isinstance(value, int | UUID) else f"<{found['name']}>"

    return "/" + re.sub(r"<(?:\w+:)?(?P<name>\w+)>", part, match.route)


def without_rows(_logger: Any, _name: str, event: Event) -> Event:
    """Remove the values of rows and of validated input from the texts of errors."""
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
    """Drop the line at a request's start, since its end has everything, and those of health checks."""
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
