"""Marks of topics whose published copy is to be brought up to date."""

from __future__ import annotations

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class PublishDue(models.Model):
    """That what Redis holds under an owner's slug is behind the database.

    It is stored with the change and deleted once Redis has followed, and it outlives the topic:
    the copy of a purged one must go.  One row for each change, so that no change waits for another.
    """

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    slug = models.CharField(max_length=80)
    tried_at = models.DateTimeField(null=True, editable=False)
    created = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("id",)
        verbose_name = _("copy to publish")
        verbose_name_plural = _("copies to publish")
        indexes = [models.Index(fields=["owner", "slug"], name="publish_due_of_slug")]

    def __str__(self) -> str:
        return self.slug
