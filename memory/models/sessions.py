"""Conversations with the agent."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.utils import timezone

from memory.models.base import Remembered, RememberedQuerySet


class Session(Remembered):
    """A conversation with the agent, until it is ended."""

    REVISED = ("title",)

    title = models.CharField(max_length=200, blank=True)
    agent = models.ForeignKey("memory.Agent", models.SET_NULL, null=True, related_name="+")
    ended_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[models.Manager[Any]] = RememberedQuerySet.as_manager()

    def __str__(self) -> str:
        return self.title or f"session {self.pk}"


class Message(models.Model):
    """One turn of a session, in order."""

    id = models.BigAutoField(primary_key=True)
    session = models.ForeignKey(Session, models.CASCADE, related_name="messages")
    position = models.PositiveIntegerField()
    role = models.CharField(max_length=12)
    content = models.TextField()
    tool_calls = models.JSONField(default=list, blank=True)
    created = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("session", "position")
        constraints = [
            models.UniqueConstraint(fields=["session", "position"], name="message_position_once")
        ]

    def __str__(self) -> str:
        return f"{self.role}: {self.content[:60]}"
