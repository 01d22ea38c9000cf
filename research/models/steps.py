"""Search results, worker heartbeats, the steps of runs, and tool calls."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar, Self

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy

from research.models.runs import LEASE, Run


class Hit(models.Model):
    """One search result of a run and what happened to it. A canonical URL appears once."""

    class State(models.TextChoices):
        NEW = "new", gettext_lazy("new")
        KNOWN = "known", gettext_lazy("known")
        RETURNING = "returning", gettext_lazy("seen again")
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
    state = models.CharField(max_length=10, choices=State, default=State.NEW)
    reading = models.CharField(max_length=16, choices=Reading, default=Reading.NOT_READ)
    reason = models.TextField(blank=True)
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

# never renewed, because a follow-up makes only one or a few model calls
FOLLOW_UP_LEASE = 20 * LEASE


class StepQuerySet(models.QuerySet[Any]):
    """Queries on steps, and the claim that decides which worker carries out a follow-up."""

    def follow_ups_waiting(self) -> Self:
        """Keep follow-ups that are due, or whose worker was lost."""
        ready = Q(state=Step.State.WAITING, not_before__lte=Now())
        lost = Q(state=Step.State.RUNNING, lease_until__lt=Now())
        return self.filter(ready | lost, is_follow_up=True)

    def claim_follow_up(self, step_id: int) -> Step | None:
        """Lease a follow-up for FOLLOW_UP_LEASE and return it, or None if it is taken or done.

        A single UPDATE decides, so only one of two workers gets it. The returned `attempt` is the
        fencing token: it rejects later writes of a worker that lost the lease.
        """
        claimed = (
            self.follow_ups_waiting()
            .filter(pk=step_id)
            .update(
                state=Step.State.RUNNING,
                attempt=F("attempt") + 1,
                started_at=Now(),
                lease_until=Now() + FOLLOW_UP_LEASE,
            )
        )
        rows = self.select_related("run__topic__settings", "run__topic__owner")
        found: Step | None = rows.get(pk=step_id) if claimed else None
        return found


class Step(models.Model):
    """One stage of a run, or one follow-up. It is finished once.

    `part` is 0 for a step with a single row, otherwise the number of its track or batch.
    """

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
    attempt = models.PositiveIntegerField(default=0)
    input_hash = models.CharField(max_length=64, blank=True)
    output = models.JSONField(default=dict, blank=True)
    counts = models.JSONField(default=dict, blank=True)
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    money = models.DecimalField(max_digits=12, decimal_places=6, default=Decimal(0))
    unpriced_calls = models.PositiveIntegerField(default=0)  # model calls whose price is unknown
    detail = models.TextField(blank=True)
    warning = models.TextField(blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    not_before = models.DateTimeField(default=timezone.now)
    lease_until = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[StepQuerySet] = StepQuerySet.as_manager()  # type: ignore[assignment]

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
