"""What the log leaves out: one-time links, probes of health, and the beginning of each request."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any

import structlog

_ONE_TIME = re.compile(
    r"(/|%2F)(first-account|invitation|feeds|unsubscribe)(/|%2F)[\w%~.:-]+", re.IGNORECASE
)
_PROBES = ("GET /livez", "GET /readyz", "HEAD /livez", "HEAD /readyz")


def without_one_time_links(_logger: Any, _name: str, line: str) -> str:
    """Mask the token of a one-time link wherever a line holds its address.

    It comes last, over the line as it is written, so that it meets our own lines, those of
    Django and of every library, and tracebacks.
    """
    return _ONE_TIME.sub(r"\1\2\3[token]", line)


def without_noise(
    _logger: Any, _name: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Drop the line at a request's beginning (its end tells all), and those of health probes."""
    if event.get("event") == "request_started" and "code" not in event:
        raise structlog.DropEvent
    if event.get("event") == "request_finished" and str(event.get("request")) in _PROBES:
        raise structlog.DropEvent
    return event
