"""Make POST views safe against double submission, without JavaScript too.

The second request with the same form waits until the first one's transaction ends, then
redirects to where the first one led.  What is shown only once (a token, an invitation) can't be
shown again, so there the second request replaces what the first one created (`submission`).
Without Redis nothing is remembered, and a form that is sent twice acts twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import structlog
from django.core.cache import cache
from django.db import transaction
from django.http import HttpResponse
from redis.exceptions import RedisError

from beacon_site.db.advisory_locks import LockId, lock_until_commit
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import redirect_to

logger = structlog.get_logger(__name__)

REMEMBERED_SECONDS = 10  # a page can take some seconds to answer the first request
View = Callable[..., HttpResponse]


@contextmanager
def submission(request: BeaconRequest) -> Iterator[tuple[str, Callable[[str], None]]]:
    """Process the block in a transaction, one request with the same form after the other.

    Yields the result of the same form seconds ago, or "", and a function that keeps this one's.
    """
    key = _key(request)
    with transaction.atomic():
        lock_until_commit(LockId.DOUBLE_SUBMIT, key)
        try:
            previous = str(cache.get(key) or "")
        except RedisError:
            previous = ""
        yield previous, partial(_remember, key)


def _remember(key: str, result: str) -> None:
    try:
        cache.set(key, result, REMEMBERED_SECONDS)
    except RedisError as exc:
        logger.info("form result not remembered", error=type(exc).__name__)


def idempotent_post(view: View) -> View:
    """Redirect a second POST of the same form to where the first one led.

    Only redirects are remembered: a form that is shown again has stored nothing.
    """

    @wraps(view)
    def once(request: BeaconRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method != "POST":
            return view(request, *args, **kwargs)
        with submission(request) as (previous, remember):
            if previous:
                return redirect_to(request, previous)
            response = view(request, *args, **kwargs)
            headers = response.headers
            if target := headers.get("HX-Redirect") or headers.get("Location"):
                remember(target)
        return response

    return once


def _key(request: BeaconRequest) -> str:
    """Return the cache key of the form: who sent it, where, and all fields.

    Its CSRF token differs each time the form is opened, so the same text in a form that was
    opened again counts as another submission.
    """
    uploads: dict[str, Any] = dict(request.FILES.items())
    files = sorted((name, file.name, file.size) for name, file in uploads.items())
    sent = (request.user.pk, request.get_full_path(), sorted(request.POST.lists()), files)
    return f"submission:{hashlib.sha256(repr(sent).encode()).hexdigest()}"
