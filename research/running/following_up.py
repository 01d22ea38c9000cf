"""Carrying out what follows a saved run: its failure is a warning on the run, never its status.

Both the Celery task and the command that finds no worker call `carry_out_follow_up`.
"""

from __future__ import annotations

from datetime import timedelta

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from beacon_site.providers.errors import ProviderError
from memory.actors import RESEARCH
from memory.models import Activity
from research.models import Run, Step
from research.models.runs import MAX_TRIES
from research.running import pipeline
from research.working.context import RunContext, StepKind, StepResult


def carry_out_follow_up(step_id: int) -> bool:
    """Carry out one follow-up of a saved run; False if it is taken or done.

    It is tried three times (decision 7).  An unforeseen error counts as a try and is raised again.
    """
    step = Step.objects.claim_follow_up(step_id)
    if step is None:
        return False
    kind = {one.name: one for one in pipeline.FOLLOW_UPS}.get(step.name)
    if kind is None:
        _end(step, state=Step.State.SKIPPED, detail=_("no longer exists"))
    elif (
        step.attempt > MAX_TRIES
    ):  # a worker that dies of it says nothing, and would do so for ever
        _put_off(step, _("the worker was lost %(n)d times") % {"n": MAX_TRIES})
    else:
        _try(step, kind)
    return True


def _try(step: Step, kind: StepKind) -> None:
    try:
        with structlog.contextvars.bound_contextvars(run=step.run_id):
            result = _result_of(step, kind)
    except (ProviderError, SoftTimeLimitExceeded) as exc:
        _put_off(step, str(exc) or _("works longer than one task may"))
    except Exception as exc:
        _put_off(step, f"{type(exc).__name__}: {exc}")
        raise
    else:
        _end(
            step,
            state=Step.State.DONE,
            output=result.output,
            detail=result.detail,
            counts=result.counts,
            warning=result.warning,
        )
        _warn(step.run, result.warning)


def _result_of(step: Step, kind: StepKind) -> StepResult:
    work = RunContext(step.run)
    work.step = work.meter.step = step
    work.meter.count_follow_ups()
    return kind.function(work)


def _end(step: Step, **fields: object) -> None:
    """Store how a follow-up ended, unless another worker has it by now."""
    held = Step.objects.filter(pk=step.pk, attempt=step.attempt, state=Step.State.RUNNING)
    held.update(finished_at=Now(), **fields)


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
