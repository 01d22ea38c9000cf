"""Digests, feeds, and private links signed with the site's secret key."""

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
    """A row with a private URL, which can be shown at any time and can't be guessed.

    A copy of the database opens nothing, because the signature isn't stored.
    """

    # Each kind of row has its own salt, so a URL of one kind never opens another.
    SALT: ClassVar[str]
    VIEW: ClassVar[str]  # the name of the view that opens it

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)

    class Meta:
        abstract = True

    @property
    def token(self) -> str:
        """Return the last part of the URL."""
        return self._signer().sign(self.pk.hex)

    @property
    def address(self) -> str:
        """Return the full URL to share."""
        return settings.BEACON_URL + reverse(self.VIEW, args=[self.token])

    @classmethod
    def key_of(cls, token: str) -> uuid.UUID | None:
        """Return the id in a URL of this site, or None if it isn't one."""
        try:
            return uuid.UUID(cls._signer().unsign(token))
        except (signing.BadSignature, ValueError):
            return None

    @classmethod
    def _signer(cls) -> signing.Signer:
        return signing.Signer(salt=cls.SALT, sep=".")


# --- digests and feeds ---


class DigestSettingsQuerySet(OwnedQuerySet):
    def due(self, at: datetime) -> Self:
        """Keep settings whose next digest is due."""
        return self.filter(next_at__lte=at, owner__is_active=True)

    def of_another_zone(self, at: datetime) -> Self:
        """Keep settings that aren't due yet and were calculated in an old time zone of the owner."""
        ahead = self.filter(next_at__gt=at, owner__is_active=True)
        return ahead.exclude(zone=models.F("owner__time_zone"))


class DigestSettings(models.Model):
    """When a person gets a digest. Each topic decides whether it is included."""

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
    # Sunday is 0, as in cron.
    even_if_quiet = models.BooleanField(default=False)
    next_at = models.DateTimeField(null=True, blank=True)
    # The owner's time zone for which `next_at` was calculated.
    zone = models.CharField(max_length=64, default="", blank=True)

    objects: ClassVar[DigestSettingsQuerySet] = DigestSettingsQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name_plural = gettext_lazy("digest settings")

    def __str__(self) -> str:
        return f"{self.get_often_display()}"


class Digest(models.Model):
    """One digest. Its content comes from the runs that ended since the previous one."""

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
    """One run in a digest. A run is in at most one digest, so nothing is repeated or missed."""

    digest = models.ForeignKey(Digest, models.CASCADE, related_name="entries")
    run = models.OneToOneField(Run, models.CASCADE, related_name="digest_entry", primary_key=True)

    objects: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        verbose_name_plural = gettext_lazy("digest entries")

    def __str__(self) -> str:
        return f"{self.run}"


class FeedQuerySet(OwnedQuerySet):
    def working(self) -> Self:
        """Keep feeds that can be read."""
        return self.filter(ended_at=None)


class Feed(PrivateLink):
    """A private URL where a feed reader finds the changes of one topic or of all."""

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
