"""The plan of a run that waits for a person: what they see, change, accept, or have made anew.

Data flow: `hold` after the step `plan` -> the run is queued, waits, and nobody claims it ->
`accept`, `plan_anew` or, where the topic allows that, `go_on_unseen` by the tick -> the plan's
output says who looked -> a worker goes on after it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.actors import RESEARCH, Actor
from memory.models import Activity, Topic
from research import outbox
from research.models import Run, Step, TopicSettings
from research.models.reopening import reopen_plan
from research.steps import planning
from research.topic_settings.standing_rules import is_address
from research.working.context import AwaitsPerson, Cancelled, RunContext

DAY = timedelta(days=1)  # PlanReview.DAY: "go on by itself after a day"
REVIEWED = "reviewed"  # the key of the plan's output that says who looked at it


class PlanWentOn(Exception):
    """The plan that a person acts on does not wait any more; the message says what became of it."""


def hold(work: RunContext) -> None:
    """Raise AwaitsPerson where the run's settings ask that somebody looks at its plan first.

    Not for a run that repeats another, is to stop, or has begun to search.  A cancelled one is
    not held either: Cancelled is raised as by every look, and here for an archived topic too,
    for whose plan nobody would look.
    """
    wanted = work.settings.plan_review
    if wanted == TopicSettings.PlanReview.NO or work.run.rerun_of_id or work.has_begun("search"):
        return
    if REVIEWED in work.output("plan"):
        return
    work.look(at_once=True)
    if Topic.objects.filter(pk=work.topic.pk).exclude(archived_at=None).exists():
        raise Cancelled(_("the topic was archived"))
    if not work.is_stopping:
        raise AwaitsPerson(DAY if wanted == TopicSettings.PlanReview.DAY else None)


def accept(run: Run, queries: list[str], *, seen: datetime, by: Actor) -> None:
    """Have the run go on with these queries, which were checked (`forms.plan`).

    `seen` is the `waiting_since` of the plan that the person saw.  What was planned is kept beside
    what they made of it.  Raises PlanWentOn if that plan does not wait any more.
    """
    with transaction.atomic():
        step = _held(run, seen)
        edited = queries != step.output["queries"]
        output = step.output | {REVIEWED: _seen_by(str(by), edited=edited)}
        if edited:
            output |= {
                "queries": queries,
                "by": "person",
                "proposed": step.output.get("proposed", step.output["queries"]),
            }
        _store(step, output)
        kind = "plan-edited" if edited else "plan-accepted"
        # A retry may plan anew: what a person wrote stays in the log.
        Activity.log(run.topic.owner, by, kind, subject=run, queries=queries)


def plan_anew(run: Run, *, seen: datetime, by: Actor) -> None:
    """Have the run plan once more, and wait again then.  Raises PlanWentOn."""
    with transaction.atomic():
        _held(run, seen)
        reopen_plan(run)
        Activity.log(run.topic.owner, by, "plan-made-anew", subject=run)


def go_on_unseen() -> int:
    """Let the runs go on whose plan nobody looked at within the day; return how many."""
    done = 0
    for run in Run.objects.waited_long_enough().select_related("topic__owner")[:200]:
        since = run.waiting_since
        assert since is not None  # noqa: S101  (waited_long_enough asks for it)  # nosec B101
        try:
            with transaction.atomic():
                step = _held(run, since)
                _store(step, step.output | {REVIEWED: _seen_by("", edited=False)})
                Activity.log(run.topic.owner, RESEARCH, "plan-went-on", subject=run)
        except PlanWentOn:
            continue
        done += 1
    return done


def _held(run: Run, seen: datetime) -> Step:
    """Queue the run again and return the step of its plan, both held until the commit."""
    if not run.go_on(seen):
        raise PlanWentOn(became_of(run))
    transaction.on_commit(lambda: outbox.nudge(run.pk))
    return Step.objects.get(run=run, name="plan", part=0)


def _seen_by(who: str, *, edited: bool) -> dict[str, Any]:
    return {"by": who, "at": timezone.now().isoformat(timespec="seconds"), "edited": edited}


def _store(step: Step, output: dict[str, Any]) -> None:
    asked = {query.casefold() for query in output["queries"]}
    # What is always asked and the person took out is not said to be obeyed.
    always = [
        rule for rule in output.get("always", []) if is_address(rule) or rule.casefold() in asked
    ]
    if "always" in output:
        output = output | {"always": always}
    Step.objects.filter(pk=step.pk).update(
        output=output,
        detail=planning.in_words(output),
        counts={"queries": len(output["queries"])},
    )


def became_of(run: Run) -> str:
    """Return what became of a plan that does not wait any more."""
    run.refresh_from_db(fields=["status", "waiting_since", "number"])
    if run.waiting_since is not None:
        return _("The run was planned anew meanwhile: another plan waits now.")
    if run.status == Run.Status.CANCELLED:
        return _("The run was cancelled meanwhile.")
    step = Step.objects.filter(run=run, name="plan", part=0).first()
    reviewed = (step.output if step else {}).get(REVIEWED)
    if not reviewed:
        return _("The run is planned anew just now.")
    if not reviewed["by"]:
        return _("The run went on by itself with the queries as they were planned.")
    if reviewed["edited"]:
        return _("The run went on already, with queries that were changed in another window.")
    return _("The run went on already, with the queries as they were planned.")


def goes_on_at(run: Run) -> datetime | None:
    """Return when a waiting run goes on by itself; None if it does not."""
    if run.waiting_since is None:
        return None
    waits = run.asked_for.plan_review == TopicSettings.PlanReview.WAIT
    return None if waits else run.not_before
