"""Connections to outside services, set up by admins for the whole server."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import ClassVar

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from beacon_site.text import redaction


def _cipher() -> Fernet:
    """Return the cipher for stored secrets. Its key is derived from SECRET_KEY."""
    digest = hashlib.sha256(b"beacon connection secrets\0" + settings.SECRET_KEY.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(digest))


def seal(text: str) -> str:
    """Return `text` encrypted, or "" for an empty text."""
    return _cipher().encrypt(text.encode()).decode() if text else ""


def unseal(stored: str) -> str:
    """Return the text that `seal` encrypted, or "" for nothing or if SECRET_KEY has changed since."""
    if not stored:
        return ""
    try:
        return _cipher().decrypt(stored.encode()).decode()
    except InvalidToken:
        return ""


class HasSecret(models.Model):
    """A row with a secret, which is stored encrypted and never shown."""

    secret = models.TextField(blank=True, editable=False)

    class Meta:
        abstract = True

    def set_secret(self, secret: str) -> None:
        """Set the encrypted secret. The caller saves the row."""
        self.secret = seal(secret)

    def reveal_secret(self) -> str:
        """Return the secret for a request, or "" if there is none or SECRET_KEY has changed."""
        secret = unseal(self.secret)
        redaction.remember(secret)
        return secret

    @property
    def secret_is_lost(self) -> bool:
        """Return True if there is a stored secret that the current SECRET_KEY can't decrypt."""
        return bool(self.secret) and not self.reveal_secret()


class ConnectionQuerySet(models.QuerySet["Connection"]):
    def by_name(self, kinds: Mapping[str, str]) -> dict[str, Connection]:
        """Return a row for each name, an unsaved one of its kind if there is none: one query."""
        rows = {row.name: row for row in self.filter(name__in=kinds)}
        return {name: rows.get(name) or Connection(kind=kinds[name], name=name) for name in kinds}


class Connection(HasSecret):
    """An outside service, with its URL and its key.

    `profile` holds what was detected or configured. `prices` are per million tokens.
    """

    class Kind(models.TextChoices):
        MODEL = "model", _("model")
        EMBEDDINGS = "embeddings", _("embeddings")
        SEARCH = "search", _("search")

    kind = models.CharField(max_length=12, choices=Kind)
    name = models.CharField(max_length=40)
    base_url = models.CharField(_("URL"), max_length=500, blank=True)
    model = models.CharField(_("model"), max_length=200, blank=True)
    profile = models.JSONField(default=dict, blank=True)
    prices = models.JSONField(default=dict, blank=True)
    updated = models.DateTimeField(auto_now=True)

    objects: ClassVar[ConnectionQuerySet] = ConnectionQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "name"], name="connection_once_a_service")
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.name}"


class OwnKey(HasSecret):
    """A person's own key for the model's endpoint, used for that person's calls and topics.

    `origin` is the scheme and host that it was entered for. It's sent nowhere else.
    """

    owner = models.OneToOneField(
        "memory.User", models.CASCADE, related_name="own_key", primary_key=True
    )
    origin = models.CharField(max_length=300)
    updated = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"key of {self.owner}"
