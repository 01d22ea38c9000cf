"""Rows that are opened by a private address: their id, signed by the site's secret key."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.core import signing
from django.db import models
from django.urls import reverse


class PrivateLink(models.Model):
    """A row with a private address, which can be shown again at any time and cannot be guessed.

    What a copy of the database holds opens nothing, for the signature is not kept.
    """

    SALT: ClassVar[str]  # of this kind of row alone: an address of one opens none of another
    VIEW: ClassVar[str]  # the name of the page that opens it

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)

    class Meta:
        abstract = True

    @property
    def token(self) -> str:
        """Return the last part of the address."""
        return self._signer().sign(self.pk.hex)

    @property
    def address(self) -> str:
        """Return the whole address, as it is given away."""
        return settings.BEACON_URL + reverse(self.VIEW, args=[self.token])

    @classmethod
    def key_of(cls, token: str) -> uuid.UUID | None:
        """Return the id in an address of this site, None for a text that is none."""
        try:
            return uuid.UUID(cls._signer().unsign(token))
        except (signing.BadSignature, ValueError):
            return None

    @classmethod
    def _signer(cls) -> signing.Signer:
        return signing.Signer(salt=cls.SALT, sep=".")
