"""Step 6: writing the report from the new pages and what is known.

Data flow: readings, numbered 1..k -> a Draft by the model or by the extractive engine, citing those
numbers -> compared with what was known -> `Written`: body, delta items and the source list, all
renumbered to one list in the order in which they are cited (R48).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext as _
from pydantic import BaseModel, Field

from beacon_site.providers.errors import ProviderError, ProviderNonsense
from beacon_site.providers.llm import Message
from memory import connections, injection
from memory.asking import BudgetReached, ask_model
from memory.models import TopicFact
from memory.text import match_key, one_line, shorten, without_citations
from memory.topic_memory import KnownFact, TopicMemory
from research import delta, extractive, facets, planning, reading, report_text
from research.delta import Change, Statement, Status
from research.extractive import Reading
from research.models import Schedule
from research.sentences import split_sentences
from research.stepping import StepResult, Work

MOST_FINDINGS = 10
MORE_FINDINGS = 6
ANSWER_TOKENS = 4000
PAGE_CHARACTERS = 6000  # of one page in a prompt
LEAST_PROSE = 120  # characters from which a model's plain answer is taken for a report
TIMELINE = 300  # retired facts that a finding is held against


class WrittenFinding(BaseModel):
    """One finding as the model gives it."""

    sentence: str
    citations: list[int] = Field(default_factory=list)
    quote: str = ""


class WrittenReport(BaseModel):
    """The model's report."""

    summary: str = ""
    body: str = Field(min_length=1)
    findings: list[WrittenFinding] = Field(default_factory=list)


@dataclass(slots=True)
class Draft:
    """A report before it is held against what is known; citations are the readings' numbers."""

    summary: str
    body: str
    findings: list[Statement]
    more: list[Statement] = field(default_factory=list)
    written_by: str = ""
    is_extractive: bool = False


def write(work: Work) -> StepResult:
    """Write the report and its delta items from what was read (R38 to R42)."""
    memory = planning.known(work)
    # The list is numbered 1..k here, once, for prompt, draft and citations alike.
    pages = [replace(page, number=n) for n, page in enumerate(reading.readings(work), start=1)]
    warning = ""
    draft = None
    try:
        if pages and not _spent(work):
            draft = _by_model(work, memory, pages)
    except BudgetReached as exc:
        work.stop(_("stopped early: %(why)s") % {"why": exc})
    except ProviderError as exc:
        warning = _("written without the model, which failed: %(why)s") % {"why": exc}
        work.run.warn(warning)
    draft = draft or _extractive(work, memory, pages)
    output = _compose(work, memory, pages, draft)
    output["fell_back"] = bool(warning)
    output["phrases"] = facets.phrases(pages, work.topic.title, [])[:6]
    return StepResult(
        output,
        detail=_("%(findings)d findings, %(listed)d changes, by %(by)s")
        % {
            "findings": len(draft.findings),
            "listed": sum(1 for c in output["changes"] if c["status"] in _LISTED),
            "by": draft.written_by,
        },
        counts={"findings": len(draft.findings), "sources": len(output["sources"])},
        warning=warning,
    )


_LISTED = {Status.NEW.value, Status.CHANGED.value, Status.CONTRADICTED.value}


def _spent(work: Work) -> bool:
    """Whether the budget that stopped the run forbids the model's report too."""
    try:
        work.meter.check()
    except BudgetReached:
        return True
    return False


# --- with a model ------------------------------------------------------------------------------------


def _by_model(work: Work, memory: TopicMemory | None, pages: list[Reading]) -> Draft | None:
    """Let the model write; None if none is set up.  Plain prose is taken for a report too."""
    try:
        answer = ask_model(
            "write",
            _messages(work, memory, pages),
            owner=work.topic.owner,
            source=work.run.source,
            schema=WrittenReport,
            max_tokens=ANSWER_TOKENS,
            meter=work.meter,
            wait_for=work.wait_for,
        )
    except ProviderNonsense as exc:
        if not _is_prose(exc.text):
            raise
        name = connections.language_model()
        return _drafted(
            work, WrittenReport(body=exc.text), name.profile.model if name else "", pages
        )
    if answer is None or not isinstance(answer.parsed, WrittenReport):
        return None
    return _drafted(work, answer.parsed, answer.model, pages)


def _is_prose(text: str) -> bool:
    bare = text.strip()
    return len(bare) >= LEAST_PROSE and bare[0] not in "{[<`" and "[1]" in bare


def _messages(work: Work, memory: TopicMemory | None, pages: list[Reading]) -> list[Message]:
    settings = work.settings
    model = connections.language_model()
    room = (model.profile.context_tokens if model else 32_768) * 2 // max(1, len(pages))
    share = min(PAGE_CHARACTERS, room)
    context: dict[str, Any] = {
        "most": MOST_FINDINGS,
        "languages": ", ".join(settings.languages),
        "memory": memory.as_prompt() if memory else "",
        "since": f"{memory.last_run_at:%Y-%m-%d}" if memory and memory.last_run_at else "",
        "heading": _heading(work, memory),
        "observations": [],
        "topic": work.topic.title,
        "objective": settings.objective,
        "focus": settings.focus,
        "today": timezone.localdate().isoformat(),
        "pages": [replace(page, text=_harmless(page.text, share)) for page in pages],
    }
    return [
        Message("system", render_to_string("prompts/write_system.txt", context)),
        Message("user", render_to_string("prompts/write_user.txt", context)),
    ]


def _harmless(text: str, most: int) -> str:
    """Return the beginning of a page without the sentences that give orders, and without marks."""
    text = text.replace("<<<", "‹‹‹").replace(">>>", "›››")[: most * 2]
    if injection.smells_of_instructions(text):
        kept = [s for s in split_sentences(text) if not injection.smells_of_instructions(s)]
        text = " ".join(kept)
    return text[:most]


def _drafted(work: Work, report: WrittenReport, model: str, pages: list[Reading]) -> Draft:
    body = report_text.tidy_body(
        report.body, title=work.topic.title, delta_heading=_heading(work, planning.known(work))
    )
    body = report_text.spread_citations(body)
    summary = report_text.spread_citations(report_text.first_paragraph(report.summary))
    summary = summary or report_text.first_paragraph(body)
    if match_key(summary)[:80] not in match_key(body):
        body = f"{summary}\n\n{body}"
    findings = [
        Statement(one_line(f.sentence), tuple(f.citations), f.quote)
        for f in report.findings
        if one_line(f.sentence)
    ]
    if not findings:
        findings = [
            Statement(text, tuple(report_text.cited([text])), "")
            for text in report_text.bullets(body) or _cited_sentences(body)
        ]
    numbers = {page.number for page in pages}
    kept = [
        Statement(
            without_citations(report_text.spread_citations(s.sentence)),
            tuple(n for n in s.citations if n in numbers),
            s.quote,
        )
        for s in findings[:MOST_FINDINGS]
    ]
    return Draft(summary, body, kept, written_by=model)


def _cited_sentences(body: str) -> list[str]:
    """Return the sentences that cite something: the findings of a report without bullets."""
    return [s for s in split_sentences(body) if report_text.cited([s])]


# --- without a model ---------------------------------------------------------------------------------


def _extractive(work: Work, memory: TopicMemory | None, pages: list[Reading]) -> Draft:
    """Write from sentences that stand in the pages, word for word."""
    struck = list(memory.struck) if memory else []
    found = extractive.find(
        pages,
        topic=work.topic.title,
        focus=f"{work.settings.focus} {work.settings.objective}".strip(),
        struck=struck,
        limit=MOST_FINDINGS + MORE_FINDINGS,
    )
    statements = [Statement(f.sentence, (f.reading,), f.quote) for f in found]
    return Draft(
        summary="",
        body="",
        findings=statements[:MOST_FINDINGS],
        more=statements[MOST_FINDINGS:],
        written_by="extractive",
        is_extractive=True,
    )


# --- putting it together -----------------------------------------------------------------------------


def _heading(work: Work, memory: TopicMemory | None) -> str:
    schedule = Schedule.objects.filter(topic=work.topic).first()
    return delta.heading(schedule, memory.run_count if memory else 0)


def _compose(
    work: Work, memory: TopicMemory | None, pages: list[Reading], draft: Draft
) -> dict[str, Any]:
    facts = list(memory.facts) if memory else []
    changes, dropped = delta.compare(
        [*draft.findings, *draft.more] if memory else draft.findings,
        facts,
        retired=_timeline(work) if memory else [],
        struck=list(memory.struck) if memory else [],
    )
    listed = [change for change in changes if change.is_listed]
    is_quiet = memory is not None and not listed
    standing = _standing(changes, facts) if memory else []
    if draft.is_extractive:
        _lay_out(work, memory, pages, draft, changes, standing)
    if dropped:
        work.run.warn(
            _("%(count)d findings repeat what you struck and were dropped") % {"count": dropped}
        )
    return _numbered(work, memory, pages, draft, changes, standing, is_quiet)


def _timeline(work: Work) -> list[KnownFact]:
    retired = TopicFact.objects.filter(topic=work.topic).retired()[:TIMELINE]
    return [KnownFact(str(fact.pk), fact.text, fact.url, fact.source_title) for fact in retired]


def _standing(changes: Iterable[Change], facts: Sequence[KnownFact]) -> list[KnownFact]:
    """Return the facts that go on standing: confirmed or not spoken of, and not replaced."""
    replaced = {c.previous_id for c in changes if c.status in (Status.CHANGED,)}
    return [fact for fact in facts if fact.id not in replaced]


def _lay_out(
    work: Work,
    memory: TopicMemory | None,
    pages: list[Reading],
    draft: Draft,
    changes: list[Change],
    standing: Sequence[KnownFact],
) -> None:
    """Set summary and body of an extractive report."""
    known_keys = {match_key(c.sentence) for c in changes if c.status == Status.CONFIRMED}
    fresh = [s for s in draft.findings if match_key(s.sentence) not in known_keys]
    more = [s for s in draft.more if match_key(s.sentence) not in known_keys]
    parts = []
    if memory is None and not fresh:
        draft.summary = _empty_summary(work, pages)
    elif not fresh and not more:
        draft.summary = _quiet_sentence(work, memory, len(pages))
    else:
        draft.summary = " ".join(_cite(s) for s in (fresh or more)[:2])
    parts.append(draft.summary)
    if memory is None and fresh:
        parts += ["## " + _("Findings"), _list(fresh)]
    elif more:
        parts += ["## " + _("More from the new sources"), _list(more)]
    if standing:
        parts += ["## " + _("Known before"), "\n".join(f"- {fact.text}" for fact in standing)]
    if fresh or more:
        label = _("Extractive: every sentence is taken from its source, written without a model.")
        parts.append(f"*{label}*")
    draft.body = "\n\n".join(parts)


def _cite(statement: Statement) -> str:
    return statement.sentence + " " + "".join(f"[{n}]" for n in statement.citations)


def _list(statements: Iterable[Statement]) -> str:
    return "\n".join(f"- {_cite(statement)}" for statement in statements)


def _empty_summary(work: Work, pages: list[Reading]) -> str:
    if pages:
        return _(
            "%(count)d pages were read, but none of them says anything clear about “%(topic)s”."
        ) % {
            "count": len(pages),
            "topic": work.topic.title,
        }
    return _("The searches found nothing about “%(topic)s”.") % {"topic": work.topic.title}


def _quiet_sentence(work: Work, memory: TopicMemory | None, read: int) -> str:
    """Return the plain sentence for a run that found nothing new (R42)."""
    counts = work.output("filter_seen")
    since = delta.since_line(memory.last_run_at, memory.run_count) if memory else ""
    if read:
        return _(
            "Nothing new %(since)s: %(read)d new sources were read and say what was known already; "
            "%(known)d more were known."
        ) % {"since": since, "read": read, "known": counts["known"]}
    return _("Nothing new %(since)s: %(known)d sources came up, all of them known.") % {
        "since": since,
        "known": counts["known"],
    }


def _numbered(
    work: Work,
    memory: TopicMemory | None,
    pages: list[Reading],
    draft: Draft,
    changes: list[Change],
    standing: Sequence[KnownFact],
    is_quiet: bool,
) -> dict[str, Any]:
    """Return the step's output with every citation renumbered to the one list that is shown."""
    by_number = {page.number: page for page in pages}
    listed = [n for change in changes if change.is_listed for n in change.citations]
    rest = [n for change in changes if not change.is_listed for n in change.citations]
    order = dict.fromkeys([*listed, *report_text.cited([draft.body]), *rest])
    order.update(dict.fromkeys(n for s in draft.findings for n in s.citations))
    numbers = {old: new for new, old in enumerate((n for n in order if n in by_number), start=1)}
    for change in changes:
        change.citations = [numbers[n] for n in change.citations if n in numbers]
    states = dict(work.run.hits.values_list("link", "state"))
    sources = [_source(numbers[old], by_number[old], states) for old in numbers]
    findings = [
        {
            "sentence": statement.sentence,
            "citations": [numbers[n] for n in statement.citations if n in numbers],
            "quote": statement.quote,
        }
        for statement in [*draft.findings, *draft.more]
    ]
    quiet = _quiet_sentence(work, memory, len(pages)) if is_quiet else ""
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
        "quiet": quiet,
        "heading": _heading(work, memory) if memory else "",
        "since": delta.since_line(memory.last_run_at, memory.run_count) if memory else "",
    }


def _source(number: int, page: Reading, states: dict[str, str]) -> dict[str, Any]:
    return {
        "n": number,
        "url": page.url,
        "link": page.url,
        "title": shorten(page.title or page.url, 300),
        "domain": page.domain,
        "published_at": page.published_at.isoformat() if page.published_at else None,
        "state": states.get(page.url, "new"),
        "quotes": [],
    }
