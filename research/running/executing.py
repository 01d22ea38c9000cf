"""Carrying out a claimed run and leaving it ended or waiting, whatever happens.

Both the Celery task and the command that finds no worker call `execute`.
"""

from __future__ import annotations

from datetime import timedelta

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.http import zone_of
from beacon_site.providers.errors import ProviderError, ProviderUnavailable
from memory.actors import RESEARCH
from memory.models import Activity
from memory.money.meter import BudgetReached
from research import outbox
from research.models import Run, RunLost, Step
from research.models.run_queries import LEASE
from research.models.runs import MAX_TRIES
from research.running import pipeline
from research.working.stepping import AwaitsPerson, Cancelled, Interrupted, TaskOver, Work

logger = structlog.get_logger(__name__)


def execute(run_id: int, *, worker: str) -> bool:
    """Carry out one queued run; False if it is taken or ended already.

    Safe to be called twice: see RunQuerySet.claim().  Whatever happens the row ends, or waits, in
    a state that says so.  An unforeseen error ends it as failed and is raised again.
    """
    run = Run.objects.claim(run_id, worker=worker)
    if run is None:
        logger.info("run is taken or finished, nothing to do", run=run_id)
        return False
    # Dates in prompts and reports are those of the person who reads them.
    zone = timezone.override(zone_of(run.topic.owner.time_zone))
    with zone, structlog.contextvars.bound_contextvars(run=run_id):
        _execute(run)
    return True


def _execute(run: Run) -> None:
    try:
        with Work(run) as work:
            pipeline.carry_out(work)
    except RunLost:
        logger.warning("run was given to another worker", run=run.pk, attempt=run.attempt)
    except AwaitsPerson as exc:
        run.wait_for_a_person(at_most=exc.at_most)
    except Cancelled as exc:
        run.finish(Run.Status.CANCELLED, str(exc))
    except (TaskOver, SoftTimeLimitExceeded):
        if run.requeue(_("works longer than one task may")):
            outbox.nudge(run.pk)  # the next tick is up to 15 s away
    except Interrupted as exc:
        run.requeue(str(exc))
    except ProviderUnavailable as exc:
        run.postpone_or_fail(str(exc), retry_after=exc.retry_after)
    except (ProviderError, BudgetReached) as exc:
        run.finish(Run.Status.FAILED, str(exc))
    except (OperationalError, InterfaceError) as exc:
        # A database that restarts or is full for a moment: the row waits, behind its last step.
        logger.warning("database failed under a run", run=run.pk, error=str(exc))
        connection.close()
        run.postpone_or_fail(_("the database did not answer: %(why)s") % {"why": exc})
    except (KeyboardInterrupt, SystemExit):
        run.requeue(_("interrupted"))
        raise
    except Exception:
        run.finish(Run.Status.FAILED, _("internal error: the worker's log tells what happened"))
        raise


def carry_out_follow_up(step_id: int) -> bool:
    """Carry out one follow-up of a saved run; False if it is taken or done.

    Its failure is a warning on the run, never its status (decision 7); it is tried three times.
    """
    claimed = Step.objects.filter(
        Q(state=Step.State.WAITING, not_before__lte=Now())
        | Q(state=Step.State.RUNNING, lease_until__lt=Now()),
        pk=step_id,
        is_follow_up=True,
    ).update(
        state=Step.State.RUNNING,
        attempt=F("attempt") + 1,
        started_at=Now(),
        lease_until=Now() + 20 * LEASE,
    )
    kinds = {kind.name: kind for kind in pipeline.FOLLOW_UPS}
    if not claimed:
        return False
    step = Step.objects.select_related("run__topic__settings", "run__topic__owner").get(pk=step_id)
    held = Step.objects.filter(pk=step_id, attempt=step.attempt, state=Step.State.RUNNING)
    if step.name not in kinds:
        held.update(state=Step.State.SKIPPED, finished_at=Now(), detail=_("no longer exists"))
        return True
    if step.attempt > MAX_TRIES:  # a worker that dies of it says nothing, and would do so for ever
        _put_off(step, _("the worker was lost %(n)d times") % {"n": MAX_TRIES})
        return True
    try:
        with structlog.contextvars.bound_contextvars(run=step.run_id):
            work = Work(step.run)
            work.step = work.meter.step = step
            work.meter.count_follow_ups()
            result = kinds[step.name].function(work)
    except (ProviderError, SoftTimeLimitExceeded) as exc:
        _put_off(step, str(exc) or _("works longer than one task may"))
    except Exception as exc:
        _put_off(step, f"{type(exc).__name__}: {exc}")
        raise
    else:
        held.update(
            state=Step.State.DONE,
            output=result.output,
            detail=result.detail,
            counts=result.counts,
            warning=result.warning,
            finished_at=Now(),
        )
        _warn(step.run, result.warning)
    return True


def _put_off(step: Step, why: str) -> None:
    """Let a failed follow-up wait for another try, or fail it, with a warning on its run."""
    again = step.attempt < MAX_TRIES
    Step.objects.filter(pk=step.pk, attempt=step.attempt).update(
        state=Step.State.WAITING if again else Step.State.FAILED,
        not_before=Now() + timedelta(seconds=60 * step.attempt),
        warning=why,
        finished_at=None if again else Now(),
    )
    if again:
        return
    run = step.run
    _warn(run, _("%(step)s failed: %(why)s") % {"step": step.name, "why": why})
    Activity.log(run.topic.owner, RESEARCH, "follow-up-failed", subject=run, warning=True, why=why)


def _warn(run: Run, message: str) -> None:
    """Put a follow-up's warning on its run, which has ended and keeps its status."""
    if not message:
        return
    with transaction.atomic():
        # Follow-ups of one run may end at the same time, and each must keep the other's warning.
        held = Run.objects.select_for_update(no_key=True).filter(pk=run.pk).first()
        if held is not None and message not in held.warnings:
            Run.objects.filter(pk=run.pk).update(
                warnings=[*held.warnings, message], progress=F("progress") + 1
            )
