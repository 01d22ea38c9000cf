"""Runs, the leases by which workers claim them, and what a retry does again."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Self

from django.apps import apps
from django.db import IntegrityError, models, transaction
from django.db.models import Exists, ExpressionWrapper, F, OuterRef, Q, QuerySet
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Coalesce, Extract, Now
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy

from beacon_site.db.leased_jobs import LeasedJob
from beacon_site.db.message_fields import MessageField, MessagesField
from beacon_site.text.cleaning import clean
from beacon_site.text.messages import gettext as _
from memory.models import Activity, Remembered, Topic
from memory.models.actors import RESEARCH, Actor
from memory.models.history import OwnedJobQuerySet
from research.models.notifications import Delivery
from research.models.topics import OF_RUNS, TopicSettings, settings_now

_WAITING = {"state": "waiting", "warning": "", "started_at": None, "finished_at": None}
_EMPTY: dict[str, Any] = {"output": {}, "counts": {}, "detail": "", "input_hash": ""}


class StepNotFinished(Exception):
    """A run can't resume at a step that it hasn't finished."""

    def __init__(self, name: str) -> None:
        super().__init__(
            _("The run can’t be retried from “%(step)s” because it hasn’t finished that step.")
            % {"step": name}
        )


def reopen_steps(run: Run, first: str) -> None:
    """Reset the steps that a retry repeats: `first` and all later ones.

    Without `first`, the unfinished steps are repeated. If memory has changed since, all steps are,
    because a report based on the old memory would repeat old news and retire facts it never saw.
    Raises StepNotFinished.
    """
    steps = run.steps.filter(is_follow_up=False)
    chosen = steps.filter(name=first, part=0, state="done").first() if first else None
    if first and chosen is None:
        raise StepNotFinished(first)
    loaded = steps.filter(name="load_memory", state="done").first()
    if loaded is not None and _memory_moved_on(run, loaded.output.get("memory")):
        _empty(run, steps)
    else:
        if run.stop_reason:
            # A run that was stopped early only looks finished. Its answers and pages are kept.
            steps.exclude(name__in=["load_memory", "plan"]).update(**_WAITING)
        if chosen is not None:
            _empty(run, steps.filter(position__gte=chosen.position))
        else:
            steps.exclude(state="done").update(**_WAITING)
    _keep_warnings(run)


def reopen_plan(run: Run) -> None:
    """Make the run plan again. Its plan and the plan's warning are discarded."""
    _empty(run, run.steps.filter(name="plan", is_follow_up=False))
    _keep_warnings(run)


def _empty(run: Run, steps: QuerySet[Any]) -> None:
    """Delete what the steps produced, on their rows and on the hits."""
    names = set(steps.values_list("name", flat=True))
    counts: dict[str, int] = {}
    if "search" in names:
        run.hits.all().delete()
    if "filter_seen" in names:
        run.hits.update(state="new", reason="")
        counts |= {"new_count": 0, "known_count": 0, "returning_count": 0}
    if "read" in names:
        read = run.hits.exclude(state__in=["known", "blocked"])
        read.update(reading="not read", reason="", content_item=None)
        counts["read_count"] = 0
    if "verify" in names:
        counts["unsupported_count"] = 0
    if "tracks" in names:
        run.tool_calls.all().delete()
    if counts:
        type(run).objects.filter(pk=run.pk).update(**counts)
    steps.update(**_WAITING, **_EMPTY)


def _keep_warnings(run: Run) -> None:
    """Keep the warnings of steps that remain done. The others are raised again if they still apply."""
    done = run.steps.filter(state="done", is_follow_up=False)
    theirs = list(done.exclude(warning="").values_list("warning", flat=True))
    rows = type(run).objects.filter(pk=run.pk)
    said = rows.values_list("warnings", flat=True).get()
    # A step stores all its warnings in one line. The run stores each separately.
    rows.update(warnings=[one for one in said if any(one in text for text in theirs)])


def _memory_moved_on(run: Run, loaded: dict[str, Any] | None) -> bool:
    """Whether memory has changed since `loaded`: another run saved, or facts lapsed or returned."""
    topic = Topic.objects.get(pk=run.topic_id)
    now = topic.run_count if topic.memory_is_live() else None
    return now != (loaded["run_count"] if loaded else None)


# --- claims ---


class RunStatus(models.TextChoices):
    QUEUED = "queued", gettext_lazy("queued")
    RUNNING = "running", gettext_lazy("running")
    SUCCEEDED = "succeeded", gettext_lazy("succeeded")
    PARTIAL = "partial", gettext_lazy("partial")
    FAILED = "failed", gettext_lazy("failed")
    CANCELLED = "cancelled", gettext_lazy("cancelled")


class RunTrigger(models.TextChoices):
    PERSON = "person", gettext_lazy("manually")
    SCHEDULE = "schedule", gettext_lazy("on schedule")
    COMMAND = "command", gettext_lazy("from the command line")
    AGENT = "agent", gettext_lazy("by an agent")
    RECHECK = "recheck", gettext_lazy("to recheck stale facts")


PlanReview = TopicSettings.PlanReview
UNFINISHED = (RunStatus.QUEUED, RunStatus.RUNNING)


class RunAlreadyActive(Exception):
    """The topic already has an unfinished run, and can only have one (R53).

    With `is_over`, the same button started a run before, and that run has ended.
    """

    def __init__(self, run: Run | None, *, is_over: bool = False) -> None:
        message = _("A run of this topic is already in progress.")
        if is_over:
            message = _("You already started a run from that page, so Beacon didn’t start another.")
        elif run is not None and run.waiting_since is not None:
            message = _("A run of this topic is waiting for you to review its plan.")
        super().__init__(message)
        self.run, self.is_over = run, is_over


class RunQuerySet(OwnedJobQuerySet):
    OWNER = "topic__owner"

    def waiting_for_a_person(self) -> Self:
        """Keep queued runs whose plan a person has to review. No worker claims them."""
        return self.filter(status=Run.Status.QUEUED).exclude(waiting_since=None)

    def waited_long_enough(self) -> Self:
        """Keep runs whose time for the review is over, so they now continue automatically."""
        allowed = self.waiting_for_a_person().filter(settings__plan_review=PlanReview.DAY)
        return allowed.filter(not_before__lte=Now())

    def saved(self) -> Self:
        """Keep saved runs, which have a number."""
        return self.exclude(number=None)

    def kept(self) -> Self:
        """Leave out runs that were moved to the trash, with or without a report."""
        return self.filter(report__trashed_at=None, removed__trashed_at=None)

    def in_topic(self, owner: Any, slug: str) -> Self:
        """Keep the runs of the owner's topic with this slug. Neither is in Trash."""
        return self.for_user(owner).kept().filter(topic__slug=slug, topic__trashed_at=None)

    def failed_last(self) -> Self:
        """Keep the last run of each active topic if it failed."""
        failed = self.kept().filter(status=Run.Status.FAILED)
        failed = failed.filter(topic__trashed_at=None, topic__archived_at=None)
        later = Run.objects.kept().filter(topic=OuterRef("topic"), pk__gt=OuterRef("pk"))
        return failed.filter(~Exists(later))

    def kept_of_each(self) -> Self:
        """As `kept`, for the last run of each of many topics.

        With outer joins, Postgres expects few runs to be left, and sorts all of a topic. Django takes
        longer to build this condition, though.
        """
        report = apps.get_model("research", "Report").objects.filter(run=OuterRef("pk"))
        removed = RemovedRun.objects.filter(run=OuterRef("pk"))
        return self.exclude(
            Exists(report.exclude(trashed_at=None)) | Exists(removed.exclude(trashed_at=None))
        )

    def start(
        self, topic: Topic, *, trigger: str, by: Actor, depth: str = "", **fields: Any
    ) -> Run:
        """Queue a run of `topic` with its current settings, unless `fields` overrides them.

        Raises RunAlreadyActive if another is unfinished. The database constraint decides, not a query.
        """
        fields.setdefault("settings", settings_now(topic))
        try:
            with transaction.atomic():
                run: Run = self.create(
                    topic=topic, trigger=trigger, actor=str(by), depth=depth or "quick", **fields
                )
        except IntegrityError as exc:
            if "run_once_a_slot" in str(exc) or "run_one_unfinished" in str(exc):
                raise RunAlreadyActive(self.filter(topic=topic).unfinished().first()) from exc
            raise
        return run


def waited_by_now() -> CombinedExpression:
    """Return an UPDATE expression for the seconds spent waiting for people, up to now."""
    wait = ExpressionWrapper(Now() - F("waiting_since"), output_field=models.DurationField())
    seconds = Coalesce(Extract(wait, "epoch"), 0.0, output_field=models.FloatField())
    return F("waited_seconds") + seconds


def end_in(status: str) -> dict[str, Any]:
    """Return the fields of a run that ends with `status`."""
    return {
        "status": status,
        "finished_at": Now(),
        "lease_until": None,
        "waiting_since": None,
        "progress": F("progress") + 1,
    }


# --- runs ---

RETRIED = "run-retried"  # a kind of line in the activity log
# What a retry resets.
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


class Run(LeasedJob):
    """One research run of a topic. `number` (Run #N) is assigned when it is saved.

    `progress` increases with every visible change, so an idle poll costs one read.
    """

    STATE, WAITING = "status", "queued"
    CLAIMABLE = Q(waiting_since=None)
    CRASHED = Q(is_worker_stopping=False)  # a worker that is shutting down hands the run over
    CLAIMED: ClassVar[dict[str, Any]] = {
        "is_worker_stopping": False,
        "progress": F("progress") + 1,
        "heartbeat_at": Now(),
        "started_at": Coalesce("started_at", Now()),
    }
    RELEASED: ClassVar[dict[str, Any]] = {
        "is_worker_stopping": False,
        "progress": F("progress") + 1,
    }
    RETRY_SECONDS = (30, 120)
    RELATED = ("topic__settings", "topic__owner", "topic__schedule")
    TASK, QUEUE = "research.tasks.execute_run", "research"

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
    # The topic's settings when the run was started or retried. Later edits apply from the next run.
    settings = models.JSONField(default=dict, blank=True)
    rerun_of = models.ForeignKey(
        "self", models.SET_NULL, null=True, blank=True, related_name="reruns"
    )
    # For a recheck: the ids of the facts to check against their sources again.
    rechecks = models.JSONField(default=list, blank=True)
    created = models.DateTimeField(default=timezone.now)
    scheduled_for = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    # Set while a queued run waits for a person to review its plan. No worker claims it.
    waiting_since = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    worker = models.CharField(max_length=200, blank=True)
    is_worker_stopping = models.BooleanField(default=False)
    progress = models.PositiveIntegerField(default=0)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    stop_requested_at = models.DateTimeField(null=True, blank=True)
    stop_reason = MessageField(blank=True)
    worked_seconds = models.FloatField(default=0)
    waited_seconds = models.FloatField(default=0)  # for a person, and not counted as work
    # missed scheduled runs that this run replaces
    missed_slots = models.PositiveIntegerField(default=0)

    is_baseline = models.BooleanField(default=True)
    error = MessageField(blank=True)
    warnings = MessagesField(default=list, blank=True)
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
            models.Index(fields=["topic"], condition=Q(status="failed"), name="run_failed"),
            models.Index(fields=["-finished_at"], name="run_by_end"),
            models.Index(fields=["-created", "-id"], name="run_by_start"),
        ]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.claimed = time.monotonic()  # when this process claimed the row, by its own clock

    def __str__(self) -> str:
        if self.number:
            return f"Run #{self.number}"
        return _("Run in progress") if self.is_unfinished else _("Run without a number")

    @property
    def source(self) -> str:
        """Return the name by which memory refers to this run."""
        return f"run:{self.pk}"

    @property
    def asked_for(self) -> TopicSettings:
        """Return the run's settings, as they were when it started."""
        if not self.settings:
            return TopicSettings.objects.get(topic=self.topic_id)
        return TopicSettings.from_json(self.topic, self.settings)

    def status_now(self) -> str:
        """Return the label of the status in the database, after another request changed it."""
        self.refresh_from_db(fields=["status"])
        return str(self.get_status_display())

    @property
    def waiting_label(self) -> str:
        """Return the label of the state while the run waits for a person, otherwise ""."""
        return _("Waiting for you") if self.waiting_since is not None else ""

    @property
    def tokens(self) -> int:
        """Return all tokens spent on prompts and answers."""
        return self.prompt_tokens + self.completion_tokens

    # --- the worker's writes: each checks the fencing token ---

    def put(self, **fields: Any) -> None:
        super().put(progress=F("progress") + 1, **fields)

    def renew(self, **fields: Any) -> bool:
        return super().renew(heartbeat_at=Now(), **fields)

    def release(self, **fields: Any) -> bool:
        # Only working time counts toward the run's minutes.
        return super().release(worked_seconds=self._worked_by_now(), **fields)

    def _worked_by_now(self) -> CombinedExpression:
        return F("worked_seconds") + (time.monotonic() - self.claimed)

    def warn(self, message: str) -> None:
        """Add a warning to the run's page. Repeated warnings are stored once."""
        message = clean(message)[0]
        if message not in self.warnings:
            self.put(warnings=[*self.warnings, message])

    def warn_afterwards(self, message: str) -> None:
        """Add a follow-up's warning to the run, which has ended and keeps its status."""
        if not message:
            return
        with transaction.atomic():
            # Follow-ups may end at the same time, and each must keep the other's warning.
            held = Run.objects.select_for_update(no_key=True).filter(pk=self.pk).first()
            if held is not None and message not in held.warnings:
                warnings = [*held.warnings, message]
                Run.objects.filter(pk=self.pk).update(warnings=warnings, progress=F("progress") + 1)

    def finish(self, status: str, error: str = "") -> bool:
        """End the run with `status`. Return False if this worker no longer holds it."""
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
                Delivery.objects.create_for_failure(self.topic, self)
        return bool(ended)

    def give_up(self) -> None:
        message = _("the worker stopped unexpectedly %(times)d times") % {"times": self.crashes}
        self.finish(Run.Status.FAILED, message)

    def requeue(self, why: str) -> bool:
        """Queue the run again, to resume after its last finished step.

        Returns False if it isn't held.
        """
        return self._log_requeued(self.release(), why)

    def _log_requeued(self, done: bool, why: str) -> bool:
        if done:
            why = clean(why)[0]
            Activity.log(self.topic.owner, RESEARCH, "run-requeued", subject=self, why=why)
        return done

    def postpone_or_fail(self, why: str, *, retry_after: float | None = None) -> bool:
        """Queue the run again for later, or fail it after its last retry. Return True if postponed.

        The delay is 30 s, then 120 s, or what the service asked for, at most ten minutes.
        """
        if not self.may_retry:
            self.finish(Run.Status.FAILED, why)
            return False
        done = self.retry_later(after=retry_after, error=clean(why)[0])
        return self._log_requeued(done, why)

    def wait_for_a_person(self, *, at_most: timedelta | None) -> bool:
        """Release the run until a person has reviewed its plan. Return False if it isn't held.

        After `at_most` it continues automatically (`waited_long_enough`). None means no limit. If
        the run is being cancelled or stopped, or its topic archived, at this moment, it is queued
        as usual and ends when a worker claims it.
        """
        fields = self.requeue_fields() | {
            "not_before": Now() + (at_most or timedelta(0)),
            "worked_seconds": self._worked_by_now(),
            "waiting_since": Now(),
        }
        with transaction.atomic():
            # The lock ensures that archiving the topic sees this run waiting, or that we see the
            # archived topic.
            topic = Topic.objects.select_for_update().get(pk=self.topic_id)
            wanted = self.held().filter(cancel_requested_at=None, stop_requested_at=None)
            done = topic.archived_at is None and bool(wanted.update(**fields))
        if done:
            Activity.log(self.topic.owner, RESEARCH, "plan-waits", subject=self)
        return done or self.requeue(_("the run is ending, so its plan no longer needs review"))

    def go_on(self, waiting_since: datetime) -> bool:
        """Queue the run that has been waiting since then. Return False if it no longer is.

        Call it in the transaction that writes the plan, because the row is locked.
        """
        waiting = Run.objects.filter(
            pk=self.pk, status=Run.Status.QUEUED, waiting_since=waiting_since
        )
        fields = self.requeue_fields() | {"waiting_since": None, "waited_seconds": waited_by_now()}
        return bool(waiting.update(**fields))

    # --- a person's actions ---

    def request_cancel(self, *, by: Actor) -> bool:
        """Cancel a queued run now, a running one at its next check. Return False if it has ended."""
        queued = Run.objects.filter(pk=self.pk, status=Run.Status.QUEUED)
        fields: dict[str, Any] = {"cancel_requested_at": Now(), "waited_seconds": waited_by_now()}
        count = queued.update(**fields, **end_in(Run.Status.CANCELLED))
        count = count or Run.objects.filter(pk=self.pk).unfinished().update(
            # If the run was queued again in between, it is cancelled when a worker claims it. Make
            # that possible now, without waiting for a review or the next attempt.
            **fields,
            waiting_since=None,
            not_before=Now(),
            progress=F("progress") + 1,
        )
        if count:
            Activity.log(self.topic.owner, by, "run-cancel-requested", subject=self)
        return bool(count)

    def request_stop(self, *, by: Actor) -> bool:
        """Ask the run to write a report from what it has so far. Return False if it has ended.

        Also returns False if it waits for a plan review, because there is nothing to write about
        yet.
        """
        rows = Run.objects.filter(pk=self.pk, waiting_since=None).unfinished()
        done = bool(rows.update(stop_requested_at=Now(), progress=F("progress") + 1))
        if done:
            Activity.log(self.topic.owner, by, "run-stop-requested", subject=self)
        return done

    def try_now(self, *, by: Actor) -> bool:
        """Let workers claim a postponed run now. Return False if it isn't postponed."""
        put_off = Run.objects.filter(
            pk=self.pk, status=Run.Status.QUEUED, waiting_since=None, not_before__gt=Now()
        ).exclude(error="")
        done = bool(put_off.update(not_before=Now(), nudged_at=None, progress=F("progress") + 1))
        if done:
            Activity.log(self.topic.owner, by, "run-tried-now", subject=self)
        return done

    def retry(self, *, by: Actor, step: str = "") -> bool:
        """Queue a failed or cancelled run again with the same id, after its last finished step.

        With a finished `step`, that step and all later ones are repeated. The run uses the topic's
        current settings, because a changed setting may be what makes it succeed. A run that repeats
        another (`rerun_of`) keeps its original settings. It starts over if memory has changed
        since. If it was stopped early, it continues to search and read from that point.

        Returns False if the run neither failed nor was cancelled. Raises StepNotFinished, and
        RunAlreadyActive if another run of the topic is unfinished.
        """
        fields = self.requeue_fields() | _AS_IF_NEW
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
            raise RunAlreadyActive(others.first()) from exc
        return done

    def _discard_pending_notices(self) -> None:
        """Let a new end of the run be announced, in pending messages and in the next digest."""
        Delivery.objects.filter(run=self).waiting_failures().delete()
        apps.get_model("research", "DigestEntry").objects.filter(run=self).delete()


# --- runs without a report in the trash ---


class RemovedRun(Remembered):
    """A failed or cancelled run that its owner deleted. A saved run is deleted with its report.

    After a restore, the row only records that it was restored. `title` is the name that Trash
    shows, because the run has no number.
    """

    REVISED = ("title",)

    # Called with a run that is about to be permanently deleted, and the actor who deletes it.
    ON_PURGE: ClassVar[list[Callable[[Any, Actor], object]]] = []

    run = models.OneToOneField(Run, models.CASCADE, related_name="removed")
    title = models.CharField(max_length=700)

    class Meta:
        ordering = ("-created",)

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("research:run", args=[self.run.topic.slug, self.run_id])

    def purge(self, *, by: Actor) -> None:
        """Permanently delete the run with its steps, tool calls and pages read."""
        with transaction.atomic():
            self._hold_in_trash()
            for forget in self.ON_PURGE:
                forget(self, by)
            super().purge(by=by)
            Run.objects.filter(pk=self.run_id).delete()
