"""The masking of secrets in logs and stored prompts.

`redact` masks keys and passwords, and text that looks like one, in stored texts.  `redact_line` does
it for each log line as it is written, including lines from libraries and tracebacks.  The secrets
come from the settings and from values decrypted in this process (`remember`).
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django.conf import settings

from beacon_site.text.secret_scanner import mask

MIN = 8  # characters; masking shorter secrets would remove ordinary words
MAX = 500  # decrypted secrets that one process remembers
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
    """Remember decrypted secrets, the newest `MAX`, so that no log line shows them."""
    with _lock:
        for secret in secrets:
            if len(secret) >= MIN:
                _unsealed.pop(secret, None)
                _unsealed[secret] = None
        while len(_unsealed) > MAX:
            del _unsealed[next(iter(_unsealed))]


def redact(text: str, *more: str) -> str:
    """Return `text` without our secrets, texts that look like one, and `more`."""
    for secret in (*_ours(), *more):
        if secret and len(secret) >= MIN:
            text = text.replace(secret, SECRET)
    return _KEYS.sub(SECRET, mask(text, SECRET)[0])


def redact_line(line: str) -> str:
    """Return a log line without secrets, private URLs and queries."""
    with _lock:
        unsealed = list(_unsealed)
    for secret in (*_ours(), *unsealed):
        if len(secret) >= MIN:
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
