"""A passkey of a test: a key pair that answers as a browser with an authenticator does."""

from __future__ import annotations

import hashlib
import json
import secrets
from base64 import urlsafe_b64encode
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fido2.cose import ES256
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData

PRESENT, VERIFIED, HAS_CREDENTIAL = 0x01, 0x04, 0x40


def b64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


class Passkey:
    """One credential, for one origin."""

    def __init__(
        self, origin: str = "http://localhost:8000", flags: int = PRESENT | VERIFIED
    ) -> None:
        self.origin, self.flags = origin, flags
        self.id = secrets.token_bytes(32)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.user = ""
        self.counter = 0  # as those of phones and password managers, which don't count

    def created(self, options: dict[str, Any]) -> str:
        """Answer `navigator.credentials.create()`."""
        told = options["publicKey"]
        self.user = told["user"]["id"]
        credential = AttestedCredentialData.create(
            b"\0" * 16, self.id, ES256.from_cryptography_key(self.key.public_key())
        )
        data = AuthenticatorData.create(
            self._host(told["rp"]["id"]), self.flags | HAS_CREDENTIAL, self.counter, credential
        )
        attestation = AttestationObject.create("none", data, {})
        response = {
            "clientDataJSON": b64(self._client_data("webauthn.create", told["challenge"])),
            "attestationObject": b64(bytes(attestation)),
            "transports": ["internal"],
        }
        return self._answer(response)

    def signed(self, options: dict[str, Any], **changed: Any) -> str:
        """Answer `navigator.credentials.get()`."""
        told = options["publicKey"]
        client = self._client_data("webauthn.get", told["challenge"])
        host = self._host(told["rpId"])
        data = bytes(AuthenticatorData.create(host, self.flags, self.counter))
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(SHA256()))
        response = {
            "clientDataJSON": b64(client),
            "authenticatorData": b64(data),
            "signature": b64(signature),
            "userHandle": self.user,
        }
        return self._answer(response | changed)

    def _host(self, rp_id: str) -> bytes:
        return hashlib.sha256(rp_id.encode()).digest()

    def _client_data(self, kind: str, challenge: str) -> bytes:
        told = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return json.dumps(told).encode()

    def _answer(self, response: dict[str, Any]) -> str:
        return json.dumps(
            {
                "id": b64(self.id),
                "rawId": b64(self.id),
                "type": "public-key",
                "response": response,
                "clientExtensionResults": {},
                "authenticatorAttachment": "platform",
            }
        )
