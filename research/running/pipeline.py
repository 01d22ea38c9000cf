"""The order of the steps of a run, and of what follows it.  Nothing else."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from research.deep import exploring
from research.follow_ups import extracting, reflecting, summarising
from research.models import Run, TopicSettings
from research.rechecks import steps as rechecking
from research.reporting import writing
from research.search import gathering, reading
from research.steps import judging, plan_review, planning, saving, verifying
from research.working import explored
from research.working.context import RunContext, StepKind, StepResult


def _save(work: RunContext) -> StepResult:
    return saving.save(work, FOLLOW_UPS)


STEPS: list[StepKind] = [
    StepKind("load_memory", _("Load memory"), planning.load_memory),
    StepKind("plan", _("Plan"), planning.plan),
    StepKind("search", _("Search"), gathering.search),
    StepKind("filter_seen", _("Filter seen"), gathering.filter_seen),
    StepKind("read", _("Read"), reading.read),
    StepKind("write", _("Write"), writing.write),
    StepKind("verify", _("Verify citations"), verifying.verify),
    StepKind("save", _("Save memory"), _save),
]

# Of a deep run alone, after the step that tells new hits from known ones.
TRACKS = StepKind(explored.STEP, _("Tracks"), exploring.explore)

# Of a run whose topic has an intent or muted sources, before its save.
JUDGE = StepKind(judging.STEP, _("Weigh against what you asked for"), judging.judge)

# Of a recheck: named as those of other runs are, which save and pages look for.
RECHECK: list[StepKind] = [
    StepKind("load_memory", _("Load memory"), rechecking.load),
    StepKind("plan", _("Choose the facts"), rechecking.choose),
    StepKind("search", _("Read their sources again"), rechecking.read_sources),
    StepKind("filter_seen", _("Search for what they no longer say"), rechecking.search),
    StepKind("write", _("Compare"), rechecking.compare),
    StepKind("verify", _("Verify citations"), verifying.verify),
    StepKind("save", _("Save memory"), rechecking.save),
]

# Carried out after the save, each on its own: a failure is a warning on the run, never its status.
FOLLOW_UPS: list[StepKind] = [
    StepKind("extract", _("Keep observations"), extracting.observe),
    StepKind("summarise", _("Write the summary note"), summarising.summarise),
    StepKind("reflect", _("Look back"), reflecting.reflect),
]


def steps_of(depth: str, *, judges: bool = False) -> list[StepKind]:
    """Return the steps of a run of that depth, in their order; `judges`: see `judging.judges`."""
    steps = list(STEPS)
    if depth == TopicSettings.Depth.DEEP:
        steps.insert(1 + [kind.name for kind in steps].index("filter_seen"), TRACKS)
    if judges:
        steps.insert([kind.name for kind in steps].index("save"), JUDGE)
    return steps


def steps_of_run(run: Run, *, judges: bool = False) -> list[StepKind]:
    """Return the steps of that very run, in their order."""
    return list(RECHECK) if run.rechecks else steps_of(run.depth, judges=judges)


def carry_out(work: RunContext) -> None:
    """Carry out what is left of a run; its save is its end."""
    steps = steps_of_run(work.run, judges=judging.judges(work.settings))
    work.lay_out(steps)
    for kind in steps:
        work.carry_out(kind)
        if kind.name == "plan" and not work.run.rechecks:
            plan_review.hold(work)
