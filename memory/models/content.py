"""Content store: full results of actions, kept outside the conversation (seed 002), snapshots, and the scratchpad."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Self
from urllib.parse import urlencode

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from memory.models.remembered import OWNER_SCOPE, Remembered, RememberedQuerySet, Sensitivity, Trust

SNAPSHOT_FORMAT = 1


class ContentFields(models.Model):
    """Fields that a content item and its copy in a snapshot share.

    `size` is the content's length in characters. `scope` says who sees it (`run:<id>`,
    `agent:<name>`, `owner`). `action` is the action that returned it. `run_step` names the run's
    step it belongs to (`run:12/step:345`).
    """

    class Type(models.TextChoices):
        ACTION_RESULT = "action_result", _("action result")
        WEB_CONTENT = "web_content", _("web content")
        DATABASE_RESULT = "database_result", _("database result")
        CUSTOM = "custom", _("custom")

    type = models.CharField(_("type"), max_length=20, choices=Type, default=Type.CUSTOM)
    content = models.TextField(_("content"), blank=True)
    scope = models.CharField(_("scope"), max_length=200, default=OWNER_SCOPE)
    tags = ArrayField(
        models.CharField(max_length=80), verbose_name=_("tags"), default=list, blank=True
    )
    title = models.CharField(_("title"), max_length=500, blank=True)
    url = models.TextField(_("URL"), blank=True)
    size = models.PositiveIntegerField(_("size"), default=0)
    action = models.CharField(_("action"), max_length=80, blank=True)
    run_step = models.CharField(_("step of the run"), max_length=200, blank=True)

    class Meta:
        abstract = True

    @property
    def link(self) -> str:
        """Return the URL if a browser can follow it."""
        return self.url if self.url.startswith(("https://", "http://")) else ""


class ContentQuerySet(RememberedQuerySet):
    def in_scopes(self, scopes: Collection[str] | None) -> Self:
        """Keep the items in these scopes. None keeps all, for the owner's pages."""
        return self if scopes is None else self.filter(scope__in=list(scopes))


class ContentItem(Remembered, ContentFields):
    """The full result of an action. It enters a prompt only on request.

    Its first revision doesn't include the content, since that would store it twice.
    """

    REVISED = ("type", "title", "tags", "scope", "size")

    related_to = models.ManyToManyField(
        "self", verbose_name=_("related items"), blank=True, symmetrical=False
    )
    # Content read for a topic is deleted when the topic is purged.
    topic = models.ForeignKey(
        "memory.Topic", models.CASCADE, null=True, blank=True, related_name="content_items"
    )

    objects: ClassVar[ContentQuerySet] = ContentQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        indexes = [
            models.Index(fields=["owner", "-created"], name="content_of_owner"),
            models.Index(fields=["owner", "scope", "-created"], name="content_of_scope"),
            models.Index(
                fields=["run_step"], condition=~models.Q(run_step=""), name="content_run_step"
            ),
        ]

    def __str__(self) -> str:
        return self.title or self.url or self.action or str(self.pk)

    def get_absolute_url(self) -> str:
        return reverse("memory:content-item", args=[self.pk])


class Snapshot(Remembered):
    """The items in one scope of the content store at one time, kept until the snapshot is deleted.

    A snapshot has its own copies, so it outlives the items. `format` is the version of its JSON
    format. `count` and `size` (characters) are totals.
    """

    REVISED = ("title", "scope", "count", "size", "pinned", "lock")

    title = models.CharField(_("title"), max_length=200, blank=True)
    scope = models.CharField(_("scope"), max_length=200)
    format = models.PositiveSmallIntegerField(default=SNAPSHOT_FORMAT, editable=False)
    count = models.PositiveIntegerField(default=0, editable=False)
    size = models.PositiveBigIntegerField(default=0, editable=False)

    objects: ClassVar[models.Manager[Any]] = RememberedQuerySet.as_manager()

    class Meta:
        indexes = [models.Index(fields=["owner", "-created"], name="snapshot_of_owner")]

    def __str__(self) -> str:
        return self.title or self.scope

    def get_absolute_url(self) -> str:
        return reverse("memory:content-snapshot", args=[self.pk])


class SnapshotItem(ContentFields):
    """An item at the time of the snapshot. `related_to` names other items of the snapshot."""

    id = models.BigAutoField(primary_key=True)
    snapshot = models.ForeignKey(Snapshot, models.CASCADE, related_name="items")
    position = models.PositiveIntegerField()
    item_id = models.UUIDField()
    related_to = ArrayField(models.UUIDField(), default=list, blank=True)
    source = models.CharField(max_length=200)
    trust = models.CharField(max_length=12, choices=Trust, default=Trust.OWNER)
    sensitivity = models.CharField(max_length=10, choices=Sensitivity, default=Sensitivity.NORMAL)
    pinned = models.BooleanField(default=False)
    created = models.DateTimeField()
    # As with items: content read for a topic is deleted when the topic is purged.
    topic = models.ForeignKey("memory.Topic", models.CASCADE, null=True, related_name="+")

    class Meta:
        ordering = ("snapshot", "position")
        constraints = [
            models.UniqueConstraint(fields=["snapshot", "item_id"], name="snapshot_item_once")
        ]

    def __str__(self) -> str:
        return self.title or self.url or self.action or str(self.item_id)


# --- the scratchpad ---


MAX_KEY = 200  # characters
MAX_VALUE = 65_536  # bytes of UTF-8


class ScratchpadQuerySet(RememberedQuerySet):
    def in_scope(self, scope: str) -> Self:
        """Keep the entries of one scope (`owner`, `session:<id>`, `run:<id>`, `agent:<name>`)."""
        return self.filter(scope=scope)


class ScratchpadEntry(Remembered):
    """A value and its key, which is unique in its scope."""

    REVISED = ("key", "value", "pinned", "lock")
    is_new = False  # set by the write that created it

    key = models.CharField(_("key"), max_length=MAX_KEY, db_collation="C")
    value = models.TextField(_("value"), blank=True)
    scope = models.CharField(_("scope"), max_length=200, default=OWNER_SCOPE)

    objects: ClassVar[ScratchpadQuerySet] = ScratchpadQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name_plural = _("scratchpad entries")
        ordering = ("key",)
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "scope", "key"],
                condition=Q(trashed_at=None),
                name="scratchpad_key_once_a_scope",
            )
        ]

    def __str__(self) -> str:
        return self.key

    def get_absolute_url(self) -> str:
        value = urlencode({"scope": self.scope, "q": self.key})
        return f"{reverse('memory:scratchpad')}?{value}"
