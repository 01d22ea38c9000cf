"""Follow-up steps after a run is saved: observations, reflection and the summary note.

Each runs independently and can be repeated. A failure is only a warning.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.text import capfirst
from pydantic import BaseModel, Field

from beacon_site.net.errors import ProviderError, ProviderUnavailable
from beacon_site.providers.llm.base import Message, ToolCall
from beacon_site.text.cleaning import (
    clean,
    ended,
    for_prompt,
    match_key,
    plain,
    shorten,
    uncited,
    without_citations,
)
from beacon_site.text.injection import injection_reason
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import ngettext
from beacon_site.text.sentences import split
from memory.agents import reflection as reflection_services
from memory.agents.reflection import EntryContent, why_not
from memory.models import Note, Observation, Reflection, Revision, Topic, TopicFact, Trust
from memory.models.actors import RESEARCH
from memory.services.llm.asking import BudgetReached, ask_model
from memory.services.notes.saving import write_note
from memory.services.observations.extraction import MODEL, Extracted, extract, without_known
from memory.services.observations.saving import Line, remember_lines
from research.models import DeltaItem, Hit, Report, Run
from research.services.runs.context.run_context import RunContext, StepResult
from research.services.runs.reporting import report_text
from research.services.runs.reporting.delta import Change
from research.services.runs.search import known_pages
from research.services.runs.steps.verifying import unsupported_mark


def in_trash(run: Run) -> str:
    """Return why nothing is saved from the run, if it or its topic is in the trash."""
    row = Run.objects.filter(pk=run.pk).values("topic__trashed_at", "report__trashed_at").get()
    if row["topic__trashed_at"] is not None:
        return _("nothing was saved because the topic is in Trash")
    if row["report__trashed_at"] is not None:
        return _("nothing was saved because the run is in Trash")
    return ""


# --- observations ---

REPORT = "write"  # the step whose output is the report
FACTS = "save"
TYPE = Observation.StepType.RUN


def observe(context: RunContext) -> StepResult:
    """Save the run's facts as findings, and other statements from its report (R94).

    Repeatable: a report is extracted once, and duplicates add nothing. If the model is unavailable,
    it is tried again later. If it refuses or its answer is unusable, that is a warning.
    """
    topic = Topic.objects.select_related("owner").get(pk=context.topic.pk)
    if why := in_trash(context.run):
        return StepResult(detail=why)
    facts = facts_of(context)
    kept = _remember(context, topic, [_fact(text) for text in facts], context.run.source)
    if _is_extracted(context):
        return _result(kept, 0, Extracted())
    found = extract(
        topic.owner,
        _report(context, facts),
        source=context.run.source,
        step_name=REPORT,
        step_type=TYPE,
        topic=topic,
        meter=context.meter,
    )
    if isinstance(found.failure, ProviderUnavailable) and context.step.may_retry:
        raise found.failure
    further = without_known(
        found.lines, [*facts, *_known_before(context), *_own_words(context.run.report)]
    )
    more = _remember(context, topic, further, found.source(context.run.source))
    return _result(kept, more, found)


def facts_of(context: RunContext) -> list[str]:
    """Return the sentences that the run found and verified, without those marked as wrong.

    In later runs, confirmed facts are left out, because an earlier run saved them. So are facts
    that are gone.
    """
    verified = context.output("verify")
    if context.output("load_memory")["memory"]:
        changes = [Change(**change) for change in verified["changes"]]
        sentences = [change.sentence for change in changes if change.is_remembered]
    else:
        sentences = [f["sentence"] for f in verified["findings"] if f["supported"]]
    struck = set(
        TopicFact.objects.filter(topic=context.topic).struck().values_list("key", flat=True)
    )
    return [
        sentence
        for sentence in dict.fromkeys(sentences)
        if match_key(sentence) not in struck and not injection_reason(sentence)
    ]


def _known_before(context: RunContext) -> list[str]:
    """Return what was known or marked as wrong before the run. Background isn't a finding."""
    memory = context.output("load_memory")["memory"]
    told = [fact["text"] for fact in memory["facts"]] if memory else []
    struck = TopicFact.objects.filter(topic=context.topic).struck()
    return [*told, *struck.values_list("text", flat=True)]


def _own_words(report: Report) -> list[str]:
    """Return Beacon's own uncited sentences in an extractive report, which are about the run."""
    is_own = report.is_extractive and report.summary == without_citations(report.summary)
    return split(report.summary) if is_own else []


def _fact(text: str) -> Line:
    return Line(Observation.Category.FINDING, text, step_name=FACTS, step_type=TYPE)


def _report(context: RunContext, facts: list[str]) -> str:
    """Return the changes, and the report without the sentences that no source supports.

    Only the new sentence of each change is used, because the section also has the old one.
    """
    text = report_text.without_notes(context.run.report.body)
    body = "\n".join(map(_supported, text.splitlines()))
    changed = "\n".join(f"- {fact}" for fact in facts if fact not in body)
    return f"{changed}\n\n{body}".strip()


def _supported(line: str) -> str:
    """Return one line of the report without sentences marked as unsupported."""
    *marked, rest = line.split(unsupported_mark())
    kept = []
    for piece in marked:
        sentences = split(piece.strip())
        kept.append(piece[: piece.rfind(sentences[-1])] if sentences else "")
    return "".join([*kept, rest])


def _is_extracted(context: RunContext) -> bool:
    written = Observation.objects.for_user(context.topic.owner).filter(
        source__in=[context.run.source, Extracted(by="heuristic").source(context.run.source)],
        step_name=REPORT,
    )
    return bool(written.exists())


def _remember(context: RunContext, topic: Topic, lines: list[Line], source: str) -> int:
    """Store the lines. Return how many are new."""
    if not lines:
        return 0
    stored = remember_lines(
        topic.owner,
        lines,
        by=RESEARCH,
        source=source,
        change_source=context.run.source,
        topic=topic,
        trust=Trust.EXTERNAL,
    )
    return len(stored.new)


def _result(facts: int, further: int, found: Extracted) -> StepResult:
    new = facts + further
    words = ngettext("%(count)d observation", "%(count)d observations", new) % {"count": new}
    if further:
        by = _("by the model") if found.by == MODEL else _("found without a model")
        words = _("%(all)s, %(further)d of them %(by)s") % {
            "all": words,
            "further": further,
            "by": by,
        }
    counts: dict[str, Any] = {"observations": new, "facts": facts, "extracted": further}
    if found.left_out:
        counts["left_out"] = found.left_out
    return StepResult({**counts, "by": found.by}, words, counts, found.warning)


# --- transcript ---

MAX_TITLES = 5  # of one query
_MAX_REASON_LENGTH = 200  # characters of the error of a service or page


def task_of(context: RunContext) -> str:
    run, settings = context.run, context.settings
    parts = [_("Research the topic “%(topic)s”.") % {"topic": context.topic.title}]
    if settings.objective:
        parts.append(_("Objective: %(text)s") % {"text": shorten(settings.objective, 500)})
    if settings.focus:
        parts.append(_("Focus: %(text)s") % {"text": shorten(settings.focus, 300)})
    if run.is_baseline:
        parts.append(_("This was %(run)s, a baseline run.") % {"run": run})
    else:
        parts.append(
            _("This was %(run)s, which looked for what’s new since the previous run.")
            % {"run": run}
        )
    return " ".join(parts)


def history_of(context: RunContext) -> list[Message]:
    """Return the run as a conversation: each search and each page as a call with its result."""
    hits = list(context.run.hits.order_by("place"))
    messages: list[Message] = []
    for number, query in enumerate(context.output("plan").get("queries", [])):
        messages += _call(
            f"s{number}", "web_search", {"query": query}, _query_outcome(context, query, hits)
        )
    for number, hit in enumerate(hits):
        if hit.reading != Hit.Reading.NOT_READ:
            messages += _call(f"p{number}", "open_page", {"url": hit.link}, _read(hit))
    if context.run.warnings:
        warned = "\n".join(f"- {shorten(warning, 300)}" for warning in context.run.warnings)
        messages.append(Message("assistant", _("Problems:") + f"\n{warned}"))
    # The report itself is the result, which the reflector gets in addition to the history.
    messages.append(Message("assistant", _("I wrote the report.")))
    return messages


def _call(key: str, tool: str, arguments: dict[str, Any], result: str) -> list[Message]:
    call = ToolCall(key, tool, arguments)
    return [Message("assistant", "", (call,)), Message("tool", result, (), key)]


def _query_outcome(context: RunContext, query: str, hits: list[Hit]) -> str:
    """Return each service's answer to a query, and the titles of its hits."""
    lines = []
    for entry in context.output("search").get("asked", []):
        if entry["query"] != query:
            continue
        n = entry["hits"]
        words = ngettext("%(service)s: %(n)d result", "%(service)s: %(n)d results", n)
        words %= {"service": entry["service"], "n": n}
        why = shorten(entry["problem"], _MAX_REASON_LENGTH)
        lines.append(f"{words} ({why})" if why else words)
    own = [hit for hit in hits if any(one["query"] == query for one in hit.queries)]
    lines += [f"- {hit.title} ({hit.get_state_display()})" for hit in own[:MAX_TITLES]]
    return "\n".join(lines) or _("not searched")


def _read(hit: Hit) -> str:
    words = f"{hit.get_reading_display()}: {shorten(hit.title, 200)}"
    return f"{words} ({shorten(hit.reason, _MAX_REASON_LENGTH)})" if hit.reason else words


# --- reflecting ---

# What a run writes within its own topic: facts, findings, report and summary note.
_OF_ITS_TOPIC = ("topic", "topicfact", "observation", "report", "note", "contentitem")


def reflect(context: RunContext) -> StepResult:
    """Reflect on the run, only once even if called again."""
    topic = Topic.objects.select_related("owner").get(pk=context.topic.pk)
    if why := in_trash(context.run):
        return StepResult(detail=why)
    run, owner = context.run, topic.owner
    result = f"{run.report.delta}\n\n{run.report.body}".strip()
    why = why_not(run.model_calls, actions_of(context), is_read_only(run), result)
    if why:
        return _reflection_result(
            reflection_services.skip(owner, source=run.source, topic=topic, why=why)
        )
    return _reflection_result(
        reflection_services.reflect(
            owner,
            source=run.source,
            task=task_of(context),
            result=result,
            history=history_of(context),
            trust=Trust.EXTERNAL,
            topic=topic,
            meter=context.meter,
            told=_entry_from_facts(context, topic),
            last_try=not context.step.may_retry,
        )
    )


def actions_of(context: RunContext) -> int:
    """Return how many actions a run took: searches, pages read, tools called."""
    queries = context.output("search").get("asked", [])
    # pages are already counted as read
    called = context.run.tool_calls.exclude(tool="open_page").count()
    return len(queries) + context.run.read_count + called


def is_read_only(run: Run) -> bool:
    """Return True if the run wrote only to its own topic."""
    written = Revision.objects.for_user(run.topic.owner).filter(source=run.source)
    return not written.exclude(record_type__in=_OF_ITS_TOPIC).exists()


def _entry_from_facts(context: RunContext, topic: Topic) -> EntryContent:
    """Return the entry's text without a model: the run's verified facts, unchanged."""
    facts = [without_citations(fact) for fact in facts_of(context)]
    words = ngettext("%(n)d finding: %(topic)s", "%(n)d findings: %(topic)s", len(facts))
    return EntryContent(
        title=_("%(topic)s (%(run)s)") % {"topic": topic.title, "run": context.run},
        summary=words % {"n": len(facts), "topic": topic.title},
        task=context.settings.objective or task_of(context),
        findings=facts,
    )


def _reflection_result(done: Reflection) -> StepResult:
    output = {"reflection": done.pk, "state": done.state, "by": done.by}
    counts = {"calls": len(done.calls), "changes": len(done.changes)}
    if done.state == Reflection.State.SKIPPED:
        return StepResult(output, _("skipped: %(why)s") % {"why": done.why}, counts)
    if done.state == Reflection.State.FAILED:
        warning = _("Nothing was saved to the memory files: %(why)s") % {"why": done.why}
        return StepResult(output, _("failed"), counts, warning)
    by_rules = done.by == reflection_services.RULES
    message = _("without a model") if by_rules else _("by the model")
    detail = f"{reflection_services.describe_changes(done)}, {message}"
    warning = ""
    if by_rules and done.why:
        warning = _("The reflection was written without the model: %(why)s") % {"why": done.why}
    return StepResult(output, detail, counts, warning)


# --- summary note ---

TTL_DAYS = 7  # R206
TAG = "run"
MAX_STEPS = 4
MAX_NEWS = 5
_MAX_REPORT = 12_000  # characters of the report that a model reads
_MAX_RESULT, _MAX_STEP = 1_200, 300


class RunSummary(BaseModel):
    """A model's summary of a report."""

    result: str = Field(min_length=1)
    next_steps: list[str] = Field(default_factory=list)


def summarise(context: RunContext) -> StepResult:
    """Write the run's summary note once: goal, actions, result and next steps.

    If the model is unavailable, it is tried again later. If it refuses or its answer is unusable,
    the note is written without it, with a warning.
    """
    topic = Topic.objects.select_related("owner").get(pk=context.topic.pk)
    if why := in_trash(context.run):
        return StepResult(detail=why)
    if (note := _written(context.run, topic)) is not None:
        return _summary_result(note, is_new=False)
    warning, written = "", None
    try:
        written = _summary_by_model(context, topic)
    except ProviderUnavailable as exc:
        if context.step.may_retry:
            raise
        warning = _without_model(exc)
    except (ProviderError, BudgetReached) as exc:
        warning = _without_model(exc)
    content = _content(context, topic, written)
    with transaction.atomic():
        # Under a lock, because a worker that lost its lease can arrive late.
        Topic.objects.select_for_update(no_key=True).get(pk=topic.pk)
        if (note := _written(context.run, topic)) is not None:
            return _summary_result(note, is_new=False)
        note = _write(context.run, topic, content)
    return _summary_result(note, is_new=True, by_model=written is not None, warning=warning)


def _written(run: Run, topic: Topic) -> Note | None:
    """Return the run's note, even if it was merged or moved to the trash."""
    row: Note | None = (
        Note.objects.for_user(topic.owner)
        .filter(source=run.source, job=run.source, kind=Note.Kind.SUMMARY)
        .first()
    )
    return row


def _write(run: Run, topic: Topic, content: str) -> Note:
    return write_note(
        topic.owner,
        Note.Kind.SUMMARY,
        content,
        by=RESEARCH,
        stability=Note.Stability.VOLATILE,
        ttl_days=TTL_DAYS,
        tags=[TAG],
        source=run.source,
        job=run.source,
        topic=topic,
        trust=Trust.EXTERNAL,
    )


def _summary_result(
    note: Note, *, is_new: bool, by_model: bool = False, warning: str = ""
) -> StepResult:
    if is_new:
        detail = ngettext("note kept for %(n)d day", "note kept for %(n)d days", TTL_DAYS) % {
            "n": TTL_DAYS
        }
        detail += ", " + (_("by the model") if by_model else _("without a model"))
    else:
        detail = _("the note already exists")
    output = {"note": str(note.pk), "by": "model" if by_model else "rules"}
    return StepResult(output, detail, {"notes": int(is_new)}, warning)


def _without_model(exc: Exception) -> str:
    params = {"why": ended(capfirst(shorten(str(exc), 300)))}  # a reached limit is only a clause
    return _("The model failed, so the summary note was written without it. %(why)s") % params


# --- the note's content ---


def _content(context: RunContext, topic: Topic, written: RunSummary | None) -> str:
    result = shorten(plain(written.result), _MAX_RESULT) if written else _found_out(context)
    steps = [plain(step) for step in written.next_steps] if written else []
    steps = [shorten(s, _MAX_STEP) for s in [*steps[:MAX_STEPS], *_next_steps(context, topic)] if s]
    params = {"run": str(context.run), "topic": topic.title, "day": _day(context.run)}
    parts = {
        _("Goal"): f" {_goal(context, topic)}",
        _("Actions"): f" {_actions(context.run)}",
        _("Result"): f" {result}",
        _("Next steps"): "".join(f"\n- {step}" for step in dict.fromkeys(steps)),
    }
    title = _("%(run)s of “%(topic)s”, %(day)s") % params
    return clean("\n\n".join([title, *(f"**{k}:**{v}" for k, v in parts.items())]))[0]


def _day(run: Run) -> str:
    return date_format(timezone.localtime(run.finished_at or timezone.now()), "j F Y")


def _goal(context: RunContext, topic: Topic) -> str:
    return shorten(context.settings.objective, 500) or topic.title


def _actions(run: Run) -> str:
    hits = list(run.hits.values_list("service", "state", "reading"))
    # As on the report's page, known pages that no search returned aren't results.
    found = [state for service, state, _reading in hits if service != known_pages.SERVICE]
    read = sum(reading == Hit.Reading.READ for _service, _state, reading in hits)
    steps = dict(run.steps.filter(name__in=("plan", "save")).values_list("name", "output"))
    queries = len(steps.get("plan", {}).get("queries", []))
    saved = steps.get("save", {})
    words = _(
        "queries: %(queries)d, results: %(hits)d (%(new)d new), pages read: %(read)d, sources cited: %(cited)d, facts: %(learned)d learned, %(confirmed)d confirmed, %(retired)d no longer current."
    ) % {
        "queries": queries,
        "hits": len(found),
        "new": found.count(Hit.State.NEW),
        "read": read,
        "cited": len(run.report.sources),
        "learned": saved.get("facts_learned", 0),
        "confirmed": saved.get("facts_confirmed", 0),
        "retired": saved.get("facts_retired", 0),
    }
    if run.warnings:
        words += " " + _("Warning: %(why)s") % {"why": shorten(run.warnings[0], 200)}
    return words


def _found_out(context: RunContext) -> str:
    """Return the report's first paragraph and its news, word for word."""
    report = context.run.report
    first = uncited(report_text.first_paragraph(report.body))
    news = [
        f"- {item.get_status_display()}: {uncited(item.sentence)}"
        for item in _items(context.run, DeltaItem.LISTED)[:MAX_NEWS]
    ]
    found = [shorten(first, _MAX_RESULT) if not injection_reason(first) else "", *news]
    return "\n".join(filter(None, found)) or _("Nothing new was found.")


def _next_steps(context: RunContext, topic: Topic) -> list[str]:
    """Return what the next run should check, and when it starts."""
    contradicted = _items(context.run, (DeltaItem.Status.CONTRADICTED,))
    quiet = _items(context.run, (DeltaItem.Status.GONE_QUIET,))
    steps = [
        _("Resolve the contradiction: %(fact)s") % {"fact": shorten(uncited(i.previous_text), 160)}
        for i in contradicted[:2]
    ]
    if quiet:
        n = len(quiet)
        words = ngettext(
            "Look again for %(n)d fact that no source mentioned.",
            "Look again for %(n)d facts that no source mentioned.",
            n,
        )
        steps.append(words % {"n": n})
    schedule = getattr(topic, "schedule", None)
    if schedule is not None and schedule.next_run_at and not schedule.paused:
        at = date_format(timezone.localtime(schedule.next_run_at), "j F Y, H:i")
        steps.append(_("The next run is due on %(at)s.") % {"at": at})
    else:
        steps.append(_("No run is scheduled. Start the next one manually."))
    return steps


def _items(run: Run, statuses: Iterable[str]) -> list[DeltaItem]:
    found = DeltaItem.objects.filter(run=run, status__in=list(statuses)).supported()
    return [i for i in found.order_by("position") if not injection_reason(i.sentence)]


# --- the model ---


def _summary_by_model(work: RunContext, topic: Topic) -> RunSummary | None:
    """Return the model's summary of the report, or None without a model."""
    report = work.run.report
    context: dict[str, Any] = {
        "most": MAX_STEPS,
        "goal": for_prompt(_goal(work, topic)),
        "actions": for_prompt(_actions(work.run)),
        "report": for_prompt(f"{report.delta}\n\n{report.body}".strip()[:_MAX_REPORT]),
    }
    answer = ask_model(
        "summarise",
        [
            Message("system", render_to_string("prompts/summarise_system.txt", context)),
            Message("user", render_to_string("prompts/summarise_user.txt", context)),
        ],
        owner=topic.owner,
        source=work.run.source,
        topic=topic,
        schema=RunSummary,
        max_tokens=700,
        meter=work.meter,
    )
    if answer is None or not isinstance(answer.parsed, RunSummary):
        return None
    steps = [s for s in answer.parsed.next_steps if not injection_reason(s)]
    result = without_citations(clean(answer.parsed.result)[0])
    if injection_reason(result):
        return None
    return RunSummary(result=result, next_steps=[clean(s)[0] for s in steps])
