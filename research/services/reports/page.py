"""The page of a saved run: report, changes, sources, memory and trace.

Data flow: run with report -> delta items, steps, hits, revisions and facts, each read once -> plain
rows in page order. The number of queries doesn't depend on the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import unescape
from typing import Any, NamedTuple, TypedDict

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import F, OuterRef, Prefetch, Q
from django.db.models.functions import JSONObject
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.functional import Promise
from django.utils.html import format_html, strip_tags
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.providers.search.base import CATALOGUE
from beacon_site.text.markdown import by_direction, link_citations, render
from beacon_site.text.messages import grouped
from memory.agents import reflection
from memory.models import Topic
from research.models import CorrectedFact, Correction, DeltaItem, Hit, Report, Run, reports
from research.models.reports import source_lines
from research.models.runs import RunQuerySet
from research.services.reports.delta_rows import (
    DeltaRow,
    Quote,
    SourceRow,
    changed_of,
    watched_parts,
)
from research.services.runs import page, presenters
from research.services.runs.context import applied_rules
from research.services.runs.presenters import manifest_rows
from research.services.runs.reporting import report_text
from research.services.runs.reporting import sentences as report_sentences
from research.services.runs.reporting.sentences import (
    ReportSentence,
    SentenceNotes,
    describe_sources,
    notes_of,
    sentences_of,
)
from research.services.runs.search import searching

MIN_HEADINGS = 5  # with fewer headings, there is no table of contents
_HEADING = re.compile(r"<h2>(.*?)</h2>", re.DOTALL)
_MARK = "\ue0f0"  # of private use, so it's in no word
_SOURCES_HERE = re.compile(rf"<p[^>]*>{_MARK}</p>\n?")
# Keep a citation on the same line as the word before it.
_SAID = re.compile(r'data-s="(\w+)"')
_BEFORE_MARK = re.compile(r'[ \n]+((?:</span>)?<sup>)(?=<a href="#source-)')


def article(
    run: Run,
    items: Sequence[DeltaItem] | None = None,
    reader: str = report_sentences.OWNER,
) -> dict[str, Any]:
    """Return the context of the report itself for `reader`, used by every page that shows it.

    Makes two queries: one for delta items unless given, and one for remarks on its sentences.
    """
    report: Report = run.report
    sentence_notes = report_sentences.notes_of(report, reader)
    sources = sources_of(report)
    told = DeltaItem.objects.filter(run=run).select_related("conflict") if items is None else items
    changed = changed_of(list(told), sources)
    sentence_notes.add_delta_sentences(changed.listed)
    body = body_of(report, sentence_notes)
    return {
        "run": run,
        "topic": run.topic,
        "warnings": list(map(presenters.begun, run.warnings)),
        "report": report,
        "sources": sources,
        "changed": changed,
        "quiet_text": render(report.delta) if report.delta and not changed.listed else "",
        "body": body.html,
        "body_rest": body.rest,
        "contents": _contents(report, body, sources),
        "written_by": presenters.written_by(report),
        "said": sentence_notes,
    }


def article_for_others(run: Run) -> dict[str, Any]:
    """Return the context of the report for a reader who doesn't own it.

    It leaves out everything about the owner's memory and setup: facts that were confirmed, went
    quiet or were withheld, warnings, costs, the author, and the owner's documents. The body is as it
    was written: a report template can add some of these.
    """
    found = _with_lead(article(run, reader=report_sentences.STRANGER))
    if found["changed"].unasked and found["quiet_text"]:
        # The number of withheld changes is private.
        found["quiet_text"] = _("Nothing new to report.")
    shown = ("report", "quiet_text", "lead", "body", "body_rest", "contents")
    return {name: found[name] for name in shown} | {
        "run": run,
        "listed": [row_for_others(row) for row in found["changed"].listed],
        "sources": [source_for_others(source) for source in found["sources"]],
    }


def row_for_others(row: DeltaRow) -> DeltaRow:
    """Return the change without links to the owner's pages."""
    stands = {name: getattr(row, name) for name in ("source", "previous")}
    return replace(row, **{n: stand and stand.for_strangers() for n, stand in stands.items()})


def source_for_others(source: SourceRow) -> SourceRow:
    """Return the source; a document in the owner's library without its link and quotes.

    It doesn't say that a document in the owner's library has the same text.
    """
    if source.derived_from and reports.link_of(source.derived_from["link"]).is_ours:
        source = replace(source, derived_from={})
    repeated_by = [kin for kin in source.repeated_by if not reports.link_of(kin["link"]).is_ours]
    source = replace(source, repeated_by=repeated_by)
    if not source.link.is_ours:
        return source
    return replace(source, link=replace(source.link, url="", note=""), address="", quotes=[])


def context(run: Run, *, in_full: bool = False) -> dict[str, Any]:
    """Return the context of a saved run's page. Load the run by `with_neighbours`.

    If a state has many hits, only the first are shown, unless `in_full` is set.

    It takes eight queries, one more for a deep run, one more if a reflection changed something, and
    two more if the topic watches parts of pages.
    """
    found = _with_lead(article(run))
    steps = list(run.steps.defer("output").annotate(asked=F("output__asked")))
    found_hits = list(run.hits.defer("snippet"))
    hits = presenters.hit_groups(found_hits, in_full=in_full)
    return found | {
        "steps": presenters.step_rows(
            run, [s for s in steps if not s.is_follow_up], page.by_track(run)
        ),
        "follow_ups": presenters.step_rows(run, follow) if (follow := _follow_ups(steps)) else [],
        "counts": {step.name: step.counts for step in steps if not step.part},
        "hits": hits,
        "obeyed": applied_rules.obeyed(run, found_hits, run.manifest.get("queries")),
        "parts": watched_parts(run, found_hits),
        "hit_count": sum(group["count"] for group in hits),
        "found": presenters.found_counts(found_hits),
        "read_count": sum(hit.reading == Hit.Reading.READ for hit in found_hits),
        "read_again": sum(
            hit.reading == Hit.Reading.READ and hit.state in (Hit.State.KNOWN, Hit.State.RETURNING)
            for hit in found_hits
        ),
        "non_web_services": [] if found_hits else non_web_services(steps),
        "memory": presenters.of_run(run, found["changed"].items),
        "reflection": reflection.shown_of(run.topic.owner, run.source),
        "memory_words": presenters.memory_words(run.topic),
        "manifest": manifest_rows(run),
        "took": presenters.took(run),
        "cost": presenters.cost(run),
        "tokens": grouped(run.tokens),
        "started_by": presenters.started_by(run),
        "previous": _neighbour(run, -1),
        "next": _neighbour(run, 1),
    }


def _with_lead(found: dict[str, Any]) -> dict[str, Any]:
    """Return the context with the body's first paragraph as `lead`, which pages show above the changes.

    A report written without a model begins with its first changes, so it has no such summary.
    """
    report, body = found["report"], found["body"]
    first, end, rest = body.partition("</p>")
    if not report.delta or report.places_changes or report.is_extractive:
        return found | {"lead": ""}
    if not end or not re.match("<p[ >]", first):
        return found | {"lead": ""}
    # Safe HTML was cut after a paragraph.
    return found | {"lead": mark_safe(first + end), "body": mark_safe(rest.lstrip())}  # noqa: S308  (see above)  # nosec B308, B703


def _follow_ups(steps: Iterable[Any]) -> list[Any]:
    return [step for step in steps if step.is_follow_up]


def non_web_services(steps: Iterable[Any]) -> list[str]:
    """Return the names of the services that a run asked, if none of them searches the whole web.

    Web search services need a key or a URL. The sample's service is chosen on purpose, so
    it doesn't count.
    """
    searches = [step for step in steps if step.name == "search"]
    asked = {entry["service"] for step in searches[:1] for entry in step.asked or []}
    at_large = {service.name for service in CATALOGUE if service.needs} | {"sample"}
    return [] if asked & at_large else [searching.label_of(name) for name in sorted(asked)]


def _neighbour(run: Any, step: int) -> dict[str, Any] | None:
    """Return the run before (-1) or after (1) it, if any."""
    found = next((other for other in run.beside if other["number"] == run.number + step), None)
    return found and found | {"finished_at": parse_datetime(found["finished_at"] or "")}


def with_neighbours(runs: RunQuerySet) -> RunQuerySet:
    """Add the previous and next run to each run as `beside`: `{pk, number, finished_at}`."""
    near = Q(number=OuterRef("number") - 1) | Q(number=OuterRef("number") + 1)
    others = Run.objects.kept().filter(near, topic=OuterRef("topic")).order_by("number")
    fields = JSONObject(pk="pk", number="number", finished_at="finished_at")
    found: RunQuerySet = runs.annotate(beside=ArraySubquery(others.values(told=fields)))
    return found


# --- sources and the body ---


def sources_of(report: Report) -> list[SourceRow]:
    """Return the numbered sources as cited, each with its quotes (R48)."""
    return source_rows(report.sources)


def source_rows(sources: Iterable[Any]) -> list[SourceRow]:
    return [
        SourceRow(
            n=stored["n"],
            title=stored.get("title") or stored.get("link", ""),
            domain=stored.get("domain", ""),
            link=reports.link_of(stored.get("link", "")),
            address=stored.get("link", ""),
            state=stored.get("state", "new"),
            published_at=parse_date(stored.get("published_at") or ""),
            quotes=list(map(_quote, stored.get("quotes", []))),
            trust=stored.get("trust", ""),
            derived_from=stored.get("derived_from") or {},
            repeated_by=stored.get("repeated_by") or [],
        )
        for stored in sources
    ]


def _quote(stored: dict[str, Any]) -> Quote:
    return Quote(
        sentence=stored.get("sentence", ""),
        quote=stored.get("quote", ""),
        found=bool(stored.get("found")),
        in_snippet=bool(stored.get("in_snippet")),
        key=report_text.sentence_key(stored.get("sentence", "")),
        before=stored.get("before", ""),
        after=stored.get("after", ""),
        checked_at=parse_datetime(stored.get("checked_at") or ""),
    )


class Body(NamedTuple):
    """A report's body as safe HTML, and its sections (id, title).

    If its template places the sources, `html` is what comes before them and `rest` what follows.
    """

    html: SafeString
    rest: SafeString | None
    headings: list[tuple[str, str]]


def body_of(report: Report, sentence_notes: SentenceNotes | None = None) -> Body:
    """Return the body with linked citations, without the list of sources.

    With `sentence_notes`, each sentence gets a span, followed by its checks and remarks.
    """
    html = render(_without_sources(report))
    if "<h2>" not in html:
        # The body's headings begin at ##. The page shows them at the level of "what changed".
        html = mark_safe(re.sub(r"<(/?)h([3-6])>", _raised, html))  # noqa: S308  (of safe HTML)  # nosec B308, B703
    linked = link_citations(html, [source["n"] for source in report.sources])
    if sentence_notes is not None:
        linked = report_sentences.wrapped(linked, sentence_notes.tags)
    headings: list[tuple[str, str]] = []

    def numbered(match: re.Match[str]) -> str:
        key = f"section-{len(headings) + 1}"
        headings.append((key, unescape(strip_tags(re.sub(r"<sup>.*?</sup>", "", match[1])))))
        return f'<h2 id="{key}">{match[1]}</h2>'

    text = _HEADING.sub(numbered, _BEFORE_MARK.sub(r"\1", linked))
    # Only our own ids and links were added to the safe HTML.
    safe = mark_safe(text)  # noqa: S308  (see above)  # nosec B308, B703
    before, *after = _SOURCES_HERE.split(_with_unsupported(by_direction(safe), report), maxsplit=1)
    # A paragraph of its own was cut out of safe HTML.
    parts = [mark_safe(part) for part in (before, *after)]  # noqa: S308  (see above)  # nosec B308, B703
    return Body(parts[0], parts[1] if after else None, headings)


def _without_sources(report: Report) -> str:
    """Return the body in Markdown, with a mark where a template placed the list of sources.

    Pages and files show that list with links, quotes and targets of citations.
    """
    body = str(report.body).replace(_MARK, "")
    if not report.places_sources or not report.sources:
        return body
    return body.replace(source_lines(report.sources), f"{_MARK}\n", 1)


def _raised(match: re.Match[str]) -> str:
    return f"<{match[1]}h{int(match[2]) - 1}>"


def unsupported_tag(check: Mapping[str, Any]) -> SafeString:
    """Return the tag after an unsupported sentence, with the reason."""
    form = '<span class="tag warn" dir="auto" title="{}">! {}</span>'
    return format_html(form, WHY.get(check.get("why", ""), ""), _("unsupported"))


def _with_unsupported(html: str, report: Report) -> SafeString:
    """Show `verify`'s mark as a tag, so it looks like a warning."""
    mark = format_html("<em>{}</em>", _("(unsupported)"))
    checks = {check["key"]: check for check in report.checks}
    parts: list[str] = []
    key = ""  # of the last sentence
    for part in html.split(mark):
        parts += [unsupported_tag(checks.get(key, {})), part] if parts else [part]
        key = (_SAID.findall(part) or [key])[-1]
    # `render` returned safe HTML. Since then, only ids, directions and these tags were added.
    return mark_safe("".join(parts))  # noqa: S308  (see above)  # nosec B308, B703


def _contents(report: Report, body: Body, sources: Sequence[SourceRow]) -> list[tuple[str, str]]:
    results = []
    if report.delta and not report.places_changes:
        results.append(("what-changed", report.delta_heading))
    results += body.headings
    if sources and body.rest is None:
        results.append(("sources", _("Sources")))
    return results if len(results) >= MIN_HEADINGS else []


# --- lists of sentences and corrections ---

MAX_CORRECTIONS = 200  # the newest of a topic

# Reasons why a sentence is unsupported, by the code that `verify` stored.
WHY = {
    "quote": gettext_lazy("The quote isn’t in the stored page."),
    "numbers": gettext_lazy("The sentence contains a number that isn’t in the cited pages."),
    "uncited": gettext_lazy("The sentence doesn’t cite a source."),
    "words": gettext_lazy("The cited pages don’t contain the words or numbers in this sentence."),
}


class SentenceRow(TypedDict):
    """A sentence with its evidence; `quote` proves it, a verified one if it has any."""

    sentence: ReportSentence
    sources: list[SourceRow]
    quote: Quote | None
    is_unsupported: bool
    why: str | Promise
    counted: str
    remarks: list[tuple[reports.Remark, str]]
    is_checked: bool
    is_corrected: bool


def sentence_rows(report: Report) -> list[SentenceRow]:
    """Return each sentence with its evidence and people's remarks, in two queries."""
    sentence_notes = notes_of(report)
    by_number = {source.n: source for source in sources_of(report)}
    rows: list[SentenceRow] = []
    for sentence in sentences_of(report):
        check = sentence_notes.checks.get(sentence.key, {})
        remarks = sentence_notes.remarks.get(sentence.key, [])
        sources = [by_number[n] for n in sentence.citations if n in by_number]
        quotes = [q for source in sources for q in source.quotes if q.key == sentence.key]
        rows.append(
            {
                "sentence": sentence,
                "sources": sources,
                "quote": next((one for one in quotes if one.found), quotes[0] if quotes else None),
                "is_unsupported": bool(check) and not check.get("supported"),
                "why": WHY.get(check.get("why", ""), ""),
                "counted": describe_sources(check),
                "remarks": [(remark, sentence_notes.words_of(remark)) for remark in remarks],
                "is_checked": any(one.kind == "checked" for one in remarks),
                "is_corrected": any(one.kind == "corrected" for one in remarks),
            }
        )
    return rows


def corrections_of(topic: Topic) -> list[Any]:
    """Return the topic's corrections with the facts they changed. Undone ones come last."""
    facts = Prefetch("facts", CorrectedFact.objects.select_related("fact"))
    rows = Correction.objects.filter(topic=topic).readable().select_related("report__run", "lesson")
    found = list(rows.prefetch_related(facts)[:MAX_CORRECTIONS])
    return sorted(found, key=lambda one: one.undone_at is not None)
