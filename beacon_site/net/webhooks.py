"""Posting signed webhooks to URLs that people entered, through the address guard, without redirects.

The format is Standard Webhooks (standardwebhooks.com): `webhook-id`, `webhook-timestamp`, and
`webhook-signature: v1,<base64 of HMAC-SHA256 over "id.timestamp.body">`.  The key is the base64
after `whsec_`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Container
from dataclasses import dataclass
from http import HTTPStatus

import httpcore
import structlog

from beacon_site.net.address_guard import check_url
from beacon_site.net.bounded import Limits, Meter, unpacker_for
from beacon_site.net.errors import ProviderError, ProviderRejected, ProviderUnavailable
from beacon_site.net.guarded_http import exchange, fields_of
from beacon_site.net.http import retry_after
from beacon_site.text.messages import gettext as _

logger = structlog.get_logger(__name__)

LIMITS = Limits(whole_seconds=15.0, wire_bytes=64 * 1024, unpacked_bytes=64 * 1024, redirects=0)
EXCERPT = 2000  # characters of a response that are kept
_MORSEL = (
    32  # bytes; even expanded a thousandfold they are within the limit, so a beginning is kept
)
PREFIX = "whsec_"


@dataclass(frozen=True, slots=True)
class Answer:
    """A receiver's response, with the beginning of its body."""

    status: int
    excerpt: str
    ms: int


class ReceiverFailed(ProviderUnavailable):
    """The receiver answered, but didn't accept the message; a retry can help."""

    def __init__(self, message: str, answer: Answer, *, retry_after: float | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.answer = answer


class ReceiverGone(ProviderRejected):
    """The receiver doesn't want any more messages (410)."""

    def __init__(self, message: str, answer: Answer) -> None:
        super().__init__(message)
        self.answer = answer


def new_key() -> str:
    """Return a new signing key, in the format that receivers expect."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def signature(key: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(base64.b64decode(key.removeprefix(PREFIX)), signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def check_address(url: str, *, allow_hosts: frozenset[str] = frozenset()) -> str:
    """Return the normalized URL.  Raises ForbiddenAddress with the reason."""
    return str(check_url(url, allow_hosts))


def post(
    url: str, body: bytes, *, message_id: str, key: str, allow_hosts: frozenset[str] = frozenset()
) -> Answer:
    """Post the signed `body` (JSON) and return a successful answer.

    `allow_hosts` ("host:port") are reached without the address guard.
    Raises ForbiddenAddress (such as a private address), ReceiverFailed or ReceiverGone with the
    answer, and ProviderUnavailable if there was none.
    """
    timestamp = int(time.time())
    headers = {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(key, message_id, timestamp, body),
    }
    return deliver(url, body, headers, allow_hosts=allow_hosts)


def deliver(
    url: str,
    body: bytes,
    headers: dict[str, str],
    *,
    allow_hosts: frozenset[str] = frozenset(),
    is_gone: Container[int] = (HTTPStatus.GONE,),
) -> Answer:
    """Post `body` and return a successful answer.  `is_gone` are the statuses for ReceiverGone.

    Raises as `post` does.
    """
    started = time.monotonic()
    target = check_url(url, allow_hosts)
    meter = Meter(LIMITS)
    with exchange("POST", target, headers, meter, allow_hosts, content=body) as response:
        fields = fields_of(response)
        excerpt = _excerpt(response, fields.get("content-encoding", ""), meter)
    answer = Answer(response.status, excerpt, round((time.monotonic() - started) * 1000))
    logger.info("webhook posted", host=target.host, status=answer.status, ms=answer.ms)
    if 200 <= answer.status < 300:
        return answer
    names = {"host": target.host, "status": answer.status}
    if answer.status in is_gone:
        raise ReceiverGone(
            _(
                "“%(host)s” responded with %(status)d, which means that it no longer accepts messages."
            )
            % names,
            answer,
        )
    if 300 <= answer.status < 400:
        raise ReceiverFailed(
            _(
                "“%(host)s” responded with %(status)d and redirected to “%(place)s”. Webhooks don’t follow redirects. Enter the final URL."
            )
            % {**names, "place": fields.get("location", "")[:200]},
            answer,
        )
    raise ReceiverFailed(
        _("“%(host)s” responded with %(status)d %(phrase)s, so the message wasn’t delivered.")
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
    """Return the beginning of the body.  It can be incomplete, since the status is what counts."""
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
        logger.info("webhook response not fully read", why=str(exc))
    return _kept(read)


def _kept(read: bytearray) -> str:
    return read.decode("utf-8", "replace")[:EXCERPT]
