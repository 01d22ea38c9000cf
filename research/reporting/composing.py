"""Putting a draft together: held against what is known, laid out, and numbered to one list.

Data flow: Draft (citing 1..k) -> changes against the facts, which cite the sources that they came
from as k+1 and following -> summary and body of an extractive report -> the step's output, every
citation renumbered to the sources that are shown (R48).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db.models import Max
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.providers import sample
from memory.models import Source, TopicFact
from memory.texts.text import ended, match_key, shorten, without_citations
from memory.topics.memory import KnownFact, TopicMemory
from research.claims.selection import Reading
from research.comparing.matching import match
from research.deltas import delta, told
from research.deltas.delta import Change, SecondOpinion, Statement, Status
from research.deltas.rereading import Outcome
from research.models import Schedule
from research.reporting import quiet, report_text, styles
from research.reporting.known_sources import KnownSources
from research.working.context import RunContext

# A search finds a page some days after it was published.
PUBLISHED_LATE = timedelta(days=2)
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
    is_in_passing: bool = False  # no page is about the topic, though some mention it


def heading(work: RunContext, memory: TopicMemory | None) -> str:
    """Return the heading of the delta section, by the schedule of when the run was taken up."""
    schedule: Schedule | None = getattr(work.topic, "schedule", None)
    return delta.heading(schedule, memory.run_count if memory else 0)


def compose(
    work: RunContext,
    memory: TopicMemory | None,
    pages: list[Reading],
    draft: Draft,
    second: SecondOpinion | None = None,
    again: Outcome | None = None,
) -> dict[str, Any]:
    """Compare a draft with what is known; `second` is asked about what the comparison is unsure of.

    `again` is what reading known pages again brought.
    """
    again = again or Outcome()
    facts = list(memory.facts) if memory else []
    struck = list(memory.struck) if memory else []
    found = [*draft.findings, *draft.more] if memory else draft.findings
    background = _background(work, memory, pages, draft)
    changes, dropped = delta.compare(
        told.with_pages(found, pages),
        facts,
        retired=_timeline(work, found) if memory else [],
        struck=struck,
        topic=work.topic.title,
        checked=memory.last_run_at.date() if memory and memory.last_run_at else None,
        embed=told.local_vectors() if facts else None,
        second=second,
    )
    # What goes into the body as further context is no item of the delta, but may confirm a fact.
    beside = {match_key(statement.sentence) for statement in [*draft.more, *background]}
    changes = [c for c in changes if c.status != Status.NEW or match_key(c.sentence) not in beside]
    changes = delta.in_order(_joined(again.changes, changes))
    is_quiet = memory is not None and not any(change.is_listed for change in changes)
    standing = _standing(changes, facts) if memory else []
    known = KnownSources.of(work, facts, pages, changes)
    for change in changes:
        if change.status == Status.GONE_QUIET:
            change.citations = known.numbers_of(change.previous_id)
    checked = [quiet.what_was_checked(again, standing)] if memory and not is_quiet else []
    if draft.is_extractive:
        _lay_out(work, memory, pages, draft, changes, standing, known, background, again, checked)
    else:
        draft.body = styles.framed(work, draft.body, checked)
    for said in quiet.not_told(again):
        work.run.warn(said)
    if dropped:
        work.run.warn(
            ngettext(
                "%(count)d finding repeats what you struck and was dropped",
                "%(count)d findings repeat what you struck and were dropped",
                dropped,
            )
            % {"count": dropped}
        )
    quiet_text = quiet.nothing_new(work, memory, pages, again) if is_quiet else ""
    return _numbered(work, memory, pages, draft, changes, standing, known, quiet_text)


def _joined(again: Sequence[Change], found: Sequence[Change]) -> list[Change]:
    """Join what known pages say of facts with what new pages say of the same ones.

    A fact's own page goes first.  Another page that confirms it is cited beside it; one that says
    something else makes the change unsure, so that both stay until a person decides.
    """
    own = {change.previous_id: change for change in again if change.previous_id}
    joined = list(again)
    for change in found:
        settled = own.get(change.previous_id) if change.previous_id else None
        if settled is None:
            joined.append(change)
        elif change.status == Status.CONFIRMED or _says(change.sentence, settled.sentence):
            settled.citations += [n for n in change.citations if n not in settled.citations]
        else:
            change.unsure = change.unsure or change.status == Status.CHANGED
            joined.append(change)
            if settled.status == Status.CONFIRMED and settled in joined:
                joined.remove(settled)
    return joined


def _says(sentence: str, other: str) -> bool:
    found = match(sentence, [other])
    return found is not None and found.kind == "confirmed"


def _timeline(work: RunContext, found: Iterable[Statement]) -> list[KnownFact]:
    """Return the facts retired last, and older ones that a finding repeats word for word."""
    of_topic = TopicFact.objects.filter(topic=work.topic).retired()
    latest = list(of_topic[:TIMELINE])
    said = of_topic.filter(key__in={match_key(statement.sentence) for statement in found})
    retired = {fact.pk: fact for fact in [*latest, *said]}.values()
    return [KnownFact(str(fact.pk), fact.text, fact.url, fact.source_title) for fact in retired]


def _standing(changes: Iterable[Change], facts: Sequence[KnownFact]) -> list[KnownFact]:
    """Return the facts that stay: all but those that were replaced, or are gone from their page."""
    changes = list(changes)
    replaced = {c.replaces for c in changes}
    gone = {c.previous_id for c in changes if c.status == Status.GONE}
    return [f for f in facts if f.id not in replaced and (f.is_kept or f.id not in gone)]


def _lay_out(
    work: RunContext,
    memory: TopicMemory | None,
    pages: list[Reading],
    draft: Draft,
    changes: list[Change],
    standing: Sequence[KnownFact],
    known: KnownSources,
    background: Sequence[Statement],
    again: Outcome,
    checked: Sequence[str],
) -> None:
    """Set summary and body of an extractive report; `checked` says which known pages were read again."""
    known_keys = {match_key(c.sentence) for c in changes if c.status == Status.CONFIRMED}
    listed = {match_key(c.sentence) for c in changes if c.is_listed}
    # What the section above calls superseded is not told below it as it were still so.
    old = [c.previous_text for c in changes if c.replaces]
    old_matter = {match_key(s.sentence) for s in background}
    fresh = [
        s
        for s in draft.findings
        if match_key(s.sentence) not in known_keys | old_matter
        and not _is_superseded(s.sentence, old, listed)
    ]
    more = [
        s
        for s in draft.more
        if match_key(s.sentence) not in known_keys | listed | old_matter
        and not _is_superseded(s.sentence, old, listed)
    ]
    news = [_cite(_as_told(change)) for change in again.changes if change.is_listed]
    # A fact that is listed above as what was said before isn't repeated as known.
    above = {c.previous_id for c in changes if c.is_listed}
    draft.summary = _summary(work, memory, pages, [*fresh, *more], standing, news, again)
    parts = styles.Parts(
        summary=draft.summary,
        fresh=[_cite(statement) for statement in fresh],
        more=[_cite(statement) for statement in more],
        known=[
            known.line(fact)
            for fact in standing
            if fact.id not in above and not _is_superseded(fact.text, old, listed)
        ],
        background=[_cite(statement) for statement in background],
        is_baseline=memory is None,
        is_in_passing=draft.is_in_passing,
    )
    label = _("Extractive: every sentence is taken from its source, written without a model.")
    body = styles.laid_out(work.settings.report_style, parts)
    draft.body = styles.framed(work, body, [*checked, *([label] if fresh or more else [])])


def _is_superseded(sentence: str, old: Sequence[str], listed: Collection[str]) -> bool:
    """Whether a sentence says what one of the `old` says; what is listed as news does not."""
    if not old or match_key(sentence) in listed:
        return False
    found = match(without_citations(sentence), old)
    return found is not None and found.kind == "confirmed"


def _background(
    work: RunContext, memory: TopicMemory | None, pages: list[Reading], draft: Draft
) -> list[Statement]:
    """Return the findings whose page was published before the last run: known late, but not new."""
    if memory is None or memory.last_run_at is None:
        return []
    horizon = timezone.localtime(memory.last_run_at).date() - PUBLISHED_LATE
    if work.settings.services == [sample.SERVICE]:
        newest = Source.objects.filter(topic=work.topic).aggregate(last=Max("published_at"))["last"]
        horizon = min(horizon, newest - PUBLISHED_LATE) if newest else horizon
    old = {page.number for page in pages if page.published_at and page.published_at < horizon}
    found = [*draft.findings, *draft.more]
    return [s for s in found if s.citations and all(n in old for n in s.citations)]


def _summary(
    work: RunContext,
    memory: TopicMemory | None,
    pages: list[Reading],
    found: Sequence[Statement],
    standing: Sequence[KnownFact],
    news: Sequence[str],
    again: Outcome,
) -> str:
    if news or found:
        return " ".join([*news, *(_cite(statement) for statement in found)][:2])
    if memory is None:
        return quiet.nothing_found(work, len(pages))
    return quiet.what_was_checked(again, standing)


def _as_told(change: Change) -> Statement:
    """Return a change as a sentence of the summary: what is gone says so, and a record ends in a full stop."""
    said = change.sentence
    if change.status == Status.GONE:
        said = _("No longer on its page: %(sentence)s") % {"sentence": said}
    return Statement(ended(said), tuple(change.citations))


def _cite(statement: Statement) -> str:
    return f"{statement.sentence} {_marks(statement.citations)}"


def _marks(numbers: Iterable[int]) -> str:
    return "".join(f"[{n}]" for n in numbers)


def _numbered(
    work: RunContext,
    memory: TopicMemory | None,
    pages: list[Reading],
    draft: Draft,
    changes: list[Change],
    standing: Sequence[KnownFact],
    known: KnownSources,
    quiet_text: str,
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
        "is_quiet": bool(quiet_text),
        "quiet": quiet_text,
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
