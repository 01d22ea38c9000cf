"""The follow-up that looks back on a run: what of it is kept in the memory files (R169 to R185).

Data flow: what the run cost and wrote -> the gate -> task, history and report -> `memory.reflection.reflection`.
All of it came from the web, so what is made of it is `external` and waits for a person.
"""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.models import Reflection, Revision, Topic, Trust
from memory.reflection import reflection
from memory.reflection.entry import Told
from memory.reflection.gate import why_not
from memory.texts.text import without_citations
from research.follow_ups import in_trash
from research.follow_ups import transcript as run_transcript
from research.follow_ups.extracting import facts_of
from research.models import Run
from research.models.runs import MAX_TRIES
from research.working.context import RunContext, StepResult

# What a run writes without leaving its topic: its facts, findings, report and summary note.
_OF_ITS_TOPIC = ("topic", "topicfact", "observation", "report", "note", "contentitem")


def reflect(work: RunContext) -> StepResult:
    """Look back on the run, once; it may be asked for again."""
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
            task=run_transcript.task_of(work),
            result=result,
            history=run_transcript.history_of(work),
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
    """Whether the run wrote nothing but its own topic."""
    written = Revision.objects.of(run.topic.owner).filter(source=run.source)
    return not written.exclude(record_type__in=_OF_ITS_TOPIC).exists()


def _told(work: RunContext, topic: Topic) -> Told:
    """Return what the entry says where no model looks back: the run's verified facts, word for word."""
    facts = [without_citations(fact) for fact in facts_of(work)]
    words = ngettext("%(n)d new fact: %(topic)s", "%(n)d new facts: %(topic)s", len(facts))
    return Told(
        title=_("%(topic)s (%(run)s)") % {"topic": topic.title, "run": work.run},
        summary=words % {"n": len(facts), "topic": topic.title},
        task=work.settings.objective or run_transcript.task_of(work),
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
        warning = _("The run was looked back on without the model: %(why)s") % {"why": done.why}
    return StepResult(output, detail, counts, warning)
