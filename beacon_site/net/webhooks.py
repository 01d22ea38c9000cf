"""Posting signed messages to addresses that people gave: guarded like fetches, no redirect followed.

The form is that of Standard Webhooks (standardwebhooks.com): `webhook-id`, `webhook-timestamp`, and
`webhook-signature: v1,<base64 of HMAC-SHA256 over "id.timestamp.body">`; the key is what stands
after `whsec_`, in base64.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from http import HTTPStatus

import httpcore
import structlog
from django.utils.translation import gettext as _

from beacon_site.net.address_guard import check_url
from beacon_site.net.bounded import Limits, Meter, unpacker_for
from beacon_site.net.errors import ProviderError, ProviderRejected, ProviderUnavailable
from beacon_site.net.guarded_http import exchange, fields_of
from beacon_site.net.http import retry_after

logger = structlog.get_logger(__name__)

LIMITS = Limits(whole_seconds=15.0, wire_bytes=64 * 1024, unpacked_bytes=64 * 1024, redirects=0)
EXCERPT = 2000  # characters of an answer that are kept
_MORSEL = 32  # bytes: packed a thousandfold they are within the limit, so its beginning is kept
PREFIX = "whsec_"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver answered, with the beginning of its body."""

    status: int
    excerpt: str
    ms: int


class ReceiverFailed(ProviderUnavailable):
    """The receiver answered, but not that it took the message; another try may help."""

    def __init__(self, message: str, answer: Answer, *, retry_after: float | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.answer = answer


class ReceiverGone(ProviderRejected):
    """The receiver says that it wants no message any more (410)."""

    def __init__(self, message: str, answer: Answer) -> None:
        super().__init__(message)
        self.answer = answer


def new_key() -> str:
    """Return a new key to sign with, as receivers take it."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def signature(key: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(base64.b64decode(key.removeprefix(PREFIX)), signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def check_address(url: str, *, allow_hosts: frozenset[str] = frozenset()) -> str:
    """Return the address as it is posted to.  Raises ForbiddenAddress with the reason."""
    return str(check_url(url, allow_hosts))


def post(
    url: str, body: bytes, *, message_id: str, key: str, allow_hosts: frozenset[str] = frozenset()
) -> Answer:
    """Post `body` (JSON), signed, and return the answer, which is one of success.

    `allow_hosts` ("host:port") are reached without the address guard.
    Raises ForbiddenAddress (a private one, say), ReceiverFailed or ReceiverGone with the answer,
    ProviderUnavailable where none came.
    """
    started = time.monotonic()
    target = check_url(url, allow_hosts)
    timestamp = int(time.time())
    headers = {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(key, message_id, timestamp, body),
    }
    meter = Meter(LIMITS)
    with exchange("POST", target, headers, meter, allow_hosts, content=body) as response:
        fields = fields_of(response)
        excerpt = _excerpt(response, fields.get("content-encoding", ""), meter)
    answer = Answer(response.status, excerpt, round((time.monotonic() - started) * 1000))
    logger.info("webhook posted", host=target.host, status=answer.status, ms=answer.ms)
    if 200 <= answer.status < 300:
        return answer
    names = {"host": target.host, "status": answer.status}
    if answer.status == HTTPStatus.GONE:
        raise ReceiverGone(_("“%(host)s” answered 410: it wants no more messages.") % names, answer)
    if 300 <= answer.status < 400:
        raise ReceiverFailed(
            _(
                "“%(host)s” answered %(status)d and redirects to “%(place)s”. Webhooks follow no "
                "redirect: enter the address that takes the message itself."
            )
            % {**names, "place": fields.get("location", "")[:200]},
            answer,
        )
    raise ReceiverFailed(
        _("“%(host)s” answered %(status)d %(phrase)s, so the message counts as not taken.")
        % {**names, "phrase": _phrase(answer.status)},
        answer,
        retry_after=retry_after(fields),
    )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _excerpt(response: httpcore.Response, encoding: str, meter: Meter) -> str:
    """Return the beginning of the body; that it breaks off changes nothing: the status is there."""
    read = bytearray()
    try:
        unpacker = unpacker_for(encoding, limit=LIMITS.unpacked_bytes)
        for piece in response.iter_stream():
            meter.remaining()
            for start in range(0, len(piece), _MORSEL):
                read += unpacker.feed(piece[start : start + _MORSEL])
                if len(read) >= EXCERPT * 4:
                    return _kept(read)
    except (
        ProviderError,
        httpcore.NetworkError,
        httpcore.TimeoutException,
        httpcore.RemoteProtocolError,
    ) as exc:
        logger.info("answer of a webhook not read to its end", why=str(exc))
    return _kept(read)


def _kept(read: bytearray) -> str:
    return read.decode("utf-8", "replace")[:EXCERPT]
