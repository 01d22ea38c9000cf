"""Reflections on finished runs and sessions, kept so that a person can review them."""

from __future__ import annotations

from typing import ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memory.models.history import OwnedQuerySet


class Reflection(models.Model):
    """A reflection on a run or a session, at most one per source (decision 7).

    `calls` lists the tool calls in order (`round`, `tool`, `arguments`, `result`, `is_error`), and
    `changes` their results (`path`, `version` or `proposal`, `act`). `by` says whether a model did
    it, or rules because no model was available.
    """

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        SKIPPED = "skipped", _("skipped")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    topic = models.ForeignKey("memory.Topic", models.SET_NULL, null=True, related_name="+")
    source = models.CharField(max_length=200)
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    why = models.TextField(blank=True)  # why it was skipped or failed
    by = models.CharField(max_length=10, blank=True)  # model or rules
    rounds = models.PositiveIntegerField(default=0)
    assessment = models.TextField(blank=True)
    calls = models.JSONField(default=list, encoder=DjangoJSONEncoder, blank=True)
    changes = models.JSONField(default=list, encoder=DjangoJSONEncoder, blank=True)
    created = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[models.Manager[Reflection]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.UniqueConstraint(fields=["owner", "source"], name="reflection_once_a_source")
        ]

    def __str__(self) -> str:
        return f"reflection on {self.source}"
