"""The order of a run's steps and follow-ups, and how a worker carries them out."""

from __future__ import annotations

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.db import InterfaceError, OperationalError, connection
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy

from beacon_site.db.errors import FULL, failure_of
from beacon_site.db.leased_jobs import JobLost
from beacon_site.net.errors import ProviderError, ProviderUnavailable
from beacon_site.text.dates import zone_of
from beacon_site.text.messages import gettext as _
from memory.services.llm.asking import BudgetReached
from research.models import Run, Step, TopicSettings
from research.services.runs.context import inputs
from research.services.runs.context.run_context import (
    AwaitsPlanReview,
    Cancelled,
    Interrupted,
    RunContext,
    StepKind,
    StepResult,
    TaskTimeUsedUp,
)
from research.services.runs.reporting import writing
from research.services.runs.search import gathering, reading
from research.services.runs.steps import follow_ups, judging, planning, saving, tracks, verifying
from research.services.runs.steps import rechecks as rechecking


def _save(context: RunContext) -> StepResult:
    return saving.save(context, FOLLOW_UPS)


STEPS: list[StepKind] = [
    StepKind("load_memory", gettext_lazy("Load memory"), planning.load_memory),
    StepKind("plan", gettext_lazy("Plan"), planning.plan),
    StepKind("search", gettext_lazy("Search"), gathering.search),
    StepKind("filter_seen", gettext_lazy("Filter seen URLs"), gathering.filter_seen),
    StepKind("read", gettext_lazy("Read"), reading.read),
    StepKind("write", gettext_lazy("Write"), writing.write),
    StepKind("verify", gettext_lazy("Verify citations"), verifying.verify),
    StepKind("save", gettext_lazy("Save memory"), _save),
]

# Only in deep runs, after the step that separates new hits from known ones.
TRACKS = StepKind(inputs.STEP, gettext_lazy("Tracks"), tracks.explore)

# Only if the topic has an intent or muted sources, before the save.
JUDGE = StepKind(judging.STEP, gettext_lazy("Filter changes"), judging.judge)

# Rechecks use the step names of other runs, which the save and pages look for.
RECHECK: list[StepKind] = [
    StepKind("load_memory", gettext_lazy("Load memory"), rechecking.load),
    StepKind("plan", gettext_lazy("Select facts"), rechecking.choose),
    StepKind("search", gettext_lazy("Read sources again"), rechecking.read_sources),
    StepKind("filter_seen", gettext_lazy("Search for missing facts"), rechecking.search),
    StepKind("write", gettext_lazy("Compare"), rechecking.compare),
    StepKind("verify", gettext_lazy("Verify citations"), verifying.verify),
    StepKind("save", gettext_lazy("Save memory"), rechecking.save),
]

# Run after the save, independently. A failure is a warning on the run, never its status.
FOLLOW_UPS: list[StepKind] = [
    StepKind("extract", gettext_lazy("Save observations"), follow_ups.observe),
    StepKind("summarise", gettext_lazy("Write summary note"), follow_ups.summarise),
    StepKind("reflect", gettext_lazy("Reflection"), follow_ups.reflect),
]


def steps_of(depth: str, *, judges: bool = False) -> list[StepKind]:
    """Return the steps of a run of that depth, in order. For `judges`, see `judging.judges`."""
    steps = list(STEPS)
    if depth == TopicSettings.Depth.DEEP:
        steps.insert(1 + [kind.name for kind in steps].index("filter_seen"), TRACKS)
    if judges:
        steps.insert([kind.name for kind in steps].index("save"), JUDGE)
    return steps


def steps_of_run(run: Run, *, judges: bool) -> list[StepKind]:
    return list(RECHECK) if run.rechecks else steps_of(run.depth, judges=judges)


def perform(context: RunContext) -> None:
    """Run the remaining steps. The save ends the run."""
    steps = steps_of_run(context.run, judges=judging.judges(context.settings))
    context.create_missing_steps(steps)
    for kind in steps:
        context.perform(kind)
        if kind.name == "plan" and not context.run.rechecks:
            planning.hold(context)


# --- runs ---

logger = structlog.get_logger(__name__)


def execute(run_id: int, *, worker: str) -> bool:
    """Carry out one queued run. Return False if it is taken or has ended.

    Safe to call twice, see LeasedJobQuerySet.claim(). Afterwards the run has ended or is waiting. An
    unexpected error ends it as failed and is re-raised.
    """
    run = Run.objects.claim(run_id, worker=worker)
    if run is None:
        logger.info("run already taken or finished", run=run_id)
        return False
    # Prompts and reports show dates in the owner's time zone.
    zone = timezone.override(zone_of(run.topic.owner.time_zone))
    with zone, structlog.contextvars.bound_contextvars(run=run_id):
        _execute(run)
    return True


def _execute(run: Run) -> None:
    try:
        with RunContext(run) as work:
            perform(work)
    except JobLost:
        logger.warning("run reassigned to another worker", run=run.pk, attempt=run.attempt)
    except AwaitsPlanReview as exc:
        run.wait_for_a_person(at_most=exc.at_most)
    except Cancelled as exc:
        run.finish(Run.Status.CANCELLED, str(exc))
    except (TaskTimeUsedUp, SoftTimeLimitExceeded):
        if run.requeue(_("exceeded the time limit for one task")):
            run.wake()  # the next tick is up to 15 s away
    except Interrupted as exc:
        run.requeue(str(exc))
    except ProviderUnavailable as exc:
        run.postpone_or_fail(str(exc), retry_after=exc.retry_after)
    except (ProviderError, BudgetReached) as exc:
        run.finish(Run.Status.FAILED, str(exc))
    except (OperationalError, InterfaceError) as exc:
        # The database restarted or was briefly full. The run waits, and continues after its last
        # step.
        logger.warning("database error during a run", run=run.pk, error=str(exc))
        connection.close()
        is_full = failure_of(exc) is FULL
        words = _("the database didn’t respond: %(why)s") % {"why": exc}
        run.postpone_or_fail(_("the server’s disk is full") if is_full else words)
    except (KeyboardInterrupt, SystemExit):
        run.requeue(_("interrupted"))
        raise
    except Exception:  # a run that doesn't end would block its topic; the worker logs the traceback
        run.finish(Run.Status.FAILED, _("internal error (see the worker’s log)"))
        raise


# --- follow-ups ---


def run_follow_up(step_id: int) -> bool:
    """Carry out one follow-up of a saved run. Return False if it is taken or done.

    It is retried twice. An unexpected error counts as an attempt and is re-raised.
    """
    step = Step.objects.claim(step_id)
    if step is None:
        return False
    kind = {one.name: one for one in FOLLOW_UPS}.get(step.name)
    if kind is None:
        step.end(Step.State.SKIPPED, detail=_("no longer exists"), finished_at=Now())
    else:
        _try(step, kind)
    return True


def _try(step: Step, kind: StepKind) -> None:
    try:
        with structlog.contextvars.bound_contextvars(run=step.run_id):
            result = _result_of(step, kind)
    except (ProviderError, SoftTimeLimitExceeded) as exc:
        step.retry_or_fail(str(exc) or _("exceeded the time limit for one task"))
    except Exception as exc:  # a step must be tried again or end; the worker logs the traceback
        step.retry_or_fail(f"{type(exc).__name__}: {exc}")
        raise
    else:
        step.end(
            Step.State.DONE,
            output=result.output,
            detail=result.detail,
            counts=result.counts,
            warning=result.warning,
            finished_at=Now(),
        )
        step.run.warn_afterwards(result.warning)


def _result_of(step: Step, kind: StepKind) -> StepResult:
    context = RunContext(step.run)
    context.step = context.meter.step = step
    context.meter.count_follow_ups()
    return kind.function(context)
