"""One act on all records that a list's filters match, carried out as a task where they are many."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memory.models.history import OwnedQuerySet


class BulkAct(models.Model):
    """What a person asked to be done to many records, how far it is, and how it is taken back.

    `query` is the list's query string as it was, `before` the moment up to which records count:
    what is written later is not meant.  Each change bears `source="bulk:<id>"`, by which Undo
    finds them all.
    """

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")
        UNDONE = "undone", _("undone")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    page = models.CharField(max_length=12)
    act = models.CharField(max_length=20)
    query = models.TextField(blank=True)
    arguments = models.JSONField(default=dict, encoder=DjangoJSONEncoder, blank=True)
    before = models.DateTimeField(default=timezone.now)
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    total = models.PositiveIntegerField(null=True)
    done = models.PositiveIntegerField(default=0)
    left = models.PositiveIntegerField(default=0)
    problem = models.TextField(blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    created = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[models.Manager[BulkAct]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("-created",)
        indexes = [models.Index(fields=["state", "created"], name="bulk_act_to_do")]

    def __str__(self) -> str:
        return f"{self.act} of {self.page}"

    @property
    def worked(self) -> int:
        """Return how many records were looked at so far."""
        return self.done + self.left


# --- Views of a list that a person saved under a name ---


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
