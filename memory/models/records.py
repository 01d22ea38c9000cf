"""What people do with records of all kinds: bulk actions, saved views and merged names."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from beacon_site.db.leased_jobs import LeasedJob
from beacon_site.db.message_fields import MessageField
from beacon_site.text.names import MAX_NAME_LENGTH
from memory.models.history import OwnedJobQuerySet, OwnedQuerySet


class BulkAction(LeasedJob):
    """A bulk action on many records, its progress, and how to undo it.

    `query` is the list's query string. Only records from before the time `before` are included.
    Each change has `source="bulk:<id>"`, by which Undo finds them.
    """

    LEASE = timedelta(minutes=2)  # renewed with each batch
    RELATED = ("owner",)
    TASK, QUEUE = "memory.tasks.run_bulk_action", "maintenance"

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
    unchanged = models.PositiveIntegerField(default=0)
    problem = MessageField(blank=True)
    created = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[OwnedJobQuerySet] = OwnedJobQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("-created",)
        indexes = [models.Index(fields=["state", "created"], name="bulk_act_to_do")]

    def __str__(self) -> str:
        return f"{self.act} of {self.page}"

    @property
    def worked(self) -> int:
        """Return how many records were processed so far."""
        return self.done + self.unchanged

    def fail(self, problem: str) -> None:
        """End an action that can't continue. Its changes stay, and can be undone."""
        self.end(self.State.FAILED, problem=problem, finished_at=Now())

    def give_up(self) -> None:
        self.end(self.State.FAILED, finished_at=Now())


# --- saved views ---


class SavedView(models.Model):
    """A list's filters and order, saved under a name. `query` is the query string."""

    class Page(models.TextChoices):
        NOTES = "notes", _("notes")
        OBSERVATIONS = "observations", _("observations")
        CONTENT = "content", _("content")
        RECALL = "recall", _("recall")
        ACTIVITY = "activity", _("activity")
        FILES = "files", _("files")
        LIBRARY = "library", _("library")
        TOPICS = "topics", _("topics")
        REPORTS = "reports", _("reports")

    MAX = 30  # per page, since a longer list is hard to use

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


# --- merged names ---


class NameAlias(models.Model):
    """Another name of something: records that name `name` are about `target`.

    `target` is never an alias itself, so one lookup is enough.
    """

    MAX = 500  # per owner

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    key = models.CharField(max_length=MAX_NAME_LENGTH)
    name = models.CharField(max_length=MAX_NAME_LENGTH)
    target_key = models.CharField(max_length=MAX_NAME_LENGTH)
    target = models.CharField(max_length=MAX_NAME_LENGTH)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[NameAlias]] = OwnedQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "name aliases"
        ordering = ("target_key", "key")
        constraints = [
            models.UniqueConstraint(fields=["owner", "key"], name="name_alias_once"),
            models.CheckConstraint(
                condition=~models.Q(key=models.F("target_key")), name="name_alias_of_another"
            ),
        ]

    def __str__(self) -> str:
        return f"name alias {self.pk}"  # the names are private, and admin shows this
