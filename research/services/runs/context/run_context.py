"""Execute one step of a run: its row, the heartbeat, and checks for stop and cancel.

`pipeline.perform` goes through the steps -> `RunContext.perform` creates or resumes the step's row,
calls its function with this RunContext, and stores the StepResult -> later steps read it by
`RunContext.output`. A finished step is never repeated; an unfinished one finds its progress in its row.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Any, Literal, TypeVar, overload

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone
from django.utils.functional import Promise

from beacon_site.db.leased_jobs import JobLost
from beacon_site.net.errors import ProviderError
from beacon_site.providers.llm.base import Answer, Message
from beacon_site.text.cleaning import clean
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import joined
from memory.services.llm.asking import BudgetReached, ask_model
from research.models import Run, Step
from research.services.budgets.budget import RunMeter, budget_for
from research.services.runs.context import outputs
from research.services.runs.context.cited_pages import PagePreparer

# --- calls in parallel threads ---

T = TypeVar("T")
Meanwhile = Callable[[], object] | None


# The index of one of several calls, and what returns its result or raises its error.
Outcome = tuple[int, Callable[[], T]]


def outcomes(
    calls: Sequence[Callable[[], T]], threads: int, look: Callable[[], bool]
) -> Iterator[list[Outcome[T]]]:
    """Run the calls in this many threads. Yield outcomes that arrive together as one list.

    `look` is called several times per second in the caller's thread. Once it returns False, no
    further outcome is yielded, and calls that haven't started are dropped. The others end by their
    own limits.
    """
    pool = ThreadPoolExecutor(max_workers=threads)
    ids = structlog.contextvars.get_contextvars()  # the caller's, for log lines
    futures = {pool.submit(_in_thread, call, ids): place for place, call in enumerate(calls)}
    try:
        while futures:
            ready = [future for future in futures if future.done()]
            if ready:
                yield [(futures.pop(future), future.result) for future in ready]
            if not look():
                return
            if futures and not ready:
                wait(futures, timeout=0.2, return_when=FIRST_COMPLETED)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _in_thread(call: Callable[[], T], ids: dict[str, Any]) -> T:
    """Run `call` in a pool's thread, and close its database connection."""
    try:
        with structlog.contextvars.bound_contextvars(**ids):
            return call()
    finally:
        connection.close()


# --- the context of a run ---

logger = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0  # so that Cancel works within five seconds
TASK_SECONDS = (
    12 * 60
)  # below the soft time limit of a task, so that the run can store its step and continue in another


class Cancelled(Exception):
    """A person cancelled the run, or moved its topic to the trash. The message says which."""


class AwaitsPlanReview(Exception):
    """A person must review the run's plan first. It waits at most `at_most`, or without limit."""

    def __init__(self, at_most: timedelta | None) -> None:
        super().__init__()
        self.at_most = at_most


class Interrupted(Exception):
    """The worker must release the run. It is queued again and continues after its last step."""


class TaskTimeUsedUp(Interrupted):
    """The run has used up the time of one task. Any worker can continue it immediately."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step: its output as JSON (`run_context.outputs`), a line for people, counts, and a warning.

    `of_run` contains fields of the run to store in the same write.
    """

    output: Mapping[str, Any] = field(default_factory=dict)
    detail: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    warning: str = ""
    of_run: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepKind:
    """One entry of `pipeline.STEPS` or `pipeline.FOLLOW_UPS`."""

    name: str
    label: str | Promise
    function: Callable[[RunContext], StepResult]


class RunContext:
    """One worker's hold on one run, from claim to end."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.topic = run.topic
        self.settings = run.asked_for
        self.budget = budget_for(self.settings, run.depth)
        self.meter = RunMeter(run, self.budget)
        self.step = Step()
        self.stop_reason = run.stop_reason
        self.ahead: PagePreparer | None = None  # checks to run while the model writes
        self.heartbeat = run.heartbeat()
        self._checked_at = 0.0
        self._began = time.monotonic()
        self._steps = {step.name: step for step in run.steps.filter(part=0, is_follow_up=False)}

    # --- steps ---

    def create_missing_steps(self, kinds: list[StepKind]) -> None:
        """Create the missing rows of steps, so the page shows what comes next."""
        missing = [
            Step(run=self.run, name=kind.name, position=position)
            for position, kind in enumerate(kinds)
            if kind.name not in self._steps
        ]
        if missing:
            Step.objects.bulk_create(missing, ignore_conflicts=True)
            rows = self.run.steps.filter(part=0, is_follow_up=False)
            self._steps = {step.name: step for step in rows}
        # A retry uses the current settings, which may have added a step between the others.
        for position, kind in enumerate(kinds):
            if self._steps[kind.name].position != position:
                self._steps[kind.name].position = position
                self._steps[kind.name].save(update_fields=["position"])

    def has_begun(self, name: str) -> bool:
        return bool(self._steps[name].output)

    def has(self, name: str) -> bool:
        return name in self._steps

    @overload
    def output(self, name: Literal["load_memory"]) -> outputs.LoadedMemory: ...
    @overload
    def output(self, name: Literal["plan"]) -> outputs.PlanOutput: ...
    @overload
    def output(self, name: Literal["search"]) -> outputs.SearchOutput: ...
    @overload
    def output(self, name: Literal["filter_seen"]) -> outputs.FilterOutput: ...
    @overload
    def output(self, name: Literal["tracks"]) -> outputs.TracksOutput: ...
    @overload
    def output(self, name: Literal["read"]) -> outputs.ReadOutput: ...
    @overload
    def output(self, name: Literal["write"]) -> outputs.WriteOutput: ...
    @overload
    def output(self, name: Literal["verify"]) -> outputs.VerifyOutput: ...
    @overload
    def output(self, name: Literal["judge"]) -> outputs.JudgeOutput: ...
    def output(self, name: str) -> Any:
        """Return the output of the step `name`, as its row stores it."""
        return self._steps[name].output

    def perform(self, kind: StepKind) -> None:
        """Run one step, unless it is done."""
        step = self._steps[kind.name]
        if step.state == Step.State.DONE:
            return
        self.look(at_once=True)
        self.check_time()
        self.step = self.meter.step = step
        now_given = self._input_hash(step)
        # The progress of an interrupted attempt is only valid for the same input.
        output = dict(step.output) if step.input_hash in ("", now_given) else {}
        output.pop("draft", None)  # the draft of a report, which each attempt starts again
        self._put_step(
            state=Step.State.RUNNING,
            attempt=self.run.attempt,
            input_hash=now_given,
            output=output,
            started_at=step.started_at or timezone.now(),
        )
        began = time.monotonic()
        try:
            result = kind.function(self)
        except (Cancelled, Interrupted, JobLost, SoftTimeLimitExceeded):
            raise
        except Exception as exc:  # whatever fails, the step's row must say so
            why, ended = clean(str(exc))[0], timezone.now()
            self._put_step(state=Step.State.FAILED, warning=why, finished_at=ended)
            raise
        # otherwise the step has already ended the run and itself
        if self.run.status == Run.Status.RUNNING:
            self._end_step(result)
        logger.info(
            "step done",
            run=self.run.pk,
            topic=self.topic.slug,
            step=kind.name,
            ms=round((time.monotonic() - began) * 1000),
            result=result.detail,
            **result.counts,
        )

    def execute_track(self, number: int, function: Callable[[], StepResult]) -> Step:
        """Run one track of the current step as its own row, unless it has ended.

        A provider error becomes a warning on that row, because the other tracks can succeed.
        """
        whole, kept = self.step, {"position": self.step.position}
        found = Step.objects.get_or_create(
            run=self.run, name=whole.name, part=number, defaults=kept
        )[0]
        if found.state in (Step.State.DONE, Step.State.FAILED):
            return found
        self.step = self.meter.step = found
        try:
            self._put_step(
                state=Step.State.RUNNING,
                attempt=self.run.attempt,
                started_at=found.started_at or timezone.now(),
            )
            self._end_step(function())
        except ProviderError as exc:
            why, ended = clean(str(exc))[0], timezone.now()
            self._put_step(state=Step.State.FAILED, warning=why, finished_at=ended)
        finally:
            self.step = self.meter.step = whole
        return found

    def _input_hash(self, step: Step) -> str:
        """Return the SHA-256 of the earlier steps' outputs, which are this step's input."""
        before = [s.output for s in self._steps.values() if s.position < step.position]
        text = json.dumps(before, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _end_step(self, result: StepResult) -> None:
        self._put_step(
            state=Step.State.DONE,
            output=result.output,
            detail=result.detail,
            counts=result.counts,
            warning=joined(" ", [*filter(None, [result.warning]), *self._warned_of(result)]),
            finished_at=timezone.now(),
            of_run=result.of_run,
        )

    def _warned_of(self, result: StepResult) -> list[str]:
        """Return the run's warnings from this step that aren't in its result.

        Each is stored on its step, so a retry that keeps the step keeps the warning.
        """
        if not self.run.warnings:
            return []
        others = self.run.steps.filter(is_follow_up=False).exclude(pk=self.step.pk)
        told = [*others.values_list("warning", flat=True), result.warning, self.stop_reason]
        return [
            warning for warning in self.run.warnings if not any(warning in text for text in told)
        ]

    def progress(
        self, detail: str, *, output: Mapping[str, Any] | None = None, **counts: int
    ) -> None:
        """Show the progress of the current step, and store its `output` so far for a resumed run."""
        fields: dict[str, Any] = {"detail": detail, "counts": counts}
        if output is not None:
            fields["output"] = output
        self._put_step(**fields)

    def _put_step(self, *, of_run: dict[str, Any] | None = None, **fields: Any) -> None:
        # Stored only while this worker holds the run. The run's row is locked first and until both
        # are stored, so no other worker claims it in between.
        with transaction.atomic(savepoint=False):  # one wait for the disk instead of two
            held = self.run.held().update(progress=F("progress") + 1, **(of_run or {}))
            written = held and Step.objects.filter(pk=self.step.pk).update(**fields)
        if not written:
            raise JobLost(str(self.run.pk))
        for row, values in ((self.step, fields), (self.run, of_run or {})):
            for name, value in values.items():
                setattr(row, name, value)

    # --- checks for stop and cancel ---

    @property
    def is_stopping(self) -> bool:
        """Return True if a person or the budget asked the run to finish with what it has."""
        return bool(self.stop_reason)

    def stop(self, reason: str) -> None:
        """Finish the run with what it has. `reason` becomes its first warning."""
        if not self.stop_reason:
            self.stop_reason = reason
            self.run.put(stop_reason=clean(reason)[0])
            self.run.warn(reason)

    def check_there_is_something(self, asked: Sequence[Any]) -> None:
        """End a run that is stopping before any search, with nothing to report.

        Raises Cancelled if a person stopped it, BudgetReached if a budget did.
        """
        if asked or not self.is_stopping:
            return
        if self.run.stop_requested_at is not None:
            raise Cancelled(_("stopped before the first search, so there’s nothing to report"))
        raise BudgetReached(
            _("%(why)s. Nothing was searched, so there’s nothing to report.")
            % {"why": self.stop_reason}
        )

    def look(self, *, at_once: bool = False) -> None:
        """Check whether the run should continue, at most once per second unless `at_once`.

        Raises Cancelled, Interrupted or JobLost. Sets `is_stopping` if a stop was requested.
        """
        now = time.monotonic()
        if not at_once and now - self._checked_at < LOOK_SECONDS:
            return
        self._checked_at = now
        if self.heartbeat.is_lost:
            raise JobLost(str(self.run.pk))
        row = (
            Run.objects.filter(pk=self.run.pk)
            .values(
                "attempt",
                "status",
                "cancel_requested_at",
                "stop_requested_at",
                "is_worker_stopping",
                "topic__trashed_at",
                "topic__owner__is_active",
            )
            .first()
        )
        if row is None or row["attempt"] != self.run.attempt or row["status"] != "running":
            raise JobLost(str(self.run.pk))
        if row["topic__trashed_at"]:
            raise Cancelled(_("the topic was moved to Trash"))
        if row["cancel_requested_at"]:
            raise Cancelled(_("cancelled manually"))
        if not row["topic__owner__is_active"]:
            raise Cancelled(_("the owner’s account is disabled"))
        if row["is_worker_stopping"]:
            raise Interrupted(_("the worker is stopping"))
        if self.seconds_left < 0:
            raise TaskTimeUsedUp
        if row["stop_requested_at"]:
            self.run.stop_requested_at = row["stop_requested_at"]
            self.stop(_("stopped early, so the report covers only what had been read by then"))

    @property
    def seconds_left(self) -> float:
        """Return the remaining seconds of this task. After that, the run is queued again."""
        return TASK_SECONDS - (time.monotonic() - self._began)

    def check_time(self) -> None:
        """Stop the run if its time is used up."""
        try:
            self.meter.check_time()
        except BudgetReached as exc:
            self.stop(_("stopped early: %(why)s") % {"why": exc})

    def wait_for(self, call: Callable[[], T], *, meanwhile: Meanwhile = None) -> T:
        """Run `call` in a thread and return its result, checking for requests in the meantime.

        A request to stop doesn't end it, because the run finishes with its result. `meanwhile` is
        called several times per second in this thread, and can write to the database.
        """
        batches = self._outcomes([call], 1, to_the_end=True, meanwhile=meanwhile)
        [(_place, get)] = next(batches)
        return get()

    def ask(
        self, purpose: str, messages: Sequence[Message], *, meanwhile: Meanwhile = None, **more: Any
    ) -> Answer | None:
        """Ask the model for this run, as `ask_model` does, and check for requests in the meantime."""
        return ask_model(
            purpose,
            messages,
            owner=self.topic.owner,
            source=self.run.source,
            topic=self.topic,
            meter=self.meter,
            wait_for=partial(self.wait_for, meanwhile=meanwhile),
            **more,
        )

    def each_of(self, calls: Sequence[Callable[[], T]], *, at_once: int) -> Iterator[Outcome[T]]:
        """Run the calls in parallel threads. Yield outcomes as they arrive.

        Between outcomes, it checks for requests. When the run must stop, calls that haven't started
        are dropped and no further outcome is yielded. When it is cancelled or lost, running calls
        end by their own time limits.
        """
        return chain.from_iterable(self.batches_of(calls, at_once=at_once))

    def batches_of(
        self, calls: Sequence[Callable[[], T]], *, at_once: int = 24
    ) -> Iterator[list[Outcome[T]]]:
        """Run the calls as `each_of` does, and yield outcomes that arrive together as one list."""
        if self.is_stopping:
            return iter(())
        return self._outcomes(calls, max(1, min(at_once, len(calls))), to_the_end=False)

    def _outcomes(
        self,
        calls: Sequence[Callable[[], T]],
        threads: int,
        *,
        to_the_end: bool,
        meanwhile: Meanwhile = None,
    ) -> Iterator[list[Outcome[T]]]:
        def look() -> bool:
            self.look()
            if meanwhile is not None:
                meanwhile()
            return to_the_end or not self.is_stopping

        return outcomes(calls, threads, look)

    # --- the heartbeat ---

    def __enter__(self) -> RunContext:
        self.heartbeat.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self.heartbeat.__exit__(*exc)
