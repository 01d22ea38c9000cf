"""The follow-up that reflects on a run and saves what matters in the memory files (R169 to R185).

What the run cost and wrote -> the gate -> the task, the report, and the run as a transcript (queries,
answers of services, pages, warnings, in order of time) -> `memory.reflection.reflection`. All of it
comes from the web, so its writes are `external` and wait for a person.
"""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.providers.llm import Message, ToolCall
from memory.models import Reflection, Revision, Topic, Trust
from memory.reflection import reflection
from memory.reflection.entry import Told
from memory.reflection.gate import why_not
from memory.texts.text import shorten, without_citations
from research.follow_ups import in_trash
from research.follow_ups.extracting import facts_of
from research.models import Hit, Run
from research.models.runs import MAX_TRIES
from research.working.context import RunContext, StepResult

# --- the transcript ----------------------------------------------------------------------------

MOST_TITLES = 5  # of one query's hits
_LONGEST_REASON = 200  # characters of the reason why a service or a page failed


def task_of(work: RunContext) -> str:
    """Return the run's task."""
    run, settings = work.run, work.settings
    parts = [_("Research the topic “%(topic)s”.") % {"topic": work.topic.title}]
    if settings.objective:
        parts.append(_("Objective: %(text)s") % {"text": shorten(settings.objective, 500)})
    if settings.focus:
        parts.append(_("Focus: %(text)s") % {"text": shorten(settings.focus, 300)})
    if run.is_baseline:
        parts.append(_("This was %(run)s, a baseline.") % {"run": run})
    else:
        parts.append(_("This was %(run)s: what is new since the run before.") % {"run": run})
    return " ".join(parts)


def history_of(work: RunContext) -> list[Message]:
    """Return the run as a conversation: each search and each page as a call with its result."""
    hits = list(work.run.hits.order_by("place"))
    told: list[Message] = []
    for number, query in enumerate(work.output("plan").get("queries", [])):
        told += _call(f"s{number}", "web_search", {"query": query}, _found(work, query, hits))
    for number, hit in enumerate(hits):
        if hit.reading != Hit.Reading.NOT_READ:
            told += _call(f"p{number}", "open_page", {"url": hit.link}, _read(hit))
    if work.run.warnings:
        warned = "\n".join(f"- {shorten(one, 300)}" for one in work.run.warnings)
        told.append(Message("assistant", _("What went wrong:") + f"\n{warned}"))
    # The report itself is the result, which the reflector gets in addition to the history.
    told.append(Message("assistant", _("I wrote the report.")))
    return told


def _call(key: str, tool: str, arguments: dict[str, Any], result: str) -> list[Message]:
    call = ToolCall(key, tool, arguments)
    return [Message("assistant", "", (call,)), Message("tool", result, (), key)]


def _found(work: RunContext, query: str, hits: list[Hit]) -> str:
    """Return the services' answers to a query, and the titles of its hits."""
    lines = []
    for entry in work.output("search").get("asked", []):
        if entry["query"] != query:
            continue
        n = entry["hits"]
        words = ngettext("%(service)s: %(n)d hit", "%(service)s: %(n)d hits", n)
        words %= {"service": entry["service"], "n": n}
        why = shorten(entry["problem"], _LONGEST_REASON)
        lines.append(f"{words} ({why})" if why else words)
    own = [hit for hit in hits if any(one["query"] == query for one in hit.queries)]
    lines += [f"- {hit.title} ({hit.get_state_display()})" for hit in own[:MOST_TITLES]]
    return "\n".join(lines) or _("not asked")


def _read(hit: Hit) -> str:
    words = f"{hit.get_reading_display()}: {shorten(hit.title, 200)}"
    return f"{words} ({shorten(hit.reason, _LONGEST_REASON)})" if hit.reason else words


# --- reflecting --------------------------------------------------------------------------------

# What a run writes within its topic: facts, findings, report and summary note.
_OF_ITS_TOPIC = ("topic", "topicfact", "observation", "report", "note", "contentitem")


def reflect(work: RunContext) -> StepResult:
    """Reflect on the run, once even if called again."""
    topic = Topic.objects.select_related("owner").get(pk=work.topic.pk)
    if why := in_trash(work.run):
        return StepResult(detail=why)
    run, owner = work.run, topic.owner
    result = f"{run.report.delta}\n\n{run.report.body}".strip()
    why = why_not(run.model_calls, actions_of(work), is_read_only(run), result)
    if why:
        return _result(reflection.skip(owner, source=run.source, topic=topic, why=why))
    return _result(
        reflection.reflect(
            owner,
            source=run.source,
            task=task_of(work),
            result=result,
            history=history_of(work),
            trust=Trust.EXTERNAL,
            topic=topic,
            meter=work.meter,
            told=_told(work, topic),
            last_try=work.step.attempt >= MAX_TRIES,
        )
    )


def actions_of(work: RunContext) -> int:
    """Return how many actions a run took: searches, pages read, tools called (decision 7)."""
    asked = work.output("search").get("asked", [])
    called = work.run.tool_calls.exclude(tool="open_page").count()  # pages are counted as read
    return len(asked) + work.run.read_count + called


def is_read_only(run: Run) -> bool:
    """Whether the run wrote only to its own topic."""
    written = Revision.objects.of(run.topic.owner).filter(source=run.source)
    return not written.exclude(record_type__in=_OF_ITS_TOPIC).exists()


def _told(work: RunContext, topic: Topic) -> Told:
    """Return the entry's text without a model: the run's verified facts, unchanged."""
    facts = [without_citations(fact) for fact in facts_of(work)]
    words = ngettext("%(n)d new fact: %(topic)s", "%(n)d new facts: %(topic)s", len(facts))
    return Told(
        title=_("%(topic)s (%(run)s)") % {"topic": topic.title, "run": work.run},
        summary=words % {"n": len(facts), "topic": topic.title},
        task=work.settings.objective or task_of(work),
        findings=facts,
    )


def _result(done: Reflection) -> StepResult:
    output = {"reflection": done.pk, "state": done.state, "by": done.by}
    counts = {"calls": len(done.calls), "changes": len(done.changes)}
    if done.state == Reflection.State.SKIPPED:
        return StepResult(output, _("left out: %(why)s") % {"why": done.why}, counts)
    if done.state == Reflection.State.FAILED:
        warning = _("Nothing was kept in the memory files: %(why)s") % {"why": done.why}
        return StepResult(output, _("failed"), counts, warning)
    by_rules = done.by == reflection.RULES
    told = _("without a model") if by_rules else _("by the model")
    detail = f"{reflection.changes_in_words(done)}, {told}"
    warning = ""
    if by_rules and done.why:
        warning = _("The reflection was written without the model: %(why)s") % {"why": done.why}
    return StepResult(output, detail, counts, warning)
