"""The lines of the log: readable or JSON, each with its ids, and what they leave out.

A line has the `process` that wrote it and, where there is one, the `request_id`, `task_id` and `run`.
It holds no secret, no text out of a row, no query and no part of an address that is somebody's words:
an address is told by its route (`GET /topics/<slug>/runs/7/`).
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any
from uuid import UUID

import structlog

from beacon_site.redaction import redact_line

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
