"""Search results, worker heartbeats, the steps of runs, and tool calls."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy

from beacon_site.db.leased_jobs import LeasedJob, LeasedJobQuerySet
from beacon_site.db.message_fields import MessageField, MessagesField
from beacon_site.text.messages import gettext as _
from memory.models import Activity
from memory.models.actors import RESEARCH
from research.models.runs import Run


class Hit(models.Model):
    """One search result of a run and what happened to it. A canonical URL appears once."""

    class State(models.TextChoices):
        NEW = "new", gettext_lazy("new")
        KNOWN = "known", gettext_lazy("known")
        RETURNING = "returning", gettext_lazy("read again")
        BLOCKED = "blocked", gettext_lazy("blocked")

    class Reading(models.TextChoices):
        NOT_READ = "not read", gettext_lazy("not read")
        READ = "read", gettext_lazy("read")
        NEAR_DUPLICATE = "near-duplicate", gettext_lazy("near-duplicate")
        QUARANTINED = "quarantined", gettext_lazy("quarantined")
        FAILED = "failed", gettext_lazy("failed")

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, models.CASCADE, related_name="hits")
    url = models.TextField()
    link = models.TextField()
    domain = models.CharField(max_length=255, blank=True)
    title = models.CharField(max_length=500, blank=True)
    snippet = models.TextField(blank=True)
    service = models.CharField(max_length=20)
    queries = models.JSONField(default=list)
    rank = models.PositiveIntegerField(default=0)
    place = models.PositiveIntegerField(default=0)
    published_at = models.DateField(null=True, blank=True)
    # The only part of the page that is read, such as “css: main .prices” (`PagePart`), or "".
    part = models.TextField(blank=True)
    state = models.CharField(max_length=10, choices=State, default=State.NEW)
    reading = models.CharField(max_length=16, choices=Reading, default=Reading.NOT_READ)
    reason = MessageField(blank=True)
    content_item = models.ForeignKey(
        "memory.ContentItem", models.SET_NULL, null=True, blank=True, related_name="+"
    )
    cited_as = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        ordering = ("run", "place")
        constraints = [models.UniqueConstraint(fields=["run", "url"], name="hit_once_a_run")]
        indexes = [models.Index(fields=["run", "place"], name="hit_of_run")]

    def __str__(self) -> str:
        return self.title or self.url


class Worker(models.Model):
    """The last heartbeat of a worker or beat process (R234)."""

    name = models.CharField(max_length=200, primary_key=True)
    kind = models.CharField(max_length=8)
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


# --- steps and follow-ups ---


class Step(LeasedJob):
    """One stage of a run, or one follow-up. It is finished once.

    Only follow-ups are claimed by themselves. The other steps belong to the worker that has the
    run, and `attempt` is the run's. `part` is 0 for a step with a single row, otherwise the number
    of its track or batch.
    """

    CLAIMABLE = Q(is_follow_up=True)
    CLAIMED: ClassVar[dict[str, Any]] = {"started_at": Now()}
    # never renewed, because a follow-up makes only one or a few model calls
    LEASE = timedelta(minutes=15)
    RETRY_SECONDS = (60, 120)
    RELATED = ("run__topic__settings", "run__topic__owner")
    TASK, QUEUE = "research.tasks.run_follow_up", "reflect"

    class State(models.TextChoices):
        WAITING = "waiting", gettext_lazy("waiting")
        RUNNING = "running", gettext_lazy("running")
        DONE = "done", gettext_lazy("done")
        SKIPPED = "skipped", gettext_lazy("skipped")
        FAILED = "failed", gettext_lazy("failed")

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, models.CASCADE, related_name="steps")
    name = models.CharField(max_length=40)
    part = models.PositiveIntegerField(default=0)
    position = models.PositiveIntegerField(default=0)
    is_follow_up = models.BooleanField(default=False)
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    input_hash = models.CharField(max_length=64, blank=True)
    output = MessagesField(default=dict, blank=True)
    counts = models.JSONField(default=dict, blank=True)
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    money = models.DecimalField(max_digits=12, decimal_places=6, default=Decimal(0))
    unpriced_calls = models.PositiveIntegerField(default=0)  # model calls whose price is unknown
    detail = MessageField(blank=True)
    warning = MessageField(blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[LeasedJobQuerySet] = LeasedJobQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("run", "position", "part")
        constraints = [
            models.UniqueConstraint(fields=["run", "name", "part"], name="step_once_a_run")
        ]
        indexes = [
            models.Index(
                fields=["state", "not_before"],
                condition=Q(is_follow_up=True),
                name="step_follow_ups",
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def milliseconds(self) -> int | None:
        """Return how long the step took or has been running, or None if it hasn't started."""
        if self.started_at is None:
            return None
        return round(
            ((self.finished_at or timezone.now()) - self.started_at).total_seconds() * 1000
        )

    def retry_or_fail(self, why: str) -> None:
        """Schedule another attempt of a failed follow-up. After the last, its run gets a warning."""
        if self.may_retry:
            self.retry_later(warning=why)
        elif self.end(self.State.FAILED, warning=why, finished_at=Now()):
            params = {"step": self.name, "why": why}
            self.run.warn_afterwards(_("%(step)s failed: %(why)s") % params)
            owner, kind = self.run.topic.owner, "follow-up-failed"
            Activity.log(owner, RESEARCH, kind, subject=self.run, warning=True, why=why)

    def give_up(self) -> None:
        self.tries = len(self.RETRY_SECONDS)
        self.retry_or_fail(_("the worker stopped unexpectedly %(n)d times") % {"n": self.crashes})


# --- tool calls ---


class ToolCall(models.Model):
    """One tool call in a track of a run, and the result that the model received.

    `part` is the number of the track. `attempt` is the run's at that time: an interrupted track
    starts over, and its earlier calls remain visible.
    """

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, models.CASCADE, related_name="tool_calls")
    part = models.PositiveIntegerField()
    position = models.PositiveIntegerField()
    attempt = models.PositiveIntegerField(default=0)
    round = models.PositiveIntegerField()
    tool = models.CharField(max_length=80)
    arguments = models.JSONField(default=dict, blank=True)
    result = models.TextField(blank=True)  # only the beginning; the content item has all of it
    is_error = models.BooleanField(default=False)
    content_item = models.ForeignKey(
        "memory.ContentItem", models.SET_NULL, null=True, blank=True, related_name="+"
    )
    milliseconds = models.PositiveIntegerField(default=0)
    created = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("run", "part", "position")
        constraints = [
            models.UniqueConstraint(
                fields=["run", "part", "position"], name="tool_call_once_a_track"
            )
        ]

    def __str__(self) -> str:
        return self.tool
