"""Interruptible work: each job is a row that one worker at a time holds under a lease.

Data flow: a request stores a waiting row, and after the commit a message wakes a worker -> `claim`
leases the row and increases `attempt` -> the worker writes only through `held`, `renew`s its lease,
and ends the job, `release`s it or will `retry_later` -> the tick's `sweep` frees the jobs of lost
workers, and `dispatch` repeats lost messages. Only the database's clock counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar, Protocol, Self

import structlog
from django.apps import apps
from django.db import DatabaseError, InterfaceError, connection, models, transaction
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Now

from beacon_site.db.errors import LoggedFailure

logger = structlog.get_logger(__name__)

# The tick runs every 15 s. With 40 s, a job whose message was lost with Redis starts within a minute
# of Redis's return. With 60 s, we measured 66. An extra message does no harm.
WAKE_AGAIN = timedelta(seconds=40)
MAX_SENT = 200  # messages per tick and kind of job
BEAT_SECONDS = 10.0  # so a worker may miss three of them within a lease


class Broker(Protocol):
    """What wakes workers: `beacon_site.celery`, which this package can't import."""

    def send(self, task: str, *args: Any, queue: str) -> bool: ...

    def is_full(self, queue: str) -> bool: ...


class JobLost(Exception):
    """This worker no longer holds the job: another has it, or it has ended."""


class Heartbeat:
    """Calls `beat` every BEAT_SECONDS during the block; a killed worker renews nothing.

    `beat` renews the lease.  It returns False if another worker has taken over; then it isn't
    called again and `is_lost` is True.
    """

    def __init__(self, beat: Callable[[], bool], *, name: str) -> None:
        self._beat = beat
        self._name = name
        self._ended, self._lost = threading.Event(), threading.Event()
        self._thread = threading.Thread(
            target=self._keep_beating, name=f"heartbeat-{name}", daemon=True
        )

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self.wait(5)

    @property
    def is_lost(self) -> bool:
        """Return True if another worker has taken over the work."""
        return self._lost.is_set()

    def wait(self, seconds: float) -> None:
        """Wait until the beats have ended, at most for the given seconds."""
        self._thread.join(timeout=seconds)

    def _keep_beating(self) -> None:
        try:
            while not self._ended.wait(BEAT_SECONDS):
                try:
                    if not self._beat():
                        self._lost.set()
                        return
                except (DatabaseError, InterfaceError) as exc:
                    # The next beat tries again; if all fail, the lease expires.
                    logger.warning("heartbeat failed", of=self._name, error=str(exc))
                finally:
                    connection.close()  # others need it in the meantime
        finally:
            connection.close()


class LeasedJobQuerySet(models.QuerySet[Any]):
    """The claims that decide between workers, and what the tick does for lost ones."""

    def unfinished(self) -> Self:
        job = self.model
        return self.filter(**{f"{job.STATE}__in": (job.WAITING, job.RUNNING)})

    def waiting(self) -> Self:
        """Keep jobs whose time has come and that no worker has."""
        job = self.model
        return self.filter(job.CLAIMABLE, not_before__lte=Now(), **{job.STATE: job.WAITING})

    def lost(self) -> Self:
        """Keep jobs whose worker has stopped renewing the lease."""
        job = self.model
        expired = Q(lease_until=None) | Q(lease_until__lt=Now())
        return self.filter(job.CLAIMABLE, expired, **{job.STATE: job.RUNNING})

    def due(self) -> Self:
        """Keep jobs that a worker can claim."""
        return self.waiting() | self.lost().exclude(self._crashed_too_often())

    def claim(self, pk: Any, **fields: Any) -> Any | None:
        """Lease a job, set `fields`, and return it. Returns None if it is taken, ended or not due.

        A single UPDATE decides, so only one of two workers gets the job. It waits for a locked row
        instead of skipping it, because the sender of the message may still be updating `nudged_at`.
        The returned `attempt` is the fencing token: `held` checks it, so a worker that lost the job
        can't change anything. A job that lost its worker counts one crash.
        """
        job = self.model
        fields = self._crash() | {"lease_until": Now() + job.LEASE} | job.CLAIMED | fields
        fields |= {job.STATE: job.RUNNING, "attempt": F("attempt") + 1}
        if not self.due().filter(pk=pk).update(**fields):
            return None
        return self.select_related(*job.RELATED).get(pk=pk)

    def sweep(self) -> int:
        """Free the jobs of lost workers, and give up those that crashed too often. Return how many."""
        if (
            not self.unfinished().exists()
        ):  # nearly always, and much cheaper than the statements below
            return 0
        freed = self.lost().exclude(self._crashed_too_often())
        done = freed.update(**self._crash(), **self.model.requeue_fields())
        crashed = self.lost().filter(self._crashed_too_often())
        for job in crashed.select_related(*self.model.RELATED):
            about = {"job": job._meta.label_lower, "pk": str(job.pk)}
            with LoggedFailure("lost job not given up", **about):  # the next sweep tries again
                done += self._give_up(job)
        return done

    @transaction.atomic
    def _give_up(self, job: Any) -> int:
        # A worker that renews its lease at this moment keeps the job.
        lost = self.lost().filter(pk=job.pk, attempt=job.attempt)
        if not lost.update(lease_until=Now() + job.LEASE, **self._crash()):
            return 0
        job.crashes += 1
        job.give_up()
        return 1

    def dispatch(self) -> int:
        """Wake a worker for each waiting job without a recent message. Return how many."""
        if not self.unfinished().exists():
            return 0
        job = self.model
        quiet = Q(nudged_at=None) | Q(nudged_at__lt=Now() - WAKE_AGAIN)
        waiting = self.due().filter(quiet).order_by("pk").values_list("pk", flat=True)
        keys = list(waiting[:MAX_SENT])
        if keys and job.BROKER.is_full(job.QUEUE):
            logger.warning("queue is full because no worker takes messages", queue=job.QUEUE)
            return 0
        for sent, pk in enumerate(keys):
            if not job(pk=pk).wake():
                return sent  # the broker is down, and the next tick tries again
        return len(keys)

    def _crashed(self) -> Q:
        crashed: Q = self.model.CRASHED & Q(**{self.model.STATE: self.model.RUNNING})
        return crashed

    def _crashed_too_often(self) -> Q:
        return self._crashed() & Q(crashes__gte=self.model.MAX_CRASHES - 1)

    def _crash(self) -> dict[str, Any]:
        counted = When(self._crashed(), then=F("crashes") + 1)
        number = models.IntegerField()
        return {"crashes": Case(counted, default=F("crashes"), output_field=number)}


class LeasedJob(models.Model):
    """A job with its lease. A subclass names its states, its task, and how it ends after crashes.

    `crashes` counts lost workers and `tries` the retries so far. After MAX_CRASHES the tick calls
    `give_up`. Retries are scheduled after RETRY_SECONDS, and there are no more than that list has.
    """

    BROKER: ClassVar[Broker]  # set when Django has started
    STATE: ClassVar[str] = "state"  # the field with the job's state
    WAITING: ClassVar[str] = "waiting"
    RUNNING: ClassVar[str] = "running"
    CLAIMABLE: ClassVar[Q] = Q()  # what else a worker's claim requires
    CRASHED: ClassVar[Q] = Q()  # whether a lost worker counts as a crash
    CLAIMED: ClassVar[dict[str, Any]] = {}  # fields that a claim sets
    RELEASED: ClassVar[dict[str, Any]] = {}  # fields that are set when it waits again
    LEASE: ClassVar[timedelta] = timedelta(seconds=45)  # renewed every BEAT_SECONDS
    MAX_CRASHES: ClassVar[int] = 3  # else a job that crashes its worker would do so forever
    RETRY_SECONDS: ClassVar[tuple[int, ...]] = ()
    MAX_RETRY: ClassVar[float] = 600.0  # seconds, if a service asks for a later retry
    RELATED: ClassVar[tuple[str, ...]]  # what is loaded together with a claimed job
    TASK: ClassVar[str]
    QUEUE: ClassVar[str]

    attempt = models.PositiveIntegerField(default=0)
    tries = models.PositiveIntegerField(default=0)
    crashes = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField(db_default=Now())
    lease_until = models.DateTimeField(null=True, blank=True)
    nudged_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True

    # --- waking a worker ---

    def wake(self) -> bool:
        """Tell a worker that the job waits. If this fails, the tick does it."""
        key = self.pk if isinstance(self.pk, int) else str(self.pk)
        sent = self.BROKER.send(self.TASK, key, queue=self.QUEUE)
        if sent:
            type(self)._default_manager.filter(pk=self.pk).update(nudged_at=Now())
        return sent

    def wake_after_commit(self) -> None:
        transaction.on_commit(self.wake)

    # --- the worker's writes: each checks the fencing token ---

    def held(self) -> Any:
        """Return the job's row if this worker holds it, otherwise no row."""
        mine = {"pk": self.pk, "attempt": self.attempt, self.STATE: self.RUNNING}
        return type(self)._default_manager.filter(**mine)

    def put(self, **fields: Any) -> None:
        """Set fields of the job. Raises JobLost if this worker no longer holds it."""
        if not self.held().update(**fields):
            raise JobLost(str(self.pk))
        for name, value in fields.items():
            if not hasattr(value, "resolve_expression"):
                setattr(self, name, value)

    def renew(self, **fields: Any) -> bool:
        """Renew the lease and set `fields`. Return False if this worker no longer holds the job."""
        return bool(self.held().update(lease_until=Now() + self.LEASE, **fields))

    def heartbeat(self) -> Heartbeat:
        """Renew the lease during a block."""
        return Heartbeat(self.renew, name=f"{self._meta.model_name}:{self.pk}")

    def end(self, state: str, **fields: Any) -> bool:
        """End the job in `state`. Return False if this worker no longer holds it."""
        return bool(self.held().update(lease_until=None, **{self.STATE: state}, **fields))

    def release(self, **fields: Any) -> bool:
        """Let any worker continue the job. Return False if this worker no longer holds it."""
        return bool(self.held().update(**self.requeue_fields() | fields))

    @property
    def is_unfinished(self) -> bool:
        return getattr(self, self.STATE) in (self.WAITING, self.RUNNING)

    @property
    def is_given_up(self) -> bool:
        return self.crashes >= self.MAX_CRASHES

    @property
    def may_retry(self) -> bool:
        return self.tries < len(self.RETRY_SECONDS)

    def retry_later(self, *, after: float | None = None, **fields: Any) -> bool:
        """Release the job until its next retry, or until a service's `after` seconds are over.

        Call it only if `may_retry`. Returns False if this worker no longer holds the job.
        """
        wait = min(after or self.RETRY_SECONDS[self.tries], self.MAX_RETRY)
        later = Now() + timedelta(seconds=wait)
        return self.release(not_before=later, tries=F("tries") + 1, **fields)

    @classmethod
    def requeue_fields(cls) -> dict[str, Any]:
        """Return the fields of a job that waits for a worker again."""
        ready = {"not_before": Now(), "lease_until": None, "nudged_at": None}
        return {cls.STATE: cls.WAITING} | ready | cls.RELEASED

    def give_up(self) -> object:
        """End a job that lost MAX_CRASHES workers. Called by the tick while it holds the job."""
        raise NotImplementedError


def kinds() -> list[Any]:
    return [model for model in apps.get_models() if issubclass(model, LeasedJob)]


def unfinished_kinds() -> list[Any]:
    """Return the kinds that have unfinished jobs; there are rarely any.  Takes one query."""
    names = [
        kind.objects.unfinished().order_by().values_list(Value(kind._meta.label))[:1]
        for kind in kinds()
    ]
    found = {name for (name,) in names[0].union(*names[1:], all=True)}
    return [kind for kind in kinds() if kind._meta.label in found]
