"""Views of a list that a person saved under a name."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memory.models.history import OwnedQuerySet


class SavedView(models.Model):
    """The address of a list as a person filtered and sorted it; `query` is its query string."""

    class Page(models.TextChoices):
        NOTES = "notes", _("notes")
        OBSERVATIONS = "observations", _("observations")
        CONTENT = "content", _("content")
        RECALL = "recall", _("recall")
        ACTIVITY = "activity", _("activity")

    MOST = 30  # of one page: a list of views that nobody reads helps nobody

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    page = models.CharField(max_length=12, choices=Page)
    name = models.CharField(_("name"), max_length=60)
    query = models.TextField(blank=True)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[SavedView]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("page", "name")
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "page", "name"], name="saved_view_name_once_a_page"
            )
        ]

    def __str__(self) -> str:
        return self.name
