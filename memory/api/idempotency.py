"""`Idempotency-Key` on POST: a request that is sent twice is carried out once.

Data flow: key and fingerprint of the request -> a kept answer, which is given again -> else the
request is carried out and its answer kept, in one transaction: after a crash there is neither.
Only what went well is kept; a refused request has stored nothing and may be sent again.  What it
spent on a model before it failed stays booked.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from memory.advisory_locks import LockId, try_lock_until_commit
from memory.api.auth import Caller
from memory.api.problems import Problem
from memory.api.shown import bare_text, current, shows
from memory.models import ApiAnswer, ApiToken
from memory.models.api import LONGEST_KEY
from memory.usage.booking import kept_booked

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
_KEY = re.compile(rf"[!-~]{{1,{LONGEST_KEY}}}")
_KEPT_HEADERS = ("Location", "ETag", "Content-Type")


def once(request: HttpRequest, caller: Caller, run: Callable[[], HttpResponse]) -> HttpResponse:
    """Carry `run` out, or give the answer that the same request had within 24 hours.

    A request that only reads is carried out each time: what it may show changes.
    Raises Problem: 422 for a key that was used for another request, 409 while that one is still
    being carried out.
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
    """Return what the same request has in common: method, address and body."""
    head = f"{request.method} {request.get_full_path()}\n"
    return hashlib.sha256(head.encode() + request.body).hexdigest()


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        words = _(
            "An Idempotency-Key is 1 to %(most)d visible characters of ASCII, such as a UUID, a new "
            "one for each request that is to be carried out."
        ) % {"most": LONGEST_KEY}
        raise Problem(422, words, errors={HEADER: [words]})
    return key


def _hold(token: ApiToken, key: str) -> bool:
    """Take the key until the transaction ends; False if another request has it."""
    with connection.cursor() as cursor:
        # A model can take longer to answer than a transaction is usually idle.
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '15min'")
    return try_lock_until_commit(LockId.IDEMPOTENCY_KEY, f"{token.pk}:{key}")


def _at_work() -> Problem:
    words = _(
        "A request with this Idempotency-Key is being carried out. Wait for its answer, or send "
        "this again in a moment: it is then answered as that one was."
    )
    return Problem(409, words, headers={"Retry-After": "1"})


def _again(known: ApiAnswer, same: str) -> HttpResponse:
    if known.fingerprint != same:
        words = _(
            "This Idempotency-Key was used within 24 hours for another request. Nothing was done: "
            "take a new key for a new request."
        )
        raise Problem(422, words, errors={HEADER: [words]})
    shows(trust=known.trust)
    response = HttpResponse(known.body, status=known.status, headers=known.headers)
    response[REPLAYED] = "true"
    return response
