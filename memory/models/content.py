"""Full results of actions, kept outside the conversation (seed 002)."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from memory.models.base import Remembered, RememberedQuerySet


class ContentItem(Remembered):
    """A full action result; nothing of it enters a prompt unless it is asked for.

    `size` is the length of the content in characters; `scope` says who sees it (`run:<id>`,
    `agent:<name>`, `owner`).
    """

    class Type(models.TextChoices):
        ACTION_RESULT = "action_result", _("action result")
        WEB_CONTENT = "web_content", _("web content")
        DATABASE_RESULT = "database_result", _("database result")
        CUSTOM = "custom", _("custom")

    REVISED = ("content", "tags")

    type = models.CharField(max_length=20, choices=Type, default=Type.CUSTOM)
    content = models.TextField(blank=True)
    scope = models.CharField(max_length=200, default="owner")
    tags = ArrayField(models.CharField(max_length=80), default=list, blank=True)
    related_to = models.ManyToManyField("self", blank=True, symmetrical=False)
    title = models.CharField(max_length=500, blank=True)
    url = models.TextField(blank=True)
    # What was read for a topic goes with it when it is purged.
    topic = models.ForeignKey(
        "memory.Topic", models.CASCADE, null=True, blank=True, related_name="content_items"
    )
    size = models.PositiveIntegerField(default=0)

    objects: ClassVar[models.Manager[Any]] = RememberedQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["owner", "-created"], name="content_of_owner"),
            models.Index(fields=["scope"], name="content_by_scope"),
        ]

    def __str__(self) -> str:
        return self.title or self.url or str(self.pk)
