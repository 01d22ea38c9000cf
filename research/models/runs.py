"""Runs and their steps: rows that are claimed by lease, fenced by attempt, and always end."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Self

from django.db import IntegrityError, models, transaction
from django.db.models import Case, F, Q, When
from django.db.models.functions import Coalesce, Now
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.actors import RESEARCH, Actor
from memory.models import Activity, Topic
from memory.text import clean
from research.models.reopening import reopen_steps

LEASE = timedelta(seconds=45)  # reliability.md 1.1; renewed every 10 s by the worker
MAX_TRIES = 3  # how often a run is put off because a service was unavailable
MAX_CRASHES = 3  # how often a run may lose its worker (reliability.md 1.3)


class RunInTheWay(Exception):
    """The topic has an unfinished run already: one at a time (R53)."""

    def __init__(self, run: Run | None) -> None:
        super().__init__(_("A run of this topic is going on already."))
        self.run = run


class RunLost(Exception):
    """This worker no longer holds the run: its lease ran out and it was given to another."""


class RunQuerySet(models.QuerySet[Any]):
    """The questions asked of runs, and the claims that decide between workers."""

    def of(self, user: Any) -> Self:
        """Keep what `user` owns: the one owner filter."""
        return self.filter(topic__owner=user)

    def unfinished(self) -> Self:
        """Keep runs that are queued or running."""
        return self.filter(status__in=Run.UNFINISHED)

    def saved(self) -> Self:
        """Keep runs that were saved, and so have a number."""
        return self.exclude(number=None)

    def claim(self, run_id: int, *, worker: str) -> Run | None:
        """Lease the run to `worker` for LEASE and return it, or None if it is taken.

        One UPDATE decides, so of two workers only one gets the run.  A run whose lease ran out
        may be claimed again.  The returned `attempt` is the fence: every later write of this run
        asks for it, so a worker that was given up on changes nothing.  A lost worker counts as a
        crash here as in `free_stalled`, which ends a run that has lost too many.
        """
        waiting = Q(status=Run.Status.QUEUED, not_before__lte=Now())
        crashed = Q(status=Run.Status.RUNNING, leaving=False)
        lost = Q(status=Run.Status.RUNNING, lease_until__lt=Now())
        abandoned = lost & (Q(leaving=True) | Q(crashes__lt=MAX_CRASHES - 1))
        claimed = self.filter(waiting | abandoned, pk=run_id).update(
            status=Run.Status.RUNNING,
            worker=worker,
            attempt=F("attempt") + 1,
            crashes=Case(
                When(crashed, then=F("crashes") + 1),
                default=F("crashes"),
                output_field=models.IntegerField(),
            ),
            leaving=False,
            progress=F("progress") + 1,
            lease_until=Now() + LEASE,
            beat_at=Now(),
            started_at=Coalesce("started_at", Now()),
        )
        found: Run | None = (
            self.select_related("topic__settings", "topic__owner", "topic__schedule").get(pk=run_id)
            if claimed
            else None
        )
        return found

    def free_stalled(self) -> int:
        """Queue again the runs whose worker was lost, and fail those that lost it too often.

        Returns how many were freed or failed.  A run whose worker was shutting down
        (`leaving`) counts no crash.
        """
        stalled = self.filter(status=Run.Status.RUNNING, lease_until__lt=Now())
        crashed = Q(leaving=False, crashes__gte=MAX_CRASHES - 1)
        failed = 0
        for run in stalled.filter(crashed).select_related("topic__owner"):
            message = _("crashed %(times)d times: its worker was lost each time") % {
                "times": MAX_CRASHES
            }
            ended = stalled.filter(pk=run.pk, attempt=run.attempt).update(
                crashes=F("crashes") + 1, error=message, **_ended(Run.Status.FAILED)
            )
            if ended:
                Activity.log(
                    run.topic.owner, RESEARCH, "run-failed", subject=run, warning=True, why=message
                )
                failed += 1
        freed = stalled.filter(leaving=True).update(**_queued_again())
        left = stalled.filter(leaving=False, crashes__lt=MAX_CRASHES - 1)
        freed += left.update(crashes=F("crashes") + 1, **_queued_again())
        return freed + failed

    def waiting_to_start(self) -> Self:
        """Keep queued runs whose time has come: the outbox that the tick empties."""
        return self.filter(status=Run.Status.QUEUED, not_before__lte=Now()).order_by("pk")

    def start(
        self,
        topic: Topic,
        *,
        trigger: str,
        by: Actor,
        scheduled_for: datetime | None = None,
        depth: str = "",
    ) -> Run:
        """Queue a run of `topic`.

        Raises RunInTheWay if one is unfinished: the constraint decides, not a look before.
        """
        try:
            with transaction.atomic():
                run: Run = self.create(
                    topic=topic,
                    trigger=trigger,
                    actor=str(by),
                    scheduled_for=scheduled_for,
                    depth=depth or "quick",
                    # The database's clock, which the claim asks too: the web server's may differ.
                    not_before=Now(),
                )
                run.refresh_from_db(fields=["not_before"])
        except IntegrityError as exc:
            if "run_once_a_slot" in str(exc) or "run_one_unfinished" in str(exc):
                raise RunInTheWay(self.filter(topic=topic).unfinished().first()) from exc
            raise
        return run


def _ended(status: str) -> dict[str, Any]:
    return {
        "status": status,
        "finished_at": Now(),
        "lease_until": None,
        "progress": F("progress") + 1,
    }


def _queued_again() -> dict[str, Any]:
    return {
        "status": Run.Status.QUEUED,
        "not_before": Now(),
        "lease_until": None,
        "leaving": False,
        "nudged_at": None,
        "progress": F("progress") + 1,
    }


class Run(models.Model):
    """One research execution of a topic; `number` (Run #N) is given when it is saved.

    `progress` rises with every change that a viewer can see, so that an idle poll is one read.
    """

    class Status(models.TextChoices):
        QUEUED = "queued", gettext_lazy("queued")
        RUNNING = "running", gettext_lazy("running")
        SUCCEEDED = "succeeded", gettext_lazy("succeeded")
        PARTIAL = "partial", gettext_lazy("partial")
        FAILED = "failed", gettext_lazy("failed")
        CANCELLED = "cancelled", gettext_lazy("cancelled")

    class Trigger(models.TextChoices):
        PERSON = "person", gettext_lazy("by hand")
        SCHEDULE = "schedule", gettext_lazy("by schedule")
        COMMAND = "command", gettext_lazy("by command")
        AGENT = "agent", gettext_lazy("by an agent")

    UNFINISHED = (Status.QUEUED, Status.RUNNING)

    id = models.BigAutoField(primary_key=True)
    topic = models.ForeignKey(Topic, models.CASCADE, related_name="runs")
    number = models.PositiveIntegerField(null=True, blank=True)
    status = models.CharField(max_length=10, choices=Status, default=Status.QUEUED)
    trigger = models.CharField(max_length=10, choices=Trigger, default=Trigger.PERSON)
    actor = models.CharField(max_length=200, blank=True)
    depth = models.CharField(max_length=8, default="quick")
    created = models.DateTimeField(default=timezone.now)
    scheduled_for = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    not_before = models.DateTimeField(default=timezone.now)
    nudged_at = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    beat_at = models.DateTimeField(null=True, blank=True)
    worker = models.CharField(max_length=200, blank=True)
    attempt = models.PositiveIntegerField(default=0)
    tries = models.PositiveIntegerField(default=0)
    crashes = models.PositiveIntegerField(default=0)
    leaving = models.BooleanField(default=False)
    progress = models.PositiveIntegerField(default=0)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    stop_requested_at = models.DateTimeField(null=True, blank=True)
    stop_reason = models.TextField(blank=True)
    worked_seconds = models.FloatField(default=0)

    is_baseline = models.BooleanField(default=True)
    error = models.TextField(blank=True)
    warnings = models.JSONField(default=list, blank=True)
    new_count = models.PositiveIntegerField(default=0)
    known_count = models.PositiveIntegerField(default=0)
    returning_count = models.PositiveIntegerField(default=0)
    read_count = models.PositiveIntegerField(default=0)
    model_calls = models.PositiveIntegerField(default=0)
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    money = models.DecimalField(max_digits=12, decimal_places=6, default=Decimal(0))
    manifest = models.JSONField(default=dict, blank=True)

    objects: ClassVar[RunQuerySet] = RunQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.UniqueConstraint(
                fields=["topic"],
                condition=Q(status__in=["queued", "running"]),
                name="run_one_unfinished_per_topic",
            ),
            models.UniqueConstraint(fields=["topic", "number"], name="run_number_once_a_topic"),
            models.UniqueConstraint(fields=["topic", "scheduled_for"], name="run_once_a_slot"),
            models.CheckConstraint(
                condition=Q(number=None) | Q(status__in=["succeeded", "partial"]),
                name="run_number_only_when_saved",
            ),
        ]
        indexes = [
            models.Index(fields=["topic", "-id"], name="run_of_topic"),
            models.Index(
                fields=["status", "not_before"],
                condition=Q(status__in=["queued", "running"]),
                name="run_unfinished",
            ),
            models.Index(fields=["-finished_at"], name="run_by_end"),
        ]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.claimed = time.monotonic()  # when this process took the row up, on its own clock

    def __str__(self) -> str:
        if self.number:
            return f"Run #{self.number}"
        return _("Run in progress") if self.is_unfinished else _("Run without a number")

    @property
    def source(self) -> str:
        """Return the text by which memory names this run."""
        return f"run:{self.pk}"

    @property
    def is_unfinished(self) -> bool:
        """Whether the run is queued or running."""
        return self.status in self.UNFINISHED

    @property
    def tokens(self) -> int:
        """Return all tokens spent, of prompts and answers."""
        return self.prompt_tokens + self.completion_tokens

    # --- the worker's writes: each asks for the fence -------------------------------------------

    def held(self) -> RunQuerySet:
        """Return the run as this worker holds it: no row if another has it, or if it ended."""
        return Run.objects.filter(pk=self.pk, attempt=self.attempt, status=Run.Status.RUNNING)

    def put(self, **fields: Any) -> None:
        """Set fields of the run while this worker holds it.  Raises RunLost if it does not."""
        if not self.held().update(progress=F("progress") + 1, **fields):
            raise RunLost(str(self.pk))
        for name, value in fields.items():
            if not hasattr(value, "resolve_expression"):
                setattr(self, name, value)

    def beat(self) -> bool:
        """Renew the lease; False means that another worker has the run, or that it ended."""
        return bool(self.held().update(lease_until=Now() + LEASE, beat_at=Now()))

    def warn(self, message: str) -> None:
        """Keep a warning that the run's page shows (once, however often it is given)."""
        message = clean(message)[0]
        if message not in self.warnings:
            self.put(warnings=[*self.warnings, message])

    def finish(self, status: str, error: str = "") -> bool:
        """End the run in `status`; False if this worker no longer holds it."""
        error = clean(error)[0]
        ended = self.held().update(error=error, **_ended(status))
        if ended and status in (Run.Status.FAILED, Run.Status.CANCELLED):
            Activity.log(
                self.topic.owner,
                RESEARCH,
                f"run-{status}",
                subject=self,
                warning=status == Run.Status.FAILED,
                why=error,
            )
        return bool(ended)

    def requeue(self, why: str, *, delay: timedelta = timedelta(0)) -> bool:
        """Queue the run again behind its last finished step; False if it is no longer held."""
        why = clean(why)[0]
        fields = _queued_again() | {
            "not_before": Now() + delay,
            # Only the time spent at work counts against the run's minutes.
            "worked_seconds": F("worked_seconds") + (time.monotonic() - self.claimed),
        }
        done = bool(self.held().update(**fields))
        if done:
            Activity.log(self.topic.owner, RESEARCH, "run-requeued", subject=self, why=why)
        return done

    def postpone_or_fail(self, why: str, *, retry_after: float | None = None) -> bool:
        """Queue the run again for later, or fail it after MAX_TRIES; True if it was put off.

        It waits 30 s, then 120 s, or as long as the service asked, at most ten minutes.
        """
        if self.tries + 1 >= MAX_TRIES:
            self.finish(Run.Status.FAILED, why)
            return False
        wait = min(retry_after or 30.0 * 4**self.tries, 600.0)
        self.held().update(tries=F("tries") + 1, error=clean(why)[0])
        return self.requeue(why, delay=timedelta(seconds=wait))

    # --- a person's acts --------------------------------------------------------------------------

    def ask_to_cancel(self, *, by: Actor) -> bool:
        """Cancel a queued run at once, a running one at its next look; False if it has ended."""
        queued = Run.objects.filter(pk=self.pk, status=Run.Status.QUEUED)
        asked = queued.update(cancel_requested_at=Now(), **_ended(Run.Status.CANCELLED))
        asked = asked or Run.objects.filter(pk=self.pk).unfinished().update(
            # A run that was queued again between the two is cancelled when it is claimed.
            cancel_requested_at=Now(),
            progress=F("progress") + 1,
        )
        if asked:
            Activity.log(self.topic.owner, by, "run-cancel-asked", subject=self)
        return bool(asked)

    def ask_to_stop(self, *, by: Actor) -> bool:
        """Ask the run to write a report from what is there; False if it has ended."""
        asked = Run.objects.filter(pk=self.pk).unfinished()
        done = bool(asked.update(stop_requested_at=Now(), progress=F("progress") + 1))
        if done:
            Activity.log(self.topic.owner, by, "run-stop-asked", subject=self)
        return done

    def retry(self, *, by: Actor) -> bool:
        """Queue a failed or cancelled run again behind its last finished step (same id).

        It begins anew where what is known has moved on since, and searches and reads on where it
        was stopped early.  Returns False if it neither failed nor was cancelled.  Raises RunInTheWay if another run
        of the topic is unfinished.
        """
        ended = Run.objects.filter(pk=self.pk, status__in=[Run.Status.FAILED, Run.Status.CANCELLED])
        fields = _queued_again() | {
            "tries": 0,
            "crashes": 0,
            "error": "",
            "started_at": None,
            "worked_seconds": 0,
            "stop_reason": "",
            "warnings": [],
            "finished_at": None,
            "cancel_requested_at": None,
            "stop_requested_at": None,
        }
        try:
            with transaction.atomic():
                done = bool(ended.update(**fields))
                if done:
                    reopen_steps(self)
                    Activity.log(self.topic.owner, by, "run-retried", subject=self)
        except IntegrityError as exc:
            others = Run.objects.filter(topic=self.topic_id).unfinished()
            raise RunInTheWay(others.first()) from exc
        return done
