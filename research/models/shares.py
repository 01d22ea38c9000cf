"""Links by which somebody without an account reads one report."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any, ClassVar, Self

from django.conf import settings
from django.core import signing
from django.db import models
from django.urls import reverse
from django.utils import timezone

from memory.models.history import OwnedQuerySet
from research.models.reports import Report

MOST_NOTE = 150  # characters
_SIGNER = signing.Signer(salt="beacon.shared-report", sep=".")


class SharedLinkQuerySet(OwnedQuerySet):
    """The questions asked of shared links."""

    def working(self, now: datetime | None = None) -> Self:
        """Keep links that open their report: neither ended nor past their end."""
        return self.filter(ended_at=None, ends_at__gt=now or timezone.now())

    def readable(self) -> Self:
        """Keep links whose report is not in the trash, nor its topic."""
        return self.filter(report__trashed_at=None, report__run__topic__trashed_at=None)


class SharedLink(models.Model):
    """A private link to one report, with an end.

    The link is the row's id with a signature by the site's secret key: it can be shown again at any
    time, cannot be guessed, and what a copy of the database holds opens nothing.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    report = models.ForeignKey(Report, models.CASCADE, related_name="shared_links")
    note = models.CharField(max_length=150, blank=True)  # for the owner alone: who has it
    ends_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    opened = models.PositiveIntegerField(default=0)
    opened_at = models.DateTimeField(null=True, blank=True)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[SharedLinkQuerySet] = SharedLinkQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("-created", "-id")
        indexes = [models.Index(fields=["owner", "-created"], name="shared_link_of_owner")]

    def __str__(self) -> str:
        return f"{self.note or self.pk}: {self.report}"

    @property
    def topic_id(self) -> Any:
        """Return the topic's id, so that a line of the activity log names it."""
        return self.report.run.topic_id

    @property
    def is_working(self) -> bool:
        """Whether it has neither been ended nor come to its end."""
        return self.ended_at is None and self.ends_at > timezone.now()

    @property
    def token(self) -> str:
        """Return the last part of the address."""
        return _SIGNER.sign(self.pk.hex)

    @property
    def address(self) -> str:
        """Return the whole address that is given away."""
        return settings.BEACON_URL + reverse("research:shared-report", args=[self.token])

    @classmethod
    def key_of(cls, token: str) -> uuid.UUID | None:
        """Return the id in a link of this site, None for a text that is none."""
        try:
            return uuid.UUID(_SIGNER.unsign(token))
        except (signing.BadSignature, ValueError):
            return None
