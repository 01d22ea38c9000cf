"""The follow-up that keeps what a run found out as observations (R94).

Data flow: the run's verified facts -> findings, word for word; its report -> extraction -> further
findings, insights and lessons.  Both stay `external`: they came from the web.
"""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.providers.errors import ProviderUnavailable
from memory.actors import RESEARCH
from memory.models import Observation, Topic, TopicFact, Trust
from memory.observations import Line, remember_lines
from memory.observations.extraction import MODEL, Extracted, extract, without_known
from memory.texts.injection import smells_of_instructions
from memory.texts.sentences import split
from memory.texts.text import match_key, without_citations
from research.deltas.delta import Change
from research.follow_ups import in_trash
from research.models import Report
from research.models.runs import MAX_TRIES
from research.steps.verifying import unsupported_mark
from research.working.context import RunContext, StepResult

REPORT = "write"  # the step whose output the report is
FACTS = "save"
TYPE = Observation.StepType.RUN


def observe(work: RunContext) -> StepResult:
    """Keep the run's facts as findings, and what its report says beyond them.

    Repeatable: the same again adds nothing, and a report is extracted once.  A model that is not
    there now is tried again later; one that refuses, or answers nonsense, leaves a warning.
    """
    topic = Topic.objects.select_related("owner").get(pk=work.topic.pk)
    if why := in_trash(work.run):
        return StepResult(detail=why)
    facts = facts_of(work)
    kept = _remember(work, topic, [_fact(text) for text in facts], work.run.source)
    if _is_extracted(work):
        return _result(kept, 0, Extracted())
    found = extract(
        topic.owner,
        _report(work, facts),
        source=work.run.source,
        step_name=REPORT,
        step_type=TYPE,
        topic=topic,
        meter=work.meter,
    )
    if isinstance(found.failure, ProviderUnavailable) and work.step.attempt < MAX_TRIES:
        raise found.failure
    further = without_known(
        found.lines, [*facts, *_told_before(work), *_own_words(work.run.report)]
    )
    more = _remember(work, topic, further, found.source(work.run.source))
    return _result(kept, more, found)


def facts_of(work: RunContext) -> list[str]:
    """Return the sentences that the run found to be so and verified, without what was struck.

    Of a later run what it confirmed is not told again: the finding of an earlier run stands.
    """
    verified = work.output("verify")
    if work.output("load_memory")["memory"]:
        changes = [Change(**change) for change in verified["changes"]]
        sentences = [c.sentence for c in changes if c.is_listed and not c.withheld]
    else:
        sentences = [f["sentence"] for f in verified["findings"] if f["supported"]]
    struck = set(TopicFact.objects.filter(topic=work.topic).struck().values_list("key", flat=True))
    return [
        sentence
        for sentence in dict.fromkeys(sentences)
        if match_key(sentence) not in struck and not smells_of_instructions(sentence)
    ]


def _told_before(work: RunContext) -> list[str]:
    """Return what was known before the run, or struck: a report's background is no finding."""
    memory = work.output("load_memory")["memory"]
    told = [fact["text"] for fact in memory["facts"]] if memory else []
    struck = TopicFact.objects.filter(topic=work.topic).struck()
    return [*told, *struck.values_list("text", flat=True)]


def _own_words(report: Report) -> list[str]:
    """Return what Beacon itself says in an extract that cites nothing: it tells of the run alone."""
    is_own = report.is_extractive and report.summary == without_citations(report.summary)
    return split(report.summary) if is_own else []


def _fact(text: str) -> Line:
    return Line(Observation.Category.FINDING, text, step_name=FACTS, step_type=TYPE)


def _report(work: RunContext, facts: list[str]) -> str:
    """Return what changed, and the report without the sentences that no source supports.

    Of what changed the new sentences: the section itself also tells what was known before.
    """
    body = "\n".join(map(_supported, work.run.report.body.splitlines()))
    changed = "\n".join(f"- {fact}" for fact in facts if fact not in body)
    return f"{changed}\n\n{body}".strip()


def _supported(line: str) -> str:
    """Return one line of the report without the sentences that are marked as unsupported."""
    *marked, rest = line.split(unsupported_mark())
    kept = []
    for piece in marked:
        sentences = split(piece.strip())
        kept.append(piece[: piece.rfind(sentences[-1])] if sentences else "")
    return "".join([*kept, rest])


def _is_extracted(work: RunContext) -> bool:
    written = Observation.objects.of(work.topic.owner).filter(
        source__in=[work.run.source, Extracted(by="heuristic").source(work.run.source)],
        step_name=REPORT,
    )
    return bool(written.exists())


def _remember(work: RunContext, topic: Topic, lines: list[Line], source: str) -> int:
    """Store the lines; return how many are new."""
    if not lines:
        return 0
    stored = remember_lines(
        topic.owner,
        lines,
        by=RESEARCH,
        source=source,
        change_source=work.run.source,
        topic=topic,
        trust=Trust.EXTERNAL,
    )
    return len(stored.new)


def _result(facts: int, further: int, found: Extracted) -> StepResult:
    new = facts + further
    words = ngettext("%(count)d observation", "%(count)d observations", new) % {"count": new}
    if further:
        by = _("by the model") if found.by == MODEL else _("by rules, without a model")
        words = _("%(all)s, %(further)d of them %(by)s") % {
            "all": words,
            "further": further,
            "by": by,
        }
    counts: dict[str, Any] = {"observations": new, "facts": facts, "extracted": further}
    if found.left_out:
        counts["left_out"] = found.left_out
    return StepResult({**counts, "by": found.by}, words, counts, found.warning)
