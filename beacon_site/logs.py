"""The format of log lines, readable or JSON, without secrets and what people wrote."""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from typing import Any

import structlog

from beacon_site.text.redaction import address_of, redact_line

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
