"""Steps 1 and 2: load the topic's memory, plan the queries, and review the plan.

Data flow: topic memory -> step output (JSON) -> `known()` -> prompt or templates -> queries.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from django.db import transaction
from django.template.loader import render_to_string
from django.utils import timezone
from pydantic import BaseModel, Field, model_validator

from beacon_site.net.errors import ProviderError, ProviderNonsense
from beacon_site.providers.llm.base import Message
from beacon_site.text.cleaning import clean, match_key, one_line
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import joined, ngettext
from beacon_site.text.sentences import language_of
from memory.models import Activity, Observation, Sensitivity, Topic, Use
from memory.models.actors import RESEARCH, Actor
from memory.services import topic_memory
from memory.services.context import topic_block
from memory.services.llm import connections
from memory.services.llm.asking import BudgetReached
from memory.services.topic_memory import TopicMemory
from research.models import Run, Step, TopicSettings
from research.models.runs import reopen_plan
from research.models.topics import is_page
from research.services.facts import correcting
from research.services.runs.context import applied_rules, inputs
from research.services.runs.context.outputs import LoadedMemory, PlanOutput, PlanReviewed
from research.services.runs.context.run_context import (
    AwaitsPlanReview,
    Cancelled,
    RunContext,
    StepResult,
)
from research.services.runs.search import searching
from research.services.topics.settings import standing_rules

MIN_QUERIES, MAX_QUERIES = 3, 6


class Plan(BaseModel):
    """The planner's answer: search queries. A bare list is accepted too."""

    queries: list[str] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _bare_list(cls, value: Any) -> Any:
        return {"queries": value} if isinstance(value, list) else value

    def usable(self) -> list[str]:
        """Return the usable queries: not empty, distinct, few and short."""
        cleaned = (one_line(clean(query)[0])[: inputs.MAX_QUERY_LENGTH] for query in self.queries)
        by_fold = {query.casefold(): query for query in cleaned if any(map(str.isalnum, query))}
        return list(by_fold.values())[:MAX_QUERIES]


def load_memory(context: RunContext) -> StepResult:
    """Load the topic's memory. Without live memory, the run is a baseline, whatever its number."""
    _warn_model_not_used(context)
    _warn_of_missing_model(context)
    loaded = topic_memory.load(context.topic)
    of_run = {"is_baseline": loaded.memory is None}
    if loaded.problem:
        context.run.warn(loaded.problem)
        return StepResult(
            LoadedMemory(memory=None, problem=loaded.problem),
            warning=loaded.problem,
            detail=_("couldn’t be loaded, so the report is a baseline"),
            of_run=of_run,
        )
    if loaded.memory is None:
        return StepResult(
            LoadedMemory(memory=None, problem=""), detail=_("none yet (baseline)"), of_run=of_run
        )
    # A corrected sentence isn't reported again, whatever text the fact has now.
    corrected = correcting.corrected_sentences(context.topic)
    struck = dict.fromkeys([*loaded.memory.struck, *corrected])
    secret = [
        *loaded.memory.secret_struck,
        *(said for said, is_secret in corrected.items() if is_secret),
    ]
    memory = replace(loaded.memory, struck=tuple(struck), secret_struck=tuple(secret))
    used = [("topicfact", fact.id) for fact in memory.facts]
    Use.note(context.topic.owner, used, context.run.source)
    output: LoadedMemory = {
        "memory": memory.as_json(),
        "problem": "",
        "expires_at": loaded.expires_at.isoformat() if loaded.expires_at else None,
    }
    return StepResult(
        output,
        detail=_describe_memory(memory),
        counts={"facts": len(memory.facts), "seen": memory.seen_count},
        of_run=of_run,
    )


def _describe_memory(memory: TopicMemory) -> str:
    """Return what a run starts from."""
    facts, seen = len(memory.facts), memory.seen_count
    words = [
        ngettext("%(n)d fact", "%(n)d facts", facts) % {"n": facts},
        ngettext("%(n)d seen URL", "%(n)d seen URLs", seen) % {"n": seen},
    ]
    if memory.last_run_at:
        day = timezone.localtime(memory.last_run_at).date()
        words.append(_("last run on %(day)s") % {"day": day})
    return joined(", ", words)


def _warn_model_not_used(context: RunContext) -> None:
    """Warn that the model isn't used because the topic is marked sensitive."""
    is_secret = context.topic.sensitivity == Sensitivity.SENSITIVE
    if is_secret and connections.language_model() is not None:
        context.run.warn(
            _(
                "The topic is marked as sensitive, so no model is used. Queries are planned from templates, and the report quotes the pages."
            )
        )


def _warn_of_missing_model(context: RunContext) -> None:
    """Warn that the model that the topic names is no longer set up."""
    value = context.settings.model
    if value and (names := connections.names_of_models()) and value not in names:
        message = _(
            "The model “%(model)s” is no longer set up, so %(usual)s was used. Choose another one in the topic’s settings."
        )
        context.run.warn(message % {"model": value, "usual": names[0]})


def plan(context: RunContext) -> StepResult:
    """Plan the queries: by the model with the memory in its prompt, or by templates.

    A repeated run uses the same queries, and warns about services that are no longer available.

    Without a model, facet queries are used. If the model fails or its answer is unusable, there are
    3 fallback queries (R45, R46).
    """
    memory = inputs.loaded_memory(context)
    lessons = topic_block.of_topic(context.topic)
    observations = inputs.choose(context, memory, lessons)
    warning = ""
    try:
        if context.run.rerun_of is not None:
            queries, by = searching.queries_of(context.run.rerun_of), "rerun"
            warning = _unavailable_services(context, context.run.rerun_of)
        elif context.is_stopping:
            queries, by = _by_facets(context, memory), "facets"
        else:
            names = _by_model(context, memory, observations, lessons)
            queries, by = (names, "model") if names else (_by_facets(context, memory), "facets")
    except BudgetReached as exc:
        warning = _("Planned without the model: %(why)s") % {"why": exc}
        context.run.warn(warning)
        queries, by = _by_facets(context, memory), "facets"
    except ProviderError as exc:
        warning = _(
            "The model couldn’t plan the queries, so 3 standard ones were used. %(why)s"
        ) % {"why": exc}
        context.run.warn(warning)
        queries, by = fallback_queries(context.topic.title, timezone.localdate()), "fallback"
    # a rerun uses the exact queries of the original, including those from its rules
    if by != "rerun":
        queries = applied_rules.with_always_included(queries, context.settings)
    output: PlanOutput = {"queries": queries, "by": by}
    if always := applied_rules.checked_in(queries, context.settings):
        output["always"] = always
    if not_at := standing_rules.places_of(context.settings):
        output["not_at"] = not_at
    if observations:
        output["observations"] = [str(one.pk) for one in observations]
    if lessons:
        output["taught"] = [str(one.pk) for one in lessons]
    return StepResult(
        output, detail=describe(output), counts={"queries": len(queries)}, warning=warning
    )


def _unavailable_services(context: RunContext, was: Run) -> str:
    gone = searching.unavailable_services(context, was)
    for warning in gone:
        context.run.warn(warning)
    return joined(" ", gone)


def describe(output: PlanOutput) -> str:
    """Return a summary of a plan's output: its queries, who planned them, and the rules used."""
    count = len(output["queries"])
    queries = ngettext("%(count)d query", "%(count)d queries", count) % {"count": count}
    words = [
        joined(", ", [queries, by_words(output["by"])]),
        inputs.describe(output),
        applied_rules.describe_plan(output),
    ]
    return joined("; ", filter(None, words))


def by_words(by: str) -> str:
    """Return who or what planned the queries. `by` is the value in the step's output."""
    return {
        "model": _("planned by the model"),
        "facets": _("planned from templates"),
        "fallback": _("planned without the model, which failed"),
        "person": _("edited by you"),
        "rerun": _("copied from the original run"),
    }.get(by, by)


def _by_facets(context: RunContext, memory: TopicMemory | None) -> list[str]:
    return facet_queries(
        context.topic.title,
        objective=context.settings.objective,
        focus=context.settings.focus,
        now=timezone.localdate(),
        last_run_at=memory.last_run_at if memory else None,
        languages=context.settings.languages,
        known=[fact.text for fact in memory.facts] if memory else [],
    )


def _by_model(
    work: RunContext,
    memory: TopicMemory | None,
    observations: Sequence[Observation],
    lessons: Sequence[Observation],
) -> list[str]:
    settings = work.settings
    context = {
        "least": MIN_QUERIES,
        "most": MAX_QUERIES,
        "languages": ", ".join(settings.languages),
        "memory": memory.as_prompt() if memory else "",
        "since": f"{memory.last_run_at:%Y-%m-%d}" if memory and memory.last_run_at else "",
        "observations": inputs.enter(work, observations),
        "taught": inputs.teach(work, lessons),
        "topic": work.topic.title,
        "objective": settings.objective,
        "focus": settings.focus,
        "time_frame": settings.get_time_frame_display() if inputs.since(settings) else "",
        "allow_domains": ", ".join(settings.allow_domains),
        "today": timezone.localdate().isoformat(),
        **applied_rules.for_plan(settings),
    }
    answer = work.ask(
        "plan",
        [
            Message("system", render_to_string("prompts/plan_system.txt", context)),
            Message("user", render_to_string("prompts/plan_user.txt", context)),
        ],
        schema=Plan,
        max_tokens=600,
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


def hold(context: RunContext) -> None:
    """Raise AwaitsPlanReview if the run's settings require a review of its plan.

    Not for a run that repeats another, is stopping, or has begun to search. Raises Cancelled if the
    run was cancelled or its topic archived.
    """
    value = context.settings.plan_review
    if (
        value == TopicSettings.PlanReview.NO
        or context.run.rerun_of_id
        or context.has_begun("search")
    ):
        return
    if "reviewed" in context.output("plan"):
        return
    context.look(at_once=True)
    if Topic.objects.filter(pk=context.topic.pk).exclude(archived_at=None).exists():
        raise Cancelled(_("the topic was archived"))
    if not context.is_stopping:
        raise AwaitsPlanReview(DAY if value == TopicSettings.PlanReview.DAY else None)


def accept(run: Run, queries: list[str], *, seen: datetime, by: Actor) -> None:
    """Continue the run with these queries, which were validated (`research.services.runs.page.PlanForm`).

    `seen` is the `waiting_since` of the plan that the person saw. The planned queries are stored
    next to the edited ones. Raises PlanNotWaiting if that plan no longer waits.
    """
    with transaction.atomic():
        step = _requeued_plan_step(run, seen)
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
        _requeued_plan_step(run, seen)
        reopen_plan(run)
        Activity.log(run.topic.owner, by, "plan-recreated", subject=run)


def resume_unreviewed() -> int:
    """Continue the runs whose plan wasn't reviewed within a day. Return how many."""
    done = 0
    for run in Run.objects.waited_long_enough().select_related("topic__owner")[:200]:
        since = run.waiting_since
        assert since is not None  # noqa: S101  (waited_long_enough asks for it)  # nosec B101
        try:
            with transaction.atomic():
                step = _requeued_plan_step(run, since)
                output: PlanOutput = step.output
                output["reviewed"] = _seen_by("", edited=False)
                _store(step, output)
                Activity.log(run.topic.owner, RESEARCH, "plan-continued", subject=run)
        except PlanNotWaiting:
            continue
        done += 1
    return done


def _requeued_plan_step(run: Run, seen: datetime) -> Step:
    """Queue the run again and return the step of its plan, both locked until the commit."""
    if not run.go_on(seen):
        raise PlanNotWaiting(plan_outcome(run))
    run.wake_after_commit()
    return Step.objects.get(run=run, name="plan", part=0)


def _seen_by(who: str, *, edited: bool) -> PlanReviewed:
    return {"by": who, "at": timezone.now().isoformat(timespec="seconds"), "edited": edited}


def _store(step: Step, output: PlanOutput) -> None:
    planned_queries = {query.casefold() for query in output["queries"]}
    # Rules whose query the person removed aren't listed as applied.
    always = [
        rule
        for rule in output.get("always", [])
        if is_page(rule) or rule.casefold() in planned_queries
    ]
    if "always" in output:
        output["always"] = always
    Step.objects.filter(pk=step.pk).update(
        output=output,
        detail=describe(output),
        counts={"queries": len(output["queries"])},
    )


def plan_outcome(run: Run) -> str:
    """Return what happened to a plan that no longer waits."""
    run.refresh_from_db(fields=["status", "waiting_since", "number"])
    if run.waiting_since is not None:
        return _("A newer plan exists. Review that plan instead.")
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


# --- Plan queries without a model: facets by kind of topic, in its language ---
#
# A first plan covers the breadth of the topic. A later one searches for changes since the last run
# (R50). A query uses only the topic's own words and facet words, never words from pages.


MAX_FROM_FACETS = 6
MAX_QUERY_LENGTH = 400
MAX_FOCUSES = 2
MAX_FOCUS_WORDS = 6  # words from the focus in a query
ENOUGH_TEXT = 200  # characters of known facts that are enough to detect the topic's language

_WORDS = tomllib.loads(Path(__file__).with_name("query_words.toml").read_text("utf-8"))
_LANGUAGES: dict[str, dict[str, Any]] = _WORDS["languages"]
_KINDS: list[tuple[str, re.Pattern[str]]] = [
    (
        kind["name"],
        re.compile(rf"(?<!\w)(?:{kind['latin']})(?!\w)|{kind['other']}", re.IGNORECASE),
    )
    for kind in _WORDS["kind"]
]
_BEGINS_QUESTION = re.compile(_WORDS["question"]["begins"], re.IGNORECASE)
_CONTAINS_QUESTION = re.compile(_WORDS["question"]["contains"])
_SIGNS = {
    code: re.compile(words["signs"], re.IGNORECASE)
    for code, words in _LANGUAGES.items()
    if "signs" in words
}
# Languages that are known by their script.
_BY_SCRIPT = ("zh", "ja", "ko", "ru", "el", "ar", "fa", "ur", "hi", "am", "my", "hy")


def facet_queries(
    topic: str,
    *,
    objective: str = "",
    focus: str = "",
    now: date,
    last_run_at: datetime | date | None = None,
    languages: Sequence[str] = (),
    known: Sequence[str] = (),
) -> list[str]:
    """Return at most six distinct queries of at most 400 characters, the most important first.

    Without `last_run_at` it is a first plan: the topic itself, facets of its kind, and its focus.
    With it: news and changes since that date, then the facets by month. `languages` are the topic's
    setting and `known` its facts. They decide the language of the queries.
    """
    topic = one_line(topic)
    language = query_language(topic, languages, known)
    subject, kind = subject_of(topic), kind_of(topic)
    narrowed = [f"{subject} {part}" for part in _short_parts(focus, objective, topic)]
    fresh = last_run_at is None
    words = _LANGUAGES.get(language)
    if words is None:
        year, month = str(now.year), f"{now:%Y-%m}"
        plain = [topic, f"{subject} {year}"] if fresh else [f"{subject} {month}", topic]
        return _distinct([*plain, *narrowed, f"{subject} {month}", f"{subject} {year}"])
    dates = _dates(words, now)
    dates["when"] = dates["year"] if fresh else dates["month"]
    dates["since"] = "" if last_run_at is None else f"{last_run_at:%Y-%m-%d}"
    covered = [set(match_key(part).split()) for part in narrowed]
    facets = [f for f in words["facets"][kind] if not _is_covered(f, covered)]
    if fresh:
        candidates = [topic, *(_with_facet(subject, facet.format(**dates)) for facet in facets)]
        return _distinct([*candidates[:3], *narrowed, *candidates[3:]])
    news = [f"{subject} {said.format(**dates)}" for said in words["news"]]
    dated = [_with_facet(subject, facet.format(**dates)) for facet in facets if "{when}" in facet]
    return _distinct([*news, *dated[:1], *narrowed, *dated[1:]])


def fallback_queries(topic: str, now: date) -> list[str]:
    """Return the seed's three queries: the topic, its news of the year, and a comparison (R45)."""
    topic = one_line(topic)
    return _distinct([topic, f"{topic} {now.year} news", f"{topic} comparison"])


def kind_of(topic: str) -> str:
    """Return the kind of a topic by its words. A question about prices is of the kind prices."""
    for kind, pattern in _KINDS:
        if pattern.search(topic):
            return kind
    return "question" if _is_question(topic) else "general"


def subject_of(topic: str) -> str:
    """Return what a question is about: "Why are trams so late?" is about "trams so late"."""
    if not _is_question(topic):
        return topic
    rest = _BEGINS_QUESTION.sub("", topic, count=1).rstrip("?？ ")
    return rest if len(rest) > 2 else topic.rstrip("?？ ") or topic


def _is_question(topic: str) -> bool:
    begins = _BEGINS_QUESTION.match(topic)
    return topic.endswith(("?", "？")) or bool(begins or _CONTAINS_QUESTION.search(topic))


def query_language(topic: str, languages: Sequence[str] = (), known: Sequence[str] = ()) -> str:
    """Return the language for a topic's queries, as two letters.

    The script decides, then the topic's setting, then the language of its known facts. Only for the
    wording of a query is it guessed from the topic itself.
    """
    by_script = language_of(topic) if not topic.isascii() else "en"
    if by_script in _BY_SCRIPT:
        return by_script
    if languages:
        return languages[0].replace("_", "-").partition("-")[0].lower()
    facts = " ".join(known)
    if len(facts) >= ENOUGH_TEXT:
        return language_of(facts)
    found = {code: len(signs.findall(topic)) for code, signs in _SIGNS.items()}
    best = max(found, key=lambda code: found[code])
    return best if found[best] else "en"


def _is_covered(facet: str, parts: Sequence[set[str]]) -> bool:
    words = set(match_key(re.sub(r"\{\w+\}", "", facet)).split())
    return any(words <= part for part in parts)


def _with_facet(subject: str, facet: str) -> str:
    """Return the subject with the words of a facet that it doesn't contain yet."""
    held = [word.strip(".,:").casefold() for word in subject.split()]
    added = [word for word in facet.split() if not any(_is_like(word, other) for other in held)]
    return " ".join([subject, *added])


def _is_like(word: str, other: str) -> bool:
    word = word.casefold()
    return word == other or (len(word) > 4 and other.startswith(word[:-1]) and word.isalpha())


def _dates(words: dict[str, Any], now: date) -> dict[str, str]:
    if "months" in words:
        return {"year": str(now.year), "month": f"{words['months'][now.month - 1]} {now.year}"}
    parts = {"year": now.year, "number": now.month}
    return {name: words[name].format(**parts) for name in ("year", "month")}


def _short_parts(focus: str, objective: str, topic: str) -> list[str]:
    """Return the first short parts of what narrows a topic. A long sentence isn't a query."""
    parts = re.split(r"[.,;:。；，、\n]", focus or objective)
    cleaned = [one_line(part).strip() for part in parts]
    short = [part for part in cleaned if 0 < len(part.split()) <= MAX_FOCUS_WORDS]
    return [part for part in short if _adds(part, topic)][:MAX_FOCUSES]


def _adds(phrase: str, topic: str) -> bool:
    """Return True if a phrase adds anything to the topic."""
    words = set(match_key(phrase).split())
    return bool(words) and not words <= set(match_key(topic).split())


def _distinct(queries: Iterable[str]) -> list[str]:
    kept: dict[str, str] = {}
    for query in queries:
        query = _at_most(one_line(query))
        if query:
            kept.setdefault(query.casefold(), query)
    return list(kept.values())[:MAX_FROM_FACETS]


def _at_most(query: str) -> str:
    """Shorten a query at a word boundary."""
    if len(query) <= MAX_QUERY_LENGTH:
        return query
    cut = query[: MAX_QUERY_LENGTH + 1]
    head, space, _tail = cut.rpartition(" ")
    return head if space else query[:MAX_QUERY_LENGTH]
