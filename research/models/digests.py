"""Rows that are opened by a private address: their id, signed by the site's secret key."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any, ClassVar, Self

from django.conf import settings
from django.core import signing
from django.core.validators import MaxValueValidator
from django.db import models
from django.urls import reverse
from django.utils import timezone
from django.utils.dateformat import format as date_text
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.models import Topic
from memory.models.history import OwnedQuerySet
from research.models.runs import Run


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


# --- Digests, one message over many topics, and the private addresses of feeds ---


class DigestSettingsQuerySet(OwnedQuerySet):
    """The questions asked of people's digest settings."""

    def due(self, at: datetime) -> Self:
        """Keep those whose next digest is due."""
        return self.filter(next_at__lte=at, owner__is_active=True)

    def of_another_zone(self, at: datetime) -> Self:
        """Keep those not due yet whose hour was reckoned for a zone that their owner has left."""
        ahead = self.filter(next_at__gt=at, owner__is_active=True)
        return ahead.exclude(zone=models.F("owner__time_zone"))


class DigestSettings(models.Model):
    """When a person gets a digest: which topics stand in it is each topic's own choice."""

    class Often(models.TextChoices):
        NEVER = "never", gettext_lazy("never")
        DAILY = "daily", gettext_lazy("every day")
        WEEKLY = "weekly", gettext_lazy("every week")

    owner = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", primary_key=True
    )
    often = models.CharField(max_length=8, choices=Often, default=Often.NEVER)
    hour = models.PositiveSmallIntegerField(default=7, validators=[MaxValueValidator(23)])
    weekday = models.PositiveSmallIntegerField(default=1, validators=[MaxValueValidator(6)])
    # From 0, Sunday, as cron counts them.
    even_if_quiet = models.BooleanField(default=False)
    next_at = models.DateTimeField(null=True, blank=True)
    # The owner's time zone for which `next_at` was reckoned.
    zone = models.CharField(max_length=64, default="", blank=True)

    objects: ClassVar[DigestSettingsQuerySet] = DigestSettingsQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name_plural = gettext_lazy("digest settings")

    def __str__(self) -> str:
        return f"{self.get_often_display()}"


class Digest(models.Model):
    """One digest: the runs that ended since the last one.  What it shows is read from them."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    slot = models.DateTimeField()
    since = models.DateTimeField(null=True, blank=True)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[OwnedQuerySet] = OwnedQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("-created", "-id")
        constraints = [models.UniqueConstraint(fields=["owner", "slot"], name="digest_once_a_slot")]

    def __str__(self) -> str:
        return _("Digest of %(day)s") % {
            "day": date_text(timezone.localtime(self.created), "j F Y")
        }


class DigestEntry(models.Model):
    """One run in a digest: in one only, so that nothing is told twice or left out."""

    digest = models.ForeignKey(Digest, models.CASCADE, related_name="entries")
    run = models.OneToOneField(Run, models.CASCADE, related_name="digest_entry", primary_key=True)

    objects: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        verbose_name_plural = gettext_lazy("digest entries")

    def __str__(self) -> str:
        return f"{self.run}"


class FeedQuerySet(OwnedQuerySet):
    """The questions asked of feeds."""

    def working(self) -> Self:
        """Keep feeds that can be read."""
        return self.filter(ended_at=None)


class Feed(PrivateLink):
    """A private address under which a feed reader finds what changed, of one topic or of all."""

    SALT, VIEW = "beacon.feed", "research:feed"

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    topic = models.ForeignKey(Topic, models.CASCADE, null=True, blank=True, related_name="+")
    with_private = models.BooleanField(default=False)
    created = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)
    opened_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[FeedQuerySet] = FeedQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("created", "id")
        indexes = [models.Index(fields=["owner", "created"], name="feed_of_owner")]

    def __str__(self) -> str:
        return _("feed for %(topic)s") % {"topic": self.topic} if self.topic else _("feed")
