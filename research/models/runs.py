"""Runs: rows that are claimed by lease, fenced by attempt, and always end."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar

from django.apps import apps
from django.db import IntegrityError, models, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.actors import RESEARCH, Actor
from memory.models import Activity, Topic
from memory.texts.text import clean
from research.models.channels import Delivery
from research.models.effective_settings import settings_now
from research.models.reopening import reopen_steps
from research.models.run_queries import (
    LEASE,
    UNFINISHED,
    RunInTheWay,
    RunLost,
    RunQuerySet,
    RunStatus,
    RunTrigger,
    end_in,
    queued_again,
    waited_by_now,
)
from research.models.topic_news import OF_RUNS
from research.models.topic_settings import TopicSettings

MAX_TRIES = 3  # how often a run is put off because a service was unavailable
RETRIED = "run-retried"  # the kind of the activity log's line
# What a retried run has left behind.
_AS_IF_NEW: dict[str, Any] = {
    "tries": 0,
    "crashes": 0,
    "error": "",
    "started_at": None,
    "worked_seconds": 0,
    "waited_seconds": 0,
    "stop_reason": "",
    "finished_at": None,
    "cancel_requested_at": None,
    "stop_requested_at": None,
}


class Run(models.Model):
    """One research execution of a topic; `number` (Run #N) is given when it is saved.

    `progress` rises with every change that a viewer can see, so that an idle poll is one read.
    """

    Status = RunStatus
    Trigger = RunTrigger
    UNFINISHED = UNFINISHED

    id = models.BigAutoField(primary_key=True)
    topic = models.ForeignKey(Topic, models.CASCADE, related_name="runs")
    number = models.PositiveIntegerField(null=True, blank=True)
    status = models.CharField(max_length=10, choices=Status, default=Status.QUEUED)
    trigger = models.CharField(max_length=10, choices=Trigger, default=Trigger.PERSON)
    actor = models.CharField(max_length=200, blank=True)
    depth = models.CharField(max_length=8, default="quick")
    # What the topic's settings were when the run was started, or retried: an edit meanwhile
    # applies from the next run.
    settings = models.JSONField(default=dict, blank=True)
    rerun_of = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="reruns"
    )
    # Of a recheck: the ids of the facts that it holds against their sources again.
    rechecks = models.JSONField(default=list, blank=True)
    created = models.DateTimeField(default=timezone.now)
    scheduled_for = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    not_before = models.DateTimeField(default=timezone.now)
    # Set while a queued run waits for a person to look at its plan: no worker claims it.
    waiting_since = models.DateTimeField(null=True, blank=True)
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
    waited_seconds = models.FloatField(default=0)  # for a person; counts as nobody's work
    missed_slots = models.PositiveIntegerField(default=0)  # of the schedule, caught up with here

    is_baseline = models.BooleanField(default=True)
    error = models.TextField(blank=True)
    warnings = models.JSONField(default=list, blank=True)
    new_count = models.PositiveIntegerField(default=0)
    known_count = models.PositiveIntegerField(default=0)
    returning_count = models.PositiveIntegerField(default=0)
    read_count = models.PositiveIntegerField(default=0)
    unsupported_count = models.PositiveIntegerField(default=0)  # sentences; set by `verify`
    model_calls = models.PositiveIntegerField(default=0)
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    money = models.DecimalField(max_digits=12, decimal_places=6, default=Decimal(0))
    unpriced_calls = models.PositiveIntegerField(default=0)  # model calls whose price is unknown
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
            models.CheckConstraint(
                condition=Q(waiting_since=None) | Q(status="queued"),
                name="run_waits_for_a_person_only_queued",
            ),
        ]
        triggers = OF_RUNS
        indexes = [
            models.Index(fields=["topic", "-id"], name="run_of_topic"),
            models.Index(
                fields=["status", "not_before"],
                condition=Q(status__in=["queued", "running"]),
                name="run_unfinished",
            ),
            models.Index(fields=["-finished_at"], name="run_by_end"),
            models.Index(fields=["-created", "-id"], name="run_by_start"),
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
    def asked_for(self) -> TopicSettings:
        """Return the settings by which the run works: those of the moment it was started."""
        if not self.settings:
            return TopicSettings.objects.get(topic=self.topic_id)
        return TopicSettings.from_json(self.topic, self.settings)

    @property
    def is_unfinished(self) -> bool:
        """Whether the run is queued or running."""
        return self.status in self.UNFINISHED

    @property
    def waiting_label(self) -> str:
        """Return the state's word while the run waits for a person; empty otherwise."""
        return _("Waits for you") if self.waiting_since is not None else ""

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
        with transaction.atomic():
            ended = self.held().update(error=error, **end_in(status))
            if ended and status in (Run.Status.FAILED, Run.Status.CANCELLED):
                Activity.log(
                    self.topic.owner,
                    RESEARCH,
                    f"run-{status}",
                    subject=self,
                    warning=status == Run.Status.FAILED,
                    why=error,
                )
            if ended and status == Run.Status.FAILED:
                Delivery.objects.lay_out_failure(self)
        return bool(ended)

    def requeue(self, why: str, *, delay: timedelta = timedelta(0)) -> bool:
        """Queue the run again, to go on after its last finished step; False if it is not held."""
        why = clean(why)[0]
        fields = queued_again() | {
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

    def wait_for_a_person(self, *, at_most: timedelta | None) -> bool:
        """Let go of the run until somebody has looked at its plan; False if it is not held.

        After `at_most` it goes on by itself (`waited_long_enough`); None is for ever.  A run that
        is cancelled or stopped at this very moment, or whose topic is archived, is queued as
        usual, and so ended when it is claimed.
        """
        fields = queued_again() | {
            "not_before": Now() + (at_most or timedelta(0)),
            "worked_seconds": F("worked_seconds") + (time.monotonic() - self.claimed),
            "waiting_since": Now(),
        }
        with transaction.atomic():
            # Held, so that whoever archives the topic sees a run that waits, or is seen here.
            topic = Topic.objects.select_for_update().get(pk=self.topic_id)
            wanted = self.held().filter(cancel_requested_at=None, stop_requested_at=None)
            done = topic.archived_at is None and bool(wanted.update(**fields))
        if done:
            Activity.log(self.topic.owner, RESEARCH, "plan-waits", subject=self)
        return done or self.requeue(_("it is to end, so its plan waits for nobody"))

    def go_on(self, waiting_since: datetime) -> bool:
        """Queue the run again that has waited for a person since then; False if it does not.

        To be called in a transaction with what is written to its plan: the row is held.
        """
        waiting = Run.objects.filter(
            pk=self.pk, status=Run.Status.QUEUED, waiting_since=waiting_since
        )
        fields = queued_again() | {"waiting_since": None, "waited_seconds": waited_by_now()}
        return bool(waiting.update(**fields))

    # --- a person's acts --------------------------------------------------------------------------

    def ask_to_cancel(self, *, by: Actor) -> bool:
        """Cancel a queued run at once, a running one at its next look; False if it has ended."""
        queued = Run.objects.filter(pk=self.pk, status=Run.Status.QUEUED)
        fields: dict[str, Any] = {"cancel_requested_at": Now(), "waited_seconds": waited_by_now()}
        asked = queued.update(**fields, **end_in(Run.Status.CANCELLED))
        asked = asked or Run.objects.filter(pk=self.pk).unfinished().update(
            # A run that was queued again between the two is cancelled when it is claimed, which
            # it can be at once: it does not wait for its day, nor for another try.
            **fields,
            waiting_since=None,
            not_before=Now(),
            progress=F("progress") + 1,
        )
        if asked:
            Activity.log(self.topic.owner, by, "run-cancel-asked", subject=self)
        return bool(asked)

    def ask_to_stop(self, *, by: Actor) -> bool:
        """Ask the run to write a report from what is there; False if it has ended.

        Also False if it waits for a person to look at its plan: there is nothing to write from.
        """
        asked = Run.objects.filter(pk=self.pk, waiting_since=None).unfinished()
        done = bool(asked.update(stop_requested_at=Now(), progress=F("progress") + 1))
        if done:
            Activity.log(self.topic.owner, by, "run-stop-asked", subject=self)
        return done

    def try_now(self, *, by: Actor) -> bool:
        """Let a run that was put off be taken at once; False if it waits for no other try."""
        put_off = Run.objects.filter(
            pk=self.pk, status=Run.Status.QUEUED, waiting_since=None, not_before__gt=Now()
        ).exclude(error="")
        done = bool(put_off.update(not_before=Now(), nudged_at=None, progress=F("progress") + 1))
        if done:
            Activity.log(self.topic.owner, by, "run-tried-now", subject=self)
        return done

    def retry(self, *, by: Actor, step: str = "") -> bool:
        """Queue a failed or cancelled run again, to go on after its last finished step (same id).

        With a `step`, which must be finished, it and all after it are carried out anew.  The run
        takes the topic's settings of now, since a change of them may be what lets it succeed; one
        that repeats another (`rerun_of`) keeps those of then.  It begins anew where what is known
        has moved on since, and searches and reads on where it was stopped early.

        Returns False if it neither failed nor was cancelled.  Raises StepNotFinished, and
        RunInTheWay if another run of the topic is unfinished.
        """
        fields = queued_again() | _AS_IF_NEW
        if self.rerun_of_id is None:
            fields["settings"] = settings_now(self.topic)
        ended = Run.objects.filter(pk=self.pk, status__in=[Run.Status.FAILED, Run.Status.CANCELLED])
        try:
            with transaction.atomic():
                done = bool(ended.update(**fields))
                if done:
                    reopen_steps(self, step)
                    self._discard_pending_notices()
                    Activity.log(self.topic.owner, by, RETRIED, subject=self, step=step)
        except IntegrityError as exc:
            others = Run.objects.filter(topic=self.topic_id).unfinished()
            raise RunInTheWay(others.first()) from exc
        return done

    def _discard_pending_notices(self) -> None:
        """Let how it ends now be told anew: by messages that still wait, and by the next digest."""
        Delivery.objects.filter(run=self).waiting_failures().delete()
        apps.get_model("research", "DigestEntry").objects.filter(run=self).delete()
