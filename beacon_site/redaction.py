"""What stands in no log and in no stored prompt: keys and passwords, and what looks like one.

Data flow: settings and whatever was unsealed in this process (`remember`) -> `redact` for texts that
are kept, `redact_line` for a line of the log as it is written, so that it meets our own lines, those
of every library, and tracebacks.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable
from urllib.parse import quote

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
