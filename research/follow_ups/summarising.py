"""The follow-up that writes a run's summary note: goal, actions, next steps (R206).

Data flow: the run's row, steps and report -> goal and actions, which are counted and not written
by a model -> result and next steps, by a model or from the report -> one volatile note of seven
days.  It is `external`: it came from the web.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from pydantic import BaseModel, Field

from beacon_site.providers.errors import ProviderError, ProviderUnavailable
from beacon_site.providers.llm import Message
from memory.actors import RESEARCH
from memory.llm.asking import ask_model
from memory.models import Note, Topic, Trust
from memory.notes.writing import write_note
from memory.texts.injection import smells_of_instructions
from memory.texts.text import clean, for_prompt, plain, shorten, without_citations
from memory.usage.meter import BudgetReached
from research.follow_ups import in_trash
from research.models import DeltaItem, Hit, Run
from research.models.runs import MAX_TRIES
from research.reporting import report_text
from research.working.context import RunContext, StepResult

TTL_DAYS = 7  # R206
TAG = "run"
MOST_STEPS = 4
MOST_NEWS = 5
_MOST_REPORT = 12_000  # characters of the report that a model reads
_MOST_RESULT, _MOST_STEP = 1_200, 300


class RunSummary(BaseModel):
    """What a model makes of a report."""

    result: str = Field(min_length=1)
    next_steps: list[str] = Field(default_factory=list)


def summarise(work: RunContext) -> StepResult:
    """Write the run's note, once however often it is asked for.

    A model that is not there now is tried again later; one that refuses, or answers nonsense,
    leaves a warning and the note that is written without it.
    """
    topic = Topic.objects.select_related("owner").get(pk=work.topic.pk)
    if why := in_trash(work.run):
        return StepResult(detail=why)
    if (note := _written(work.run, topic)) is not None:
        return _result(note, is_new=False)
    warning, written = "", None
    try:
        written = _asked(work, topic)
    except ProviderUnavailable as exc:
        if work.step.attempt < MAX_TRIES:
            raise
        warning = _without_model(exc)
    except (ProviderError, BudgetReached) as exc:
        warning = _without_model(exc)
    content = _content(work, topic, written)
    with transaction.atomic():
        # One after the other: a worker that was given up on may come late.
        Topic.objects.select_for_update(no_key=True).get(pk=topic.pk)
        if (note := _written(work.run, topic)) is not None:
            return _result(note, is_new=False)
        note = _write(work.run, topic, content)
    return _result(note, is_new=True, by_model=written is not None, warning=warning)


def _written(run: Run, topic: Topic) -> Note | None:
    """Return the run's note, also one that was merged or moved to the trash since."""
    found: Note | None = (
        Note.objects.of(topic.owner)
        .filter(source=run.source, job=run.source, kind=Note.Kind.SUMMARY)
        .first()
    )
    return found


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


def _result(note: Note, *, is_new: bool, by_model: bool = False, warning: str = "") -> StepResult:
    if is_new:
        detail = ngettext("a note for %(n)d day", "a note for %(n)d days", TTL_DAYS) % {
            "n": TTL_DAYS
        }
        detail += ", " + (_("by the model") if by_model else _("without a model"))
    else:
        detail = _("the note was written already")
    output = {"note": str(note.pk), "by": "model" if by_model else "rules"}
    return StepResult(output, detail, {"notes": int(is_new)}, warning)


def _without_model(exc: Exception) -> str:
    told = {"why": shorten(str(exc), 300)}
    return _("The summary note was written without the model, which failed: %(why)s") % told


# --- what the note says ---------------------------------------------------------------------------


def _content(work: RunContext, topic: Topic, written: RunSummary | None) -> str:
    result = shorten(plain(written.result), _MOST_RESULT) if written else _found_out(work)
    steps = [plain(step) for step in written.next_steps] if written else []
    steps = [shorten(s, _MOST_STEP) for s in [*steps[:MOST_STEPS], *_next_steps(work, topic)] if s]
    told = {"run": str(work.run), "topic": topic.title, "day": _day(work.run)}
    parts = [
        _("%(run)s of “%(topic)s”, %(day)s") % told,
        f"**{_('Goal')}:** {_goal(work, topic)}",
        f"**{_('Actions')}:** {_actions(work.run)}",
        f"**{_('Result')}:** {result}",
        f"**{_('Next steps')}:**\n" + "\n".join(f"- {step}" for step in dict.fromkeys(steps)),
    ]
    return clean("\n\n".join(parts))[0]


def _day(run: Run) -> str:
    return date_format(timezone.localtime(run.finished_at or timezone.now()), "j F Y")


def _goal(work: RunContext, topic: Topic) -> str:
    return shorten(work.settings.objective, 500) or topic.title


def _actions(run: Run) -> str:
    """Return in words what the run did, by its rows."""
    hits = list(run.hits.values_list("state", "reading"))
    new = sum(state == Hit.State.NEW for state, _reading in hits)
    read = sum(reading == Hit.Reading.READ for _state, reading in hits)
    steps = dict(run.steps.filter(name__in=("plan", "save")).values_list("name", "output"))
    queries = len(steps.get("plan", {}).get("queries", []))
    saved = steps.get("save", {})
    words = _(
        "queries asked %(queries)d, hits %(hits)d (new %(new)d), pages read %(read)d, sources cited "
        "%(cited)d; facts new %(learnt)d, confirmed %(confirmed)d, retired %(retired)d."
    ) % {
        "queries": queries,
        "hits": len(hits),
        "new": new,
        "read": read,
        "cited": len(run.report.sources),
        "learnt": saved.get("facts_new", 0),
        "confirmed": saved.get("facts_confirmed", 0),
        "retired": saved.get("facts_retired", 0),
    }
    if run.warnings:
        words += " " + _("It warned: %(why)s") % {"why": shorten(run.warnings[0], 200)}
    return words


def _found_out(work: RunContext) -> str:
    """Return what the report says first, and what is new in it, word for word."""
    report = work.run.report
    first = _plain(report_text.first_paragraph(report.body))
    news = [
        f"- {item.get_status_display()}: {_plain(item.sentence)}"
        for item in _items(work.run, DeltaItem.LISTED)[:MOST_NEWS]
    ]
    found = [shorten(first, _MOST_RESULT) if not smells_of_instructions(first) else "", *news]
    return "\n".join(filter(None, found)) or _("Nothing new was found.")


def _next_steps(work: RunContext, topic: Topic) -> list[str]:
    """Return what the next run is to look at, and when that is."""
    contradicted = _items(work.run, (DeltaItem.Status.CONTRADICTED,))
    quiet = _items(work.run, (DeltaItem.Status.GONE_QUIET,))
    steps = [
        _("Settle what sources contradict: %(fact)s")
        % {"fact": shorten(_plain(i.previous_text), 160)}
        for i in contradicted[:2]
    ]
    if quiet:
        n = len(quiet)
        words = ngettext(
            "Look again for %(n)d fact of which nothing was heard.",
            "Look again for %(n)d facts of which nothing was heard.",
            n,
        )
        steps.append(words % {"n": n})
    schedule = getattr(topic, "schedule", None)
    if schedule is not None and schedule.next_run_at and not schedule.paused:
        at = date_format(timezone.localtime(schedule.next_run_at), "j F Y, H:i")
        steps.append(_("The next run is due on %(at)s.") % {"at": at})
    else:
        steps.append(_("Run it again by hand: no run is scheduled."))
    return steps


def _items(run: Run, statuses: Iterable[str]) -> list[DeltaItem]:
    found = DeltaItem.objects.filter(run=run, status__in=list(statuses)).supported()
    return [i for i in found.order_by("position") if not smells_of_instructions(i.sentence)]


def _plain(text: str) -> str:
    return without_citations(plain(text))


# --- the model --------------------------------------------------------------------------------------


def _asked(work: RunContext, topic: Topic) -> RunSummary | None:
    """Return what the model makes of the report; None without a model."""
    report = work.run.report
    context: dict[str, Any] = {
        "most": MOST_STEPS,
        "goal": for_prompt(_goal(work, topic)),
        "actions": for_prompt(_actions(work.run)),
        "report": for_prompt(f"{report.delta}\n\n{report.body}".strip()[:_MOST_REPORT]),
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
    steps = [s for s in answer.parsed.next_steps if not smells_of_instructions(s)]
    result = without_citations(clean(answer.parsed.result)[0])
    if smells_of_instructions(result):
        return None
    return RunSummary(result=result, next_steps=[clean(s)[0] for s in steps])
