"""For how long the trash keeps things, and what went along and has no trash of its own."""

from __future__ import annotations

from typing import ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils import timezone

from memory.models.history import OwnedQuerySet

TRASH_DAYS = 30  # decision 9: deletes go to the trash for 30 days


class PutAway(models.Model):
    """Rows that left their tables when a record was moved to the trash, to be put back with it.

    Records that went along are found by their revisions, whose `source` is `source_of()`; `rows`
    holds the others as JSON: a run's seen URLs and sources, and what it noted on facts that stay.
    """

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    topic = models.ForeignKey("memory.Topic", models.CASCADE, null=True, related_name="+")
    record_type = models.CharField(max_length=40)
    record_id = models.UUIDField(unique=True)
    rows = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[PutAway]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        verbose_name_plural = "put away"

    def __str__(self) -> str:
        return f"{self.record_type} {self.record_id}"

    @staticmethod
    def source_of(record_id: object) -> str:
        """Return the source of the revisions by which records went along with this one."""
        return f"put-away:{record_id}"
