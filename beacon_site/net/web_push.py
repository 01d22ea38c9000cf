"""Notifications of browsers: Web Push (RFC 8030), encrypted (RFC 8291) and signed (RFC 8292, VAPID).

A browser's push service only sees ciphertext.  We use `cryptography`, because pywebpush would
bring aiohttp along, and http-ece is only published as source.

The key that signs is derived from SECRET_KEY, so that all processes and hosts have the same one.  With
another SECRET_KEY, people turn notifications on again, as they enter other secrets again.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Mapping
from functools import cache
from urllib.parse import urlsplit

import jwt
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from beacon_site.net import webhooks
from beacon_site.text.messages import gettext as _

# The services of Chrome, Edge and others, Firefox, Safari, and Windows.  Anything else would let a
# person make Beacon post to any address.
SERVICES = (
    "fcm.googleapis.com", "push.services.mozilla.com", "push.apple.com", "notify.windows.com",
)  # fmt: skip
MAX_LENGTH = 3000  # bytes of a message; services accept 4,096 with what encryption adds
KEPT_SECONDS = 86_400  # how long a service keeps a message for a browser that isn't running
RECORD = 4096
_CURVE = ec.SECP256R1()
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def public_key() -> str:
    """Return the key that browsers need to subscribe (base64url)."""
    return _text(_point(_signer().public_key()))


@cache
def _signer_of(secret: str) -> ec.EllipticCurvePrivateKey:
    # 48 bytes, so that the remainder is as good as random.
    made = HKDF(hashes.SHA256(), 48, salt=None, info=b"beacon web push").derive(secret.encode())
    return ec.derive_private_key(int.from_bytes(made) % (_ORDER - 1) + 1, _CURVE)


def _signer() -> ec.EllipticCurvePrivateKey:
    return _signer_of(settings.SECRET_KEY)


def _point(key: ec.EllipticCurvePublicKey) -> bytes:
    form = serialization.PublicFormat.UncompressedPoint
    return key.public_bytes(serialization.Encoding.X962, form)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def subscription_of(text: str, *, allow_hosts: frozenset[str]) -> dict[str, str]:
    """Return the URL and the keys in a browser's subscription (JSON of `PushSubscription`).

    `allow_hosts` ("host:port") are accepted besides the known push services.
    Raises ValueError with the reason for people.
    """
    try:
        told = json.loads(text)
        keys = told["keys"]
        found = {"url": told["endpoint"], "p256dh": keys["p256dh"], "auth": keys["auth"]}
        if not all(isinstance(one, str) for one in found.values()) or len(found["url"]) > 1500:
            raise ValueError
        ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, _bytes(found["p256dh"]))
        if len(_bytes(found["auth"])) != 16:
            raise ValueError
        parts = urlsplit(found["url"])
        host = parts.hostname or ""
        is_known = parts.scheme == "https" and not parts.port
        is_known = is_known and any(host == s or host.endswith(f".{s}") for s in SERVICES)
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            _("The browser didn’t return a valid push subscription. Reload the page and try again.")
        ) from None
    if not is_known and f"{host}:{parts.port}" not in allow_hosts:
        raise ValueError(
            _("This browser uses the push service “%(host)s”, which Beacon doesn’t support.")
            % {"host": host[:100]}
        )
    return found


def message(*, title: str, body: str, url: str, tag: str) -> bytes:
    """Return the message for the browser's worker, shortened to what services accept."""
    values = {"title": title[:200], "body": body[:1000], "url": url, "tag": tag}
    while len(sent := json.dumps(values, ensure_ascii=False).encode()) > MAX_LENGTH:
        values["body"] = values["body"][: len(values["body"]) // 2]
    return sent


def send(
    subscription: Mapping[str, str], body: bytes, *, allow_hosts: frozenset[str] = frozenset()
) -> webhooks.Answer:
    """Send a message to a browser and return the push service's answer.

    Raises as `webhooks.post` does: ReceiverGone if the browser has unsubscribed.
    """
    url = subscription["url"]
    headers = {
        "content-encoding": "aes128gcm",
        "content-type": "application/octet-stream",
        "ttl": str(KEPT_SECONDS),
        "urgency": "normal",
        "authorization": f"vapid t={_token(url)}, k={public_key()}",
    }
    sealed = encrypted(body, subscription["p256dh"], subscription["auth"])
    return webhooks.deliver(url, sealed, headers, allow_hosts=allow_hosts, is_gone=(404, 410))


def _token(url: str) -> str:
    parts = urlsplit(url)
    contact = settings.BEACON_CONTACT or settings.BEACON_URL
    claims = {
        "aud": f"{parts.scheme}://{parts.netloc}",
        "exp": int(time.time()) + 12 * 3600,
        "sub": f"mailto:{contact}" if "@" in contact else contact,
    }
    return jwt.encode(claims, _signer(), algorithm="ES256")


def encrypted(
    body: bytes,
    p256dh: str,
    auth: str,
    *,
    salt: bytes = b"",
    key: ec.EllipticCurvePrivateKey | None = None,
) -> bytes:
    """Return `body` encrypted for a browser's keys.  `salt` and `key` are random unless given."""
    salt = salt or os.urandom(16)
    key = key or ec.generate_private_key(_CURVE)
    browser = ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, _bytes(p256dh))
    ours = _point(key.public_key())
    info = b"WebPush: info\0" + _point(browser) + ours
    shared = _derived(key.exchange(ec.ECDH(), browser), _bytes(auth), info, 32)
    content_key = _derived(shared, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derived(shared, salt, b"Content-Encoding: nonce\0", 12)
    sealed = AESGCM(content_key).encrypt(nonce, body + b"\x02", None)
    return salt + RECORD.to_bytes(4) + len(ours).to_bytes(1) + ours + sealed


def _derived(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt=salt, info=info).derive(secret)
