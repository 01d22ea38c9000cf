"""Links by which somebody without an account reads one report."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Self

from django.conf import settings
from django.db import models
from django.utils import timezone

from memory.models.history import OwnedQuerySet
from research.models.private_links import PrivateLink
from research.models.reports import Report

MOST_NOTE = 150  # characters


class SharedLinkQuerySet(OwnedQuerySet):
    """The questions asked of shared links."""

    def working(self, now: datetime | None = None) -> Self:
        """Keep links that open their report: neither ended nor past their end."""
        return self.filter(ended_at=None, ends_at__gt=now or timezone.now())

    def readable(self) -> Self:
        """Keep links whose report is not in the trash, nor its topic."""
        return self.filter(report__trashed_at=None, report__run__topic__trashed_at=None)


class SharedLink(PrivateLink):
    """A private link to one report, with an end."""

    SALT, VIEW = "beacon.shared-report", "research:shared-report"

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
