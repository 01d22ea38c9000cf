"""Conversations with the agent, their messages, and reflections on finished runs and conversations."""

from __future__ import annotations

from typing import Any, ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from beacon_site.db.leased_jobs import LeasedJob, LeasedJobQuerySet
from beacon_site.db.message_fields import MessageField
from beacon_site.text.messages import gettext
from memory.models.history import OwnedJobQuerySet
from memory.models.remembered import Remembered, RememberedQuerySet


class Session(Remembered):
    """A conversation with the agent."""

    REVISED = ("title",)

    title = models.CharField(max_length=200, blank=True)
    agent = models.ForeignKey("memory.Agent", models.SET_NULL, null=True, related_name="+")
    ended_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[models.Manager[Any]] = RememberedQuerySet.as_manager()

    def __str__(self) -> str:
        return self.title or f"session {self.pk}"

    def get_absolute_url(self) -> str:
        return reverse("memory:session", args=[self.pk])


class Message(LeasedJob):
    """One message of a session. `role` is user or assistant.

    Answers are jobs. `tool_calls` lists the model's calls in order (`name`, `arguments`, `result`,
    `is_error`), and a worker that takes over doesn't repeat them. `cites` lists the records that
    the answer cites (`type`, `id`, `title`, `url`, `quote`). `is_index` marks the list of memory
    files before the first turn (R157).
    """

    RUNNING = "answering"
    CLAIMED: ClassVar[dict[str, Any]] = {"content": "", "notice": ""}
    RELATED = ("session__owner", "session__agent")
    TASK, QUEUE = "memory.tasks.answer_message", "reflect"

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        ANSWERING = "answering", _("answering")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")

    id = models.BigAutoField(primary_key=True)
    session = models.ForeignKey(Session, models.CASCADE, related_name="messages")
    position = models.PositiveIntegerField()
    role = models.CharField(max_length=12)
    content = models.TextField()
    tool_calls = models.JSONField(default=list, blank=True)
    cites = models.JSONField(default=list, blank=True)
    is_index = models.BooleanField(default=False)
    state = models.CharField(max_length=10, choices=State, default=State.DONE)
    by = models.CharField(max_length=10, blank=True)  # who answered: model or recall
    notice = models.TextField(blank=True)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[LeasedJobQuerySet] = LeasedJobQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("session", "position")
        constraints = [
            models.UniqueConstraint(fields=["session", "position"], name="message_position_once")
        ]
        indexes = [
            models.Index(
                fields=["id"],
                condition=models.Q(state__in=["waiting", "answering"]),
                name="message_unanswered",
            )
        ]

    def __str__(self) -> str:
        return f"{self.role}: {self.content[:60]}"

    def give_up(self) -> None:
        words = gettext("The worker stopped unexpectedly %(n)d times. Try again.")
        self.end(self.State.FAILED, notice=words % {"n": self.crashes})


# --- reflections on sessions and runs ---


class Reflection(LeasedJob):
    """A reflection on a run or a session, at most one per source.

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
