"""The questions asked of runs, and the claims that decide between workers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from django.db import IntegrityError, models, transaction
from django.db.models import Case, ExpressionWrapper, F, Q, When
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Coalesce, Extract, Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.actors import RESEARCH, Actor
from memory.models import Activity, Topic
from research.models.channels import Delivery
from research.models.effective_settings import settings_now
from research.models.topic_settings import TopicSettings

if TYPE_CHECKING:
    from research.models.runs import Run

LEASE = timedelta(seconds=45)  # reliability.md 1.1; renewed every 10 s by the worker
MAX_CRASHES = 3  # how often a run may lose its worker (reliability.md 1.3)


class RunStatus(models.TextChoices):
    """What becomes of a run (design.md, Words)."""

    QUEUED = "queued", gettext_lazy("queued")
    RUNNING = "running", gettext_lazy("running")
    SUCCEEDED = "succeeded", gettext_lazy("succeeded")
    PARTIAL = "partial", gettext_lazy("partial")
    FAILED = "failed", gettext_lazy("failed")
    CANCELLED = "cancelled", gettext_lazy("cancelled")


class RunTrigger(models.TextChoices):
    """Who, or what, started a run."""

    PERSON = "person", gettext_lazy("by hand")
    SCHEDULE = "schedule", gettext_lazy("by schedule")
    COMMAND = "command", gettext_lazy("by command")
    AGENT = "agent", gettext_lazy("by an agent")
    RECHECK = "recheck", gettext_lazy("to check stale facts again")


PlanReview = TopicSettings.PlanReview
UNFINISHED = (RunStatus.QUEUED, RunStatus.RUNNING)


class RunInTheWay(Exception):
    """The topic has an unfinished run already: one at a time (R53).

    Or one that has ended was started by the same button, pressed before (`is_over`).
    """

    def __init__(self, run: Run | None, *, is_over: bool = False) -> None:
        said = _("A run of this topic is going on already.")
        if is_over:
            said = _("You started a run from that page already, so a second press started none.")
        elif run is not None and run.waiting_since is not None:
            said = _("A run of this topic waits for somebody to look at its plan.")
        super().__init__(said)
        self.run, self.is_over = run, is_over


class RunLost(Exception):
    """This worker no longer holds the run: its lease ran out and it was given to another."""


class RunQuerySet(models.QuerySet[Any]):
    """The questions asked of runs, and the claims that decide between workers."""

    def of(self, user: Any) -> Self:
        """Keep what `user` owns: the one owner filter."""
        return self.filter(topic__owner=user)

    def unfinished(self) -> Self:
        """Keep runs that are queued or running."""
        return self.filter(status__in=UNFINISHED)

    def waiting_for_a_person(self) -> Self:
        """Keep queued runs whose plan somebody is to look at; no worker claims them."""
        return self.exclude(waiting_since=None)

    def waited_long_enough(self) -> Self:
        """Keep those of them that go on by themselves now: their day is over."""
        allowed = self.waiting_for_a_person().filter(settings__plan_review=PlanReview.DAY)
        return allowed.filter(not_before__lte=Now())

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
        waiting = Q(status=RunStatus.QUEUED, not_before__lte=Now(), waiting_since=None)
        crashed = Q(status=RunStatus.RUNNING, leaving=False)
        lost = Q(status=RunStatus.RUNNING, lease_until__lt=Now())
        abandoned = lost & (Q(leaving=True) | Q(crashes__lt=MAX_CRASHES - 1))
        claimed = self.filter(waiting | abandoned, pk=run_id).update(
            status=RunStatus.RUNNING,
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
        stalled = self.filter(status=RunStatus.RUNNING, lease_until__lt=Now())
        crashed = Q(leaving=False, crashes__gte=MAX_CRASHES - 1)
        failed = 0
        for run in stalled.filter(crashed).select_related("topic__owner"):
            message = _("crashed %(times)d times: its worker was lost each time") % {
                "times": MAX_CRASHES
            }
            with transaction.atomic():
                ended = stalled.filter(pk=run.pk, attempt=run.attempt).update(
                    crashes=F("crashes") + 1, error=message, **end_in(RunStatus.FAILED)
                )
                if not ended:
                    continue
                owner = run.topic.owner
                Activity.log(owner, RESEARCH, "run-failed", subject=run, warning=True, why=message)
                Delivery.objects.lay_out_failure(run)
                failed += 1
        freed = stalled.filter(leaving=True).update(**queued_again())
        left = stalled.filter(leaving=False, crashes__lt=MAX_CRASHES - 1)
        freed += left.update(crashes=F("crashes") + 1, **queued_again())
        return freed + failed

    def waiting_to_start(self) -> Self:
        """Keep queued runs whose time has come: the outbox that the tick empties."""
        ready = self.filter(status=RunStatus.QUEUED, not_before__lte=Now(), waiting_since=None)
        return ready.order_by("pk")

    def kept(self) -> Self:
        """Leave out the runs that were removed, by their report or, where there is none, by themselves."""
        return self.filter(report__trashed_at=None, removed__trashed_at=None)

    def start(
        self, topic: Topic, *, trigger: str, by: Actor, depth: str = "", **fields: Any
    ) -> Run:
        """Queue a run of `topic`, by its settings as they are now unless `fields` holds others.

        Raises RunInTheWay if one is unfinished: the constraint decides, not a look before.
        """
        fields.setdefault("settings", settings_now(topic))
        try:
            with transaction.atomic():
                run: Run = self.create(
                    topic=topic,
                    trigger=trigger,
                    actor=str(by),
                    depth=depth or "quick",
                    # The database's clock, which the claim asks too: the web server's may differ.
                    not_before=Now(),
                    **fields,
                )
                run.refresh_from_db(fields=["not_before"])
        except IntegrityError as exc:
            if "run_once_a_slot" in str(exc) or "run_one_unfinished" in str(exc):
                raise RunInTheWay(self.filter(topic=topic).unfinished().first()) from exc
            raise
        return run


def waited_by_now() -> CombinedExpression:
    """Return, for an UPDATE, the seconds a run has waited for people, a wait of now included."""
    wait = ExpressionWrapper(Now() - F("waiting_since"), output_field=models.DurationField())
    seconds = Coalesce(Extract(wait, "epoch"), 0.0, output_field=models.FloatField())
    return F("waited_seconds") + seconds


def end_in(status: str) -> dict[str, Any]:
    """Return the fields of a run that ends in `status`."""
    return {
        "status": status,
        "finished_at": Now(),
        "lease_until": None,
        "waiting_since": None,
        "progress": F("progress") + 1,
    }


def queued_again() -> dict[str, Any]:
    """Return the fields of a run that waits for a worker again."""
    return {
        "status": RunStatus.QUEUED,
        "not_before": Now(),
        "lease_until": None,
        "leaving": False,
        "nudged_at": None,
        "progress": F("progress") + 1,
    }
