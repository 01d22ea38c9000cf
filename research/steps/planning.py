"""Steps 1 and 2: load the topic's memory, plan the queries, and review the plan.

Data flow: topic memory -> step output (JSON) -> `known()` -> prompt or templates -> queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from pydantic import BaseModel, Field, model_validator

from beacon_site.llm.base import Message
from beacon_site.net.errors import ProviderError, ProviderNonsense
from beacon_site.text.cleaning import clean, one_line
from memory.context import topic_block
from memory.core.actors import RESEARCH, Actor
from memory.llm import connections
from memory.llm.asking import ask_model
from memory.models import Activity, Observation, Sensitivity, Topic, Use
from memory.topics import memory as topic_memory
from memory.topics.memory import TopicMemory
from memory.usage.booking import BudgetReached
from research.facts import correcting
from research.models import Run, Step, TopicSettings
from research.models.runs import reopen_plan
from research.run_context import applied_rules, inputs, memory_for_prompt
from research.run_context.context import AwaitsPlanReview, Cancelled, RunContext, StepResult
from research.run_context.outputs import LoadedMemory, PlanOutput, PlanReviewed
from research.search import facets, searching
from research.topic_settings import standing_rules
from research.topic_settings.standing_rules import is_address

LEAST_QUERIES, MOST_QUERIES = 3, 6


class Plan(BaseModel):
    """The planner's answer: search queries. A bare list is accepted too."""

    queries: list[str] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _bare_list(cls, value: Any) -> Any:
        return {"queries": value} if isinstance(value, list) else value

    def usable(self) -> list[str]:
        """Return the usable queries: not empty, distinct, few and short."""
        cleaned = (one_line(clean(query)[0])[: inputs.MOST_QUERY_LENGTH] for query in self.queries)
        by_fold = {query.casefold(): query for query in cleaned if any(map(str.isalnum, query))}
        return list(by_fold.values())[:MOST_QUERIES]


def load_memory(work: RunContext) -> StepResult:
    """Load the topic's memory. Without live memory, the run is a baseline, whatever its number."""
    _warn_model_not_used(work)
    loaded = topic_memory.load(work.topic)
    of_run = {"is_baseline": loaded.memory is None}
    if loaded.problem:
        work.run.warn(loaded.problem)
        return StepResult(
            LoadedMemory(memory=None, problem=loaded.problem),
            warning=loaded.problem,
            detail=_("failed, so the report is a baseline"),
            of_run=of_run,
        )
    if loaded.memory is None:
        return StepResult(
            LoadedMemory(memory=None, problem=""), detail=_("none yet (baseline)"), of_run=of_run
        )
    # A corrected sentence isn't reported again, whatever text the fact has now.
    corrected = correcting.corrected_sentences(work.topic)
    struck = dict.fromkeys([*loaded.memory.struck, *corrected])
    secret = [
        *loaded.memory.secret_struck,
        *(said for said, is_secret in corrected.items() if is_secret),
    ]
    memory = replace(loaded.memory, struck=tuple(struck), secret_struck=tuple(secret))
    used = [("topicfact", fact.id) for fact in memory.facts]
    Use.note(work.topic.owner, used, work.run.source)
    output: LoadedMemory = {
        "memory": memory.as_json(),
        "problem": "",
        "expires_at": loaded.expires_at.isoformat() if loaded.expires_at else None,
    }
    return StepResult(
        output,
        detail=_("current facts before this run: %(facts)d, seen URLs: %(seen)d, last run %(when)s")
        % {
            "facts": len(memory.facts),
            "seen": memory.seen_count,
            "when": f"{memory.last_run_at:%Y-%m-%d}" if memory.last_run_at else "?",
        },
        counts={"facts": len(memory.facts), "seen": memory.seen_count},
        of_run=of_run,
    )  # fmt: skip


def _warn_model_not_used(work: RunContext) -> None:
    """Warn that the model isn't used because the topic is marked sensitive."""
    is_secret = work.topic.sensitivity == Sensitivity.SENSITIVE
    if is_secret and connections.language_model() is not None:
        work.run.warn(
            _(
                "The topic is marked sensitive, so no model is used. Queries are planned from templates, and the report quotes the pages."
            )
        )


def plan(work: RunContext) -> StepResult:
    """Plan the queries: by the model with the memory in its prompt, or by templates.

    A repeated run uses the same queries, and warns about services that are no longer available.

    Without a model, facet queries are used. If the model fails or its answer is unusable, there are
    3 fallback queries (R45, R46).
    """
    memory = inputs.known(work)
    lessons = topic_block.of_topic(work.topic)
    told = memory_for_prompt.choose(work, memory, lessons)
    warning = ""
    try:
        if work.run.rerun_of is not None:
            queries, by = searching.queries_of(work.run.rerun_of), "rerun"
            warning = _unavailable_services(work, work.run.rerun_of)
        elif work.is_stopping:
            queries, by = _by_facets(work, memory), "facets"
        else:
            asked = _by_model(work, memory, told, lessons)
            queries, by = (asked, "model") if asked else (_by_facets(work, memory), "facets")
    except BudgetReached as exc:
        warning = _("Planned without the model: %(why)s") % {"why": exc}
        work.run.warn(warning)
        queries, by = _by_facets(work, memory), "facets"
    except ProviderError as exc:
        warning = _("The model couldn’t plan, so 3 standard queries are used: %(why)s") % {
            "why": exc
        }
        work.run.warn(warning)
        queries, by = facets.fallback_queries(work.topic.title, timezone.localdate()), "fallback"
    # a rerun uses the exact queries of the original, including those from its rules
    if by != "rerun":
        queries = applied_rules.with_always_included(queries, work.settings)
    output: PlanOutput = {"queries": queries, "by": by}
    if always := applied_rules.checked_in(queries, work.settings):
        output["always"] = always
    if not_at := standing_rules.places_of(work.settings):
        output["not_at"] = not_at
    if told:
        output["observations"] = [str(one.pk) for one in told]
    if lessons:
        output["taught"] = [str(one.pk) for one in lessons]
    return StepResult(
        output, detail=in_words(output), counts={"queries": len(queries)}, warning=warning
    )


def _unavailable_services(work: RunContext, was: Run) -> str:
    gone = searching.unavailable_services(work, was)
    for warning in gone:
        work.run.warn(warning)
    return " ".join(gone)


def in_words(output: PlanOutput) -> str:
    """Return a summary of a plan's output: its queries, who planned them, and the rules used."""
    count = len(output["queries"])
    queries = ngettext("%(count)d query", "%(count)d queries", count) % {"count": count}
    words = [
        f"{queries}, {by_words(output['by'])}",
        memory_for_prompt.in_words(output),
        applied_rules.plan_in_words(output),
    ]
    return "; ".join(filter(None, words))


def by_words(by: str) -> str:
    """Return who or what planned the queries. `by` is the value in the step's output."""
    return {
        "model": _("planned by the model"),
        "facets": _("planned from templates"),
        "fallback": _("planned without the model, which failed"),
        "person": _("edited by you"),
        "rerun": _("copied from the repeated run"),
    }.get(by, by)


def _by_facets(work: RunContext, memory: TopicMemory | None) -> list[str]:
    return facets.facet_queries(
        work.topic.title,
        objective=work.settings.objective,
        focus=work.settings.focus,
        now=timezone.localdate(),
        last_run_at=memory.last_run_at if memory else None,
        languages=work.settings.languages,
        known=[fact.text for fact in memory.facts] if memory else [],
    )


def _by_model(
    work: RunContext,
    memory: TopicMemory | None,
    told: Sequence[Observation],
    lessons: Sequence[Observation],
) -> list[str]:
    settings = work.settings
    context = {
        "least": LEAST_QUERIES,
        "most": MOST_QUERIES,
        "languages": ", ".join(settings.languages),
        "memory": memory.as_prompt() if memory else "",
        "since": f"{memory.last_run_at:%Y-%m-%d}" if memory and memory.last_run_at else "",
        "observations": memory_for_prompt.enter(work, told),
        "taught": memory_for_prompt.teach(work, lessons),
        "topic": work.topic.title,
        "objective": settings.objective,
        "focus": settings.focus,
        "time_frame": settings.get_time_frame_display() if inputs.since(settings) else "",
        "allow_domains": ", ".join(settings.allow_domains),
        "today": timezone.localdate().isoformat(),
        **applied_rules.for_plan(settings),
    }
    answer = ask_model(
        "plan",
        [
            Message("system", render_to_string("prompts/plan_system.txt", context)),
            Message("user", render_to_string("prompts/plan_user.txt", context)),
        ],
        owner=work.topic.owner,
        source=work.run.source,
        topic=work.topic,
        schema=Plan,
        max_tokens=600,
        meter=work.meter,
        wait_for=work.wait_for,
    )
    if answer is None:
        return []
    queries = answer.parsed.usable() if isinstance(answer.parsed, Plan) else []
    if not queries:
        raise ProviderNonsense(_("its plan has no queries"), text=answer.text)
    return queries


# --- plan review ---

DAY = timedelta(days=1)  # PlanReview.DAY: continues by itself after a day


class PlanNotWaiting(Exception):
    """The plan no longer waits for review. The message says what happened to it."""


def hold(work: RunContext) -> None:
    """Raise AwaitsPlanReview if the run's settings require a review of its plan.

    Not for a run that repeats another, is stopping, or has begun to search. Raises Cancelled if the
    run was cancelled or its topic archived.
    """
    wanted = work.settings.plan_review
    if wanted == TopicSettings.PlanReview.NO or work.run.rerun_of_id or work.has_begun("search"):
        return
    if "reviewed" in work.output("plan"):
        return
    work.look(at_once=True)
    if Topic.objects.filter(pk=work.topic.pk).exclude(archived_at=None).exists():
        raise Cancelled(_("the topic was archived"))
    if not work.is_stopping:
        raise AwaitsPlanReview(DAY if wanted == TopicSettings.PlanReview.DAY else None)


def accept(run: Run, queries: list[str], *, seen: datetime, by: Actor) -> None:
    """Continue the run with these queries, which were validated (`research.runs.page.PlanForm`).

    `seen` is the `waiting_since` of the plan that the person saw. The planned queries are stored
    next to the edited ones. Raises PlanNotWaiting if that plan no longer waits.
    """
    with transaction.atomic():
        step = _held(run, seen)
        edited = queries != step.output["queries"]
        output: PlanOutput = step.output
        output["reviewed"] = _seen_by(str(by), edited=edited)
        if edited:
            output["proposed"] = output.get("proposed", output["queries"])
            output["queries"], output["by"] = queries, "person"
        _store(step, output)
        kind = "plan-edited" if edited else "plan-accepted"
        # A retry can create a new plan. The person's queries stay in the log.
        Activity.log(run.topic.owner, by, kind, subject=run, queries=queries)


def replan(run: Run, *, seen: datetime, by: Actor) -> None:
    """Have the run create a new plan, and wait for review again. Raises PlanNotWaiting."""
    with transaction.atomic():
        _held(run, seen)
        reopen_plan(run)
        Activity.log(run.topic.owner, by, "plan-made-anew", subject=run)


def resume_unreviewed() -> int:
    """Continue the runs whose plan wasn't reviewed within a day. Return how many."""
    done = 0
    for run in Run.objects.waited_long_enough().select_related("topic__owner")[:200]:
        since = run.waiting_since
        assert since is not None  # noqa: S101  (waited_long_enough asks for it)  # nosec B101
        try:
            with transaction.atomic():
                step = _held(run, since)
                output: PlanOutput = step.output
                output["reviewed"] = _seen_by("", edited=False)
                _store(step, output)
                Activity.log(run.topic.owner, RESEARCH, "plan-went-on", subject=run)
        except PlanNotWaiting:
            continue
        done += 1
    return done


def _held(run: Run, seen: datetime) -> Step:
    """Queue the run again and return the step of its plan, both locked until the commit."""
    if not run.go_on(seen):
        raise PlanNotWaiting(plan_outcome(run))
    run.wake_after_commit()
    return Step.objects.get(run=run, name="plan", part=0)


def _seen_by(who: str, *, edited: bool) -> PlanReviewed:
    return {"by": who, "at": timezone.now().isoformat(timespec="seconds"), "edited": edited}


def _store(step: Step, output: PlanOutput) -> None:
    asked = {query.casefold() for query in output["queries"]}
    # Rules whose query the person removed aren't listed as applied.
    always = [
        rule for rule in output.get("always", []) if is_address(rule) or rule.casefold() in asked
    ]
    if "always" in output:
        output["always"] = always
    Step.objects.filter(pk=step.pk).update(
        output=output,
        detail=in_words(output),
        counts={"queries": len(output["queries"])},
    )


def plan_outcome(run: Run) -> str:
    """Return what happened to a plan that no longer waits."""
    run.refresh_from_db(fields=["status", "waiting_since", "number"])
    if run.waiting_since is not None:
        return _("A new plan has been created in the meantime. Review that one instead.")
    if run.status == Run.Status.CANCELLED:
        return _("The run was cancelled in the meantime.")
    step = Step.objects.filter(run=run, name="plan", part=0).first()
    reviewed = (step.output if step else {}).get("reviewed")
    if not reviewed:
        return _("A new plan is being created.")
    if not reviewed["by"]:
        return _(
            "The run has already continued with the planned queries because they weren’t reviewed in time."
        )
    if reviewed["edited"]:
        return _("The run has already continued with queries edited in another window.")
    return _("The run has already continued with the planned queries.")


def resumes_at(run: Run) -> datetime | None:
    """Return when a waiting run continues automatically, or None."""
    if run.waiting_since is None:
        return None
    waits = run.asked_for.plan_review == TopicSettings.PlanReview.WAIT
    return None if waits else run.not_before
