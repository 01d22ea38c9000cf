"""OAuth for MCP: the apps that asked for access, and what people allowed them."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import urlsplit

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from memory.models.accounts import LONGEST_NAME, ApiToken

LONGEST_URI = 1_000  # characters in a redirect URI or the URL of a metadata document


class OAuthClientQuerySet(models.QuerySet["OAuthClient"]):
    def never_allowed(self) -> OAuthClientQuerySet:
        """Keep the apps that no one ever allowed anything."""
        return self.filter(grants=None)


class OAuthClient(models.Model):
    """An app that can ask people for access to their memory.

    Either it registered itself (RFC 7591), or its ID is the URL of a metadata document that it
    publishes, which was last read at `read_at`. No app has a secret: anyone can register one, so a
    secret would prove nothing. PKCE binds a code to the app that asked for it.
    """

    client_id = models.CharField(max_length=LONGEST_URI, unique=True)
    name = models.CharField(max_length=LONGEST_NAME)
    redirect_uris = ArrayField(models.CharField(max_length=LONGEST_URI))
    read_at = models.DateTimeField(null=True)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[OAuthClientQuerySet] = OAuthClientQuerySet.as_manager()  # type: ignore[assignment]

    def __str__(self) -> str:
        return self.name

    @property
    def host(self) -> str:
        """Return the host that publishes the app's metadata document, or "" if it has none."""
        return urlsplit(self.client_id).hostname or ""


class OAuthGrant(models.Model):
    """What one person allowed one app, beside the token that the app acts with.

    The token's hash is that of the newest access token, which is valid until `access_until` (null
    until the code is exchanged). The token itself expires with the code, or later with the refresh
    token. `family` is the hash of what the code and all refresh tokens of a grant have in common,
    and `secret` is the hash of the only one that is valid now. That's how a used one is recognized.
    """

    token = models.OneToOneField(ApiToken, models.CASCADE, related_name="grant")
    client = models.ForeignKey(OAuthClient, models.PROTECT, related_name="grants")
    resource = models.CharField(max_length=LONGEST_URI)
    redirect_uri = models.CharField(max_length=LONGEST_URI)
    challenge = models.CharField(max_length=43)
    family = models.CharField(max_length=64, unique=True)
    secret = models.CharField(max_length=64)
    access_until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.client} → {self.token}"
