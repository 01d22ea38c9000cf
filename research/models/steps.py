"""The steps of a run, and its follow-ups: rows that are finished once."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy

from research.models.runs import Run


class StepQuerySet(models.QuerySet[Any]):
    """The questions asked of steps."""

    def follow_ups_waiting(self) -> models.QuerySet[Any, int]:
        """Return the ids of follow-ups whose time has come, or whose worker was lost."""
        ready = Q(state=Step.State.WAITING, not_before__lte=Now())
        lost = Q(state=Step.State.RUNNING, lease_until__lt=Now())
        found = self.filter(ready | lost, is_follow_up=True)
        return found.order_by("pk").values_list("pk", flat=True)


class Step(models.Model):
    """One stage of a run, or one follow-up: a row that is finished once.

    `part` is 0 for a step that is one row, else the number of its track or batch.
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
        """Return how long the step took, or has been going on for; None before it began."""
        if self.started_at is None:
            return None
        return round(
            ((self.finished_at or timezone.now()) - self.started_at).total_seconds() * 1000
        )
