"""Steps 1 and 2: loading what is known, and planning what to ask.

Data flow: topic memory -> step output (JSON) -> `known()` -> prompt or templates -> queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from pydantic import BaseModel, Field, model_validator

from beacon_site.providers.errors import ProviderError, ProviderNonsense
from beacon_site.providers.llm import Message
from memory.contexts import taught
from memory.llm import connections
from memory.llm.asking import ask_model
from memory.models import Observation, Sensitivity, Use
from memory.texts.text import clean, one_line
from memory.topics import memory as topic_memory
from memory.topics.memory import TopicMemory
from memory.usage.meter import BudgetReached
from research.facts import correcting
from research.models import Run, TopicSettings
from research.search import facets, repeating
from research.topic_settings import standing_rules
from research.working import applied_rules, inputs, memory_for_prompt
from research.working.context import RunContext, StepResult

LEAST_QUERIES, MOST_QUERIES = 3, 6


class Plan(BaseModel):
    """The planner's answer: search queries.  A bare list is taken for one."""

    queries: list[str] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _bare_list(cls, value: Any) -> Any:
        return {"queries": value} if isinstance(value, list) else value

    def usable(self) -> list[str]:
        """Return the queries as they can be asked: not empty, each once, few, short."""
        cleaned = (one_line(clean(query)[0])[: inputs.MOST_QUERY_LENGTH] for query in self.queries)
        by_fold = {query.casefold(): query for query in cleaned if any(map(str.isalnum, query))}
        return list(by_fold.values())[:MOST_QUERIES]


def load_memory(work: RunContext) -> StepResult:
    """Load the topic's memory; without live memory the run is a baseline, whatever its number."""
    _say_who_is_not_told(work)
    loaded = topic_memory.load(work.topic)
    of_run = {"is_baseline": loaded.memory is None}
    if loaded.problem:
        work.run.warn(loaded.problem)
        return StepResult(
            {"memory": None, "problem": loaded.problem},
            warning=loaded.problem,
            detail=_("failed: the run is written as a baseline"),
            of_run=of_run,
        )
    if loaded.memory is None:
        none: dict[str, Any] = {"memory": None, "problem": ""}
        return StepResult(none, detail=_("none yet: a baseline"), of_run=of_run)
    # What a person corrected in a report is not found anew, whatever words the fact has now.
    corrected = correcting.corrected_sentences(work.topic)
    struck = dict.fromkeys([*loaded.memory.struck, *corrected])
    secret = [
        *loaded.memory.secret_struck,
        *(said for said, is_secret in corrected.items() if is_secret),
    ]
    memory = replace(loaded.memory, struck=tuple(struck), secret_struck=tuple(secret))
    used = [("topicfact", fact.id) for fact in memory.facts]
    Use.note(work.topic.owner, used, work.run.source)
    return StepResult(
        {
            "memory": memory.as_json(),
            "problem": "",
            "expires_at": loaded.expires_at.isoformat() if loaded.expires_at else None,
        },
        detail=_("facts: %(facts)d, seen URLs: %(seen)d, last run %(when)s")
        % {
            "facts": len(memory.facts),
            "seen": memory.seen_count,
            "when": f"{memory.last_run_at:%Y-%m-%d}" if memory.last_run_at else "?",
        },
        counts={"facts": len(memory.facts), "seen": memory.seen_count},
        of_run=of_run,
    )  # fmt: skip


def _say_who_is_not_told(work: RunContext) -> None:
    """Warn that a model is set up, and is told nothing of a topic that is marked sensitive."""
    is_secret = work.topic.sensitivity == Sensitivity.SENSITIVE
    if is_secret and connections.language_model() is not None:
        work.run.warn(
            _(
                "The topic is marked sensitive, so no model is told of it: queries are planned by "
                "templates, and the report is made of the pages' own sentences."
            )
        )


def plan(work: RunContext) -> StepResult:
    """Plan the queries: by the model with the memory in its prompt, else by templates.

    A run that repeats another takes its very queries, and warns of what is no longer there.

    No model: facet queries.  A model that fails or answers nonsense: seed 000's three (R45, R46).
    """
    memory = inputs.known(work)
    lessons = taught.of_topic(work.topic)
    told = memory_for_prompt.choose(work, memory, lessons)
    warning = ""
    try:
        if work.run.rerun_of is not None:
            queries, by = repeating.queries_of(work.run.rerun_of), "rerun"
            warning = _what_is_gone(work, work.run.rerun_of)
        elif work.is_stopping:
            queries, by = _by_facets(work, memory), "facets"
        else:
            asked = _by_model(work, memory, told, lessons)
            queries, by = (asked, "model") if asked else (_by_facets(work, memory), "facets")
    except BudgetReached as exc:
        warning = _("planned without the model: %(why)s") % {"why": exc}
        work.run.warn(warning)
        queries, by = _by_facets(work, memory), "facets"
    except ProviderError as exc:
        warning = _("the model could not plan, three standard queries are asked: %(why)s") % {
            "why": exc
        }
        work.run.warn(warning)
        queries, by = facets.fallback_queries(work.topic.title, timezone.localdate()), "fallback"
    if by != "rerun":  # whose very queries are asked, those of its own rules among them
        queries = applied_rules.with_standing(queries, work.settings)
    output = {
        "queries": queries,
        "by": by,
        **_rules(queries, work.settings),
    }
    if told:
        output["observations"] = [str(one.pk) for one in told]
    if lessons:
        output["taught"] = [str(one.pk) for one in lessons]
    return StepResult(
        output, detail=in_words(output), counts={"queries": len(queries)}, warning=warning
    )


def _rules(queries: list[str], settings: TopicSettings) -> dict[str, list[str]]:
    """Return what of the topic's standing rules the plan obeys, as its output keeps it."""
    rules = {
        "always": applied_rules.checked_in(queries, settings),
        "not_at": standing_rules.places_of(settings),
    }
    return {name: kept for name, kept in rules.items() if kept}


def _what_is_gone(work: RunContext, was: Run) -> str:
    gone = repeating.what_is_gone(work, was)
    for warning in gone:
        work.run.warn(warning)
    return " ".join(gone)


def in_words(output: dict[str, Any]) -> str:
    """Return how many queries a plan's output holds, by whom or what, what they were planned
    with, and which rules it obeys."""
    count = len(output["queries"])
    queries = ngettext("%(count)d query", "%(count)d queries", count) % {"count": count}
    words = [
        f"{queries}, {by_words(output['by'])}",
        memory_for_prompt.in_words(output),
        applied_rules.plan_in_words(output),
    ]
    return "; ".join(filter(None, words))


def by_words(by: str) -> str:
    """Return by whom or what queries were planned; `by` is what the step's output says."""
    return {
        "model": _("planned by the model"),
        "facets": _("planned by templates"),
        "fallback": _("planned without the model, which failed"),
        "person": _("changed by hand"),
        "rerun": _("taken from the run that this one repeats"),
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
        raise ProviderNonsense(_("its plan holds no query"), text=answer.text)
    return queries
