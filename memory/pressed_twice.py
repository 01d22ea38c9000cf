"""A form that is sent twice in a hurry, without JavaScript too, does what it does once.

Data flow: who, where to and what was typed -> a lock that the second press waits for -> the first
one's answer, kept for seconds -> the second is sent where the first one led.  What is shown once,
and never stored, cannot be shown again: there the second press makes another in the first one's
place (`one_press`).  While Redis is away nothing is kept, and a form sent twice does it twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import structlog
from django.core.cache import cache
from django.db import connection, transaction
from django.http import HttpResponse
from redis.exceptions import RedisError

from beacon_site.http import BeaconRequest
from memory.responses import go_to

logger = structlog.get_logger(__name__)

HURRY = 10  # seconds between two presses: a page may take some to answer the first
View = Callable[..., HttpResponse]


@dataclass(frozen=True, slots=True)
class Press:
    """One press of a form; `before` is what the same form kept when it was pressed just now, or ""."""

    digest: bytes
    before: str

    def keep(self, made: str) -> None:
        """Keep for the next press what this one came to."""
        _keep(self.digest, made)


@contextmanager
def one_press(request: BeaconRequest) -> Iterator[Press]:
    """Let nobody else press the same form until the block ends, in a transaction."""
    digest = _digest(request)
    with transaction.atomic():
        _wait(digest)
        yield Press(digest, _kept(digest))


def once_a_press(view: View) -> View:
    """Let the same form, sent twice within `HURRY`, lead to where the first one led.

    Only an answer that leads on is kept: a form that is shown again has stored nothing.
    """

    @wraps(view)
    def pressed(request: BeaconRequest, *args: Any, **more: Any) -> HttpResponse:
        if request.method != "POST":
            return view(request, *args, **more)
        with one_press(request) as press:
            if press.before:
                return go_to(request, press.before)
            response = view(request, *args, **more)
            led_to = response.headers.get("HX-Redirect") or response.headers.get("Location")
            press.keep(led_to or "")
        return response

    return pressed


def _digest(request: BeaconRequest) -> bytes:
    sent: dict[str, Any] = dict(request.FILES.items())
    files = [(name, file.name, file.size) for name, file in sent.items()]
    # The form's CSRF token among them is another one each time that the form is shown: who opens it
    # anew and types the same means it.
    typed = sorted(request.POST.lists())
    same = (request.user.pk, request.get_full_path(), typed, sorted(files))
    return hashlib.sha256(repr(same).encode()).digest()


def _wait(digest: bytes) -> None:
    """Wait until no other request with this digest is at work, and hold it to the transaction's end."""
    with connection.cursor() as cursor:
        number = int.from_bytes(digest[:8], "big", signed=True)
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])


def _name(digest: bytes) -> str:
    return f"pressed:{digest.hex()}"


def _kept(digest: bytes) -> str:
    try:
        return str(cache.get(_name(digest)) or "")
    except RedisError:
        return ""


def _keep(digest: bytes, made: str) -> None:
    if not made:
        return
    try:
        cache.set(_name(digest), made, HURRY)
    except RedisError as exc:
        logger.info("what a form came to was not kept", error=type(exc).__name__)
