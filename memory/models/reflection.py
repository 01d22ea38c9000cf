"""What the reflector made of a finished piece of work, kept so that a person can look at it."""

from __future__ import annotations

from typing import ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from memory.models.history import OwnedQuerySet


class Reflection(models.Model):
    """One reflection on a run or a session: at most one for each source (decision 7).

    `calls` lists the tool calls in order (`round`, `tool`, `arguments`, `result`, `is_error`);
    `changes` what came of them (`path`, `version` or `proposal`, `act`).  `by` says whether a model
    drove it or rules did, for want of one.
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
    why = models.TextField(blank=True)  # of being skipped, or of having failed
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
