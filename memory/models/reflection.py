"""Reflections on finished runs and sessions, kept so that a person can review them."""

from __future__ import annotations

from typing import ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from beacon_site.db.leased_jobs import LeasedJob
from beacon_site.db.message_fields import MessageField
from beacon_site.text.messages import gettext
from memory.models.history import OwnedJobQuerySet


class Reflection(LeasedJob):
    """A reflection on a run or a session, at most one per source (decision 7).

    That of an ended session is a job, which also saves what remains of the session.

    `calls` lists the tool calls in order (`round`, `tool`, `arguments`, `result`, `is_error`), and
    `changes` their results (`path`, `version` or `proposal`, `act`). `by` says whether a model did
    it, or rules because no model was available.
    """

    CLAIMABLE = Q(source__startswith="session:")
    RELATED = ("owner",)
    TASK, QUEUE = "memory.tasks.finish_session", "reflect"

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        RUNNING = "running", _("running")
        SKIPPED = "skipped", _("skipped")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    topic = models.ForeignKey("memory.Topic", models.SET_NULL, null=True, related_name="+")
    source = models.CharField(max_length=200)
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    why = MessageField(blank=True)  # why it was skipped or failed
    by = models.CharField(max_length=10, blank=True)  # model or rules
    rounds = models.PositiveIntegerField(default=0)
    assessment = models.TextField(blank=True)
    calls = models.JSONField(default=list, encoder=DjangoJSONEncoder, blank=True)
    changes = models.JSONField(default=list, encoder=DjangoJSONEncoder, blank=True)
    created = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[OwnedJobQuerySet] = OwnedJobQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.UniqueConstraint(fields=["owner", "source"], name="reflection_once_a_source")
        ]

    def __str__(self) -> str:
        return f"reflection on {self.source}"

    def fail(self, why: str) -> None:
        self.end(self.State.FAILED, why=why, finished_at=Now())

    def give_up(self) -> None:
        self.fail(gettext("the worker stopped unexpectedly %(n)d times") % {"n": self.crashes})
