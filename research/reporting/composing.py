"""Putting a draft together: held against what is known, laid out, and numbered to one list.

Data flow: Draft (citing 1..k) -> changes against the facts, which cite the sources that they came
from as k+1 and following -> summary and body of an extractive report -> the step's output, every
citation renumbered to the sources that are shown (R48).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.models import TopicFact
from memory.texts.text import match_key, shorten, without_citations
from memory.topics.memory import KnownFact, TopicMemory
from research.comparing.matching import match
from research.deltas import delta, told
from research.deltas.delta import Change, SecondOpinion, Statement, Status
from research.extracts.extractive import Reading
from research.models import Schedule
from research.reporting import quiet, report_text, styles
from research.reporting.known_sources import KnownSources
from research.working.stepping import Work

TIMELINE = 300  # retired facts that a finding is held against


@dataclass(slots=True)
class Draft:
    """A report before it is held against what is known; citations are the readings' numbers."""

    summary: str
    body: str
    findings: list[Statement]
    more: list[Statement] = field(default_factory=list)
    written_by: str = ""
    is_extractive: bool = False


def heading(work: Work, memory: TopicMemory | None) -> str:
    """Return the heading of the delta section, by the schedule of when the run was taken up."""
    schedule: Schedule | None = getattr(work.topic, "schedule", None)
    return delta.heading(schedule, memory.run_count if memory else 0)


def compose(
    work: Work,
    memory: TopicMemory | None,
    pages: list[Reading],
    draft: Draft,
    second: SecondOpinion | None = None,
) -> dict[str, Any]:
    """Hold a draft against what is known; `second` is asked of what the comparison is unsure of."""
    facts = list(memory.facts) if memory else []
    found = [*draft.findings, *draft.more] if memory else draft.findings
    changes, dropped = delta.compare(
        told.with_pages(found, pages),
        facts,
        retired=_timeline(work, found) if memory else [],
        struck=list(memory.struck) if memory else [],
        topic=work.topic.title,
        checked=memory.last_run_at.date() if memory and memory.last_run_at else None,
        embed=told.local_vectors() if facts else None,
        second=second,
    )
    # What goes into the body as further context is no item of the delta, but may confirm a fact.
    beside = {match_key(statement.sentence) for statement in draft.more}
    changes = [c for c in changes if c.status != Status.NEW or match_key(c.sentence) not in beside]
    if not pages:
        # Nothing was read, so nothing could have spoken of any fact.
        changes = [change for change in changes if change.status != Status.GONE_QUIET]
    is_quiet = memory is not None and not any(change.is_listed for change in changes)
    standing = _standing(changes, facts) if memory else []
    known = KnownSources.of(work, facts, pages, changes)
    for change in changes:
        if change.status == Status.GONE_QUIET:
            change.citations = known.numbers_of(change.previous_id)
    if draft.is_extractive:
        _lay_out(work, memory, pages, draft, changes, standing, known)
    else:
        draft.body = styles.framed(work, draft.body)
    if dropped:
        work.run.warn(
            ngettext(
                "%(count)d finding repeats what you struck and was dropped",
                "%(count)d findings repeat what you struck and were dropped",
                dropped,
            )
            % {"count": dropped}
        )
    return _numbered(work, memory, pages, draft, changes, standing, known, is_quiet)


def _timeline(work: Work, found: Iterable[Statement]) -> list[KnownFact]:
    """Return the facts retired last, and older ones that a finding repeats word for word."""
    of_topic = TopicFact.objects.filter(topic=work.topic).retired()
    latest = list(of_topic[:TIMELINE])
    said = of_topic.filter(key__in={match_key(statement.sentence) for statement in found})
    retired = {fact.pk: fact for fact in [*latest, *said]}.values()
    return [KnownFact(str(fact.pk), fact.text, fact.url, fact.source_title) for fact in retired]


def _standing(changes: Iterable[Change], facts: Sequence[KnownFact]) -> list[KnownFact]:
    """Return the facts that go on standing: all but those that surely gave way to another."""
    replaced = {c.replaces for c in changes}
    return [fact for fact in facts if fact.id not in replaced]


def _lay_out(
    work: Work,
    memory: TopicMemory | None,
    pages: list[Reading],
    draft: Draft,
    changes: list[Change],
    standing: Sequence[KnownFact],
    known: KnownSources,
) -> None:
    """Set summary and body of an extractive report."""
    known_keys = {match_key(c.sentence) for c in changes if c.status == Status.CONFIRMED}
    listed = {match_key(c.sentence) for c in changes if c.is_listed}
    # What the section above calls superseded is not told below it as it were still so.
    old = [c.previous_text for c in changes if c.replaces]
    fresh = [
        s
        for s in draft.findings
        if match_key(s.sentence) not in known_keys and not _is_superseded(s.sentence, old, listed)
    ]
    more = [
        s
        for s in draft.more
        if match_key(s.sentence) not in known_keys | listed
        and not _is_superseded(s.sentence, old, listed)
    ]
    draft.summary = _summary(work, memory, pages, [*fresh, *more], standing)
    parts = styles.Parts(
        summary=draft.summary,
        fresh=[_cite(statement) for statement in fresh],
        more=[_cite(statement) for statement in more],
        known=[known.line(fact) for fact in standing if not _is_superseded(fact.text, old, listed)],
        is_baseline=memory is None,
    )
    label = _("Extractive: every sentence is taken from its source, written without a model.")
    body = styles.laid_out(work.settings.report_style, parts)
    draft.body = styles.framed(work, body, [label] if fresh or more else [])


def _is_superseded(sentence: str, old: Sequence[str], listed: Collection[str]) -> bool:
    """Whether a sentence says what one of the `old` says; what is listed as news does not."""
    if not old or match_key(sentence) in listed:
        return False
    found = match(without_citations(sentence), old)
    return found is not None and found.kind == "confirmed"


def _summary(
    work: Work,
    memory: TopicMemory | None,
    pages: list[Reading],
    found: Sequence[Statement],
    standing: Sequence[KnownFact],
) -> str:
    if found:
        return " ".join(_cite(statement) for statement in found[:2])
    if memory is None:
        return quiet.nothing_found(work, len(pages))
    # How many there are is Beacon's own count: each of the facts below it is cited.
    return ngettext(
        "What was known on %(date)s is still true: %(count)d fact.",
        "What was known on %(date)s is still true: %(count)d facts.",
        len(standing),
    ) % {
        "date": date_format(timezone.localtime(memory.last_run_at), "j F Y")
        if memory.last_run_at
        else "?",
        "count": len(standing),
    }


def _cite(statement: Statement) -> str:
    return f"{statement.sentence} {_marks(statement.citations)}"


def _marks(numbers: Iterable[int]) -> str:
    return "".join(f"[{n}]" for n in numbers)


def _numbered(
    work: Work,
    memory: TopicMemory | None,
    pages: list[Reading],
    draft: Draft,
    changes: list[Change],
    standing: Sequence[KnownFact],
    known: KnownSources,
    is_quiet: bool,
) -> dict[str, Any]:
    """Return the step's output with every citation renumbered to the one list that is shown."""
    by_number = {page.number: page for page in [*pages, *known.pages]}
    # A baseline shows no delta section above its body.
    above = [change for change in changes if change.is_listed and memory is not None]
    listed = [n for change in above for n in change.citations]
    rest = [n for change in changes for n in change.citations]
    order = dict.fromkeys([*listed, *report_text.cited([draft.body]), *rest])
    order.update(dict.fromkeys(n for s in draft.findings for n in s.citations))
    numbers = {old: new for new, old in enumerate((n for n in order if n in by_number), start=1)}
    for change in changes:
        change.citations = [numbers[n] for n in change.citations if n in numbers]
    states = dict(work.run.hits.values_list("link", "state"))
    states |= {page.url: "known" for page in known.pages}
    earlier = {page.number for page in known.pages}
    sources = [_source(numbers[old], by_number[old], states, earlier) for old in numbers]
    findings = [
        {
            "sentence": statement.sentence,
            "citations": [numbers[n] for n in statement.citations if n in numbers],
            "quote": statement.quote,
        }
        for statement in [*draft.findings, *draft.more]
    ]
    return {
        "summary": report_text.renumbered(draft.summary, numbers),
        "body": report_text.renumbered(draft.body, numbers),
        "findings": findings,
        "main": len(draft.findings),
        "changes": [change.as_json() for change in changes],
        "standing": [fact.id for fact in standing],
        "sources": sources,
        "written_by": draft.written_by,
        "is_extractive": draft.is_extractive,
        "is_quiet": is_quiet,
        "quiet": quiet.nothing_new(work, memory, len(pages)) if is_quiet else "",
        "heading": heading(work, memory) if memory else "",
        "since": delta.since_line(memory.last_run_at, memory.run_count) if memory else "",
    }


def _source(
    number: int, page: Reading, states: dict[str, str], earlier: Collection[int]
) -> dict[str, Any]:
    return {
        "n": number,
        "url": page.url,
        "link": page.url,
        "title": shorten(page.title or page.url, 300),
        "domain": page.domain,
        "published_at": page.published_at.isoformat() if page.published_at else None,
        "state": states.get(page.url, "new"),
        **({"is_earlier": True} if page.number in earlier else {}),
        "quotes": [],
    }
