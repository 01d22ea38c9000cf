"""The page on which a topic is read: what changed in a selection of its runs, and what is still true.

Data flow: a selection of the topic's saved runs (`strip`) -> their delta items, merged into one
delta -> the facts as they were known after the selection -> lines with their sources, each numbered
once on the page. The number of queries is fixed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

from django.db.models import Count, Max, OuterRef, Q, Subquery
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.text.canonical_urls import domain_of
from beacon_site.text.cleaning import without_citations
from beacon_site.text.sentences import ends_like_a_sentence, language_of, split
from memory.models import Conflict, Note, Topic, TopicFact
from research.models import AffectedLine, CheckedSentence, Correction, DeltaItem, Report, Run
from research.models import reports as links
from research.services.facts import affected
from research.services.reports import delta_rows
from research.services.reports import page as report_page
from research.services.reports.delta_rows import DeltaRow, Quote, SourceRow, delta_row
from research.services.reports.page import source_rows
from research.services.reports.since_read import MAX_RUNS, add_facts, describe_counts
from research.services.reports.strip import Column, Strip, strip_of
from research.services.runs.reporting import report_text
from research.services.runs.reporting.merged_deltas import ORDER, Merged, merge
from research.services.runs.steps.verifying import unsupported_mark

Status = DeltaItem.Status
MAX_FACTS = 60  # of a topic; runs keep ten
MAX_NOTES = 60
MAX_AROUND = 60  # characters before and after a quote in the margin
LEAD = 2  # sentences
MAX_LEAD_LENGTH = 220  # characters of a change that can be a sentence of the lead

# --- lines ---


class Margin(NamedTuple):
    """The parts of a margin that are the same for many lines, so each is rendered once a page."""

    kind: SafeString | str = ""
    cited: SafeString | str = ""
    facts: SafeString | str = ""  # about the source and the quote


@dataclass(slots=True)
class Line:
    """One sentence of the page, a change or a known fact, with everything that its margin shows."""

    status: str
    key: str
    text: str
    html: SafeString | str
    marks: SafeString | str = ""
    row: DeltaRow | None = None  # of a change
    since: Column | None = None  # the run that found a known fact
    source: SourceRow | None = None
    origin: str = ""  # how many more sources it has, or that a person wrote it
    quote: Quote | None = None
    runs: Sequence[SafeString | str] = ()  # what runs said about it
    is_struck: bool = False
    history_url: str = ""
    correct_url: str = ""
    corrects_in_place: bool = False
    # what people added, and what it affects
    checked: CheckedSentence | None = None
    corrected: Correction | None = None
    notes: list[Note] = field(default_factory=list)
    affects: list[AffectedLine] = field(default_factory=list)
    margin: Margin = field(default_factory=Margin)

    @property
    def beside(self) -> DeltaRow | None:
        """Return the row, if its old and new sentence are shown side by side."""
        row = self.row
        return row if row and self.status == Status.CHANGED and row.is_beside else None

    @property
    def is_verified(self) -> bool:
        """Return True if the quote was found in the stored page."""
        return self.quote is not None and self.quote.is_verified

    @property
    def shows_quote(self) -> bool:
        """Whether the source's words differ from the sentence, so that they add something."""
        words = self.quote.quote if self.quote else ""
        return bool(words) and report_text.sentence_key(words) != self.key

    @property
    def waits(self) -> bool:
        """Return True if a person has to decide between the old and the new sentence."""
        row = self.row
        disputed = row is not None and (row.item.needs_review or self.status == Status.CONTRADICTED)
        return disputed and not (row and row.resolved)

    @property
    def copied(self) -> str:
        """Return the sentence with its source, to be copied."""
        source = self.source
        if source is None:
            return self.text
        parts = [source.title, source.domain, source.address if source.link.url else ""]
        if source.published_at:
            parts.insert(2, date_format(source.published_at, "j M Y"))
        return f"{self.text} ({', '.join(filter(None, dict.fromkeys(parts)))})"


class SourceBook:
    """The numbered sources of the page. A page that several reports cite has one number."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._numbers: dict[str, int] = {}
        self._rows: dict[int, SourceRow] = {}
        self._told: dict[int, dict[int, SourceRow]] = {}  # by run and the report's number
        self._numbered: dict[int, dict[int, SourceRow]] = {}

    def know(self, run_id: int, sources: Iterable[Any]) -> None:
        """Add a report's sources, without numbering them yet."""
        if run_id not in self._told:
            self._numbered[run_id] = {}
            self._told[run_id] = {row.n: row for row in source_rows(sources)}

    def _with_pages(self, run_id: int, row: SourceRow) -> list[Quote]:
        page = reverse("research:run-source", args=[self._topic.slug, run_id, row.n])
        return [
            replace(quote, page=f"{page}#quote-{place}")
            for place, quote in enumerate(row.quotes, start=1)
        ]

    def number_all(self, run_id: int) -> None:
        """Number a report's sources as the report does. It must come first."""
        for n in self._told.get(run_id, {}):
            self.cite(run_id, n)

    def cite(self, run_id: int, n: int) -> SourceRow | None:
        """Return a report's source with its number on the page."""
        source_row = self._told.get(run_id, {}).get(n)
        if source_row is None:
            return None
        row = self._numbered[run_id].get(n)
        if row is None:
            row = self._enter(replace(source_row, quotes=self._with_pages(run_id, source_row)))
            self._numbered[run_id][n] = row
        return row

    def by_number(self, run_id: int, numbers: Iterable[int]) -> dict[int, SourceRow]:
        """Return a report's sources by the report's numbers, with their numbers on the page."""
        found = ((n, self.cite(run_id, n)) for n in numbers)
        return {n: row for n, row in found if row is not None}

    def of_fact(self, fact: TopicFact, run_ids: Iterable[int]) -> SourceRow | None:
        """Return the source of a fact as one of these runs cited it, or as the fact says."""
        if not fact.url:
            return None
        for run_id in run_ids:
            for source_row in self._told.get(run_id, {}).values():
                if fact.url in (source_row.address, source_row.link.url):
                    return self.cite(run_id, source_row.n)
        return self._enter(_of_fact(fact))

    def _enter(self, source_row: SourceRow) -> SourceRow:
        n = self._numbers.setdefault(source_row.address, len(self._numbers) + 1)
        known = self._rows.get(n)
        if known is None:
            self._rows[n] = known = replace(
                source_row, n=n, derived_from=_without_number(source_row)
            )
        else:
            seen = {(quote.key, quote.quote) for quote in known.quotes}
            known.quotes.extend(q for q in source_row.quotes if (q.key, q.quote) not in seen)
        return known

    @property
    def rows(self) -> list[SourceRow]:
        return [self._rows[n] for n in sorted(self._rows)]


def _without_number(row: SourceRow) -> dict[str, Any]:
    """Return which page it repeats, without that page's number in its own report."""
    return {name: value for name, value in row.derived_from.items() if name != "n"}


def _of_fact(fact: TopicFact) -> SourceRow:
    quotes = []
    if fact.quote:
        quotes = [
            Quote(
                sentence=fact.text,
                quote=fact.quote,
                found=fact.support == TopicFact.Support.PAGE,
                in_snippet=fact.support == TopicFact.Support.SNIPPET,
                key=report_text.sentence_key(fact.text),
            )
        ]
    return SourceRow(
        n=0,
        title=fact.source_title or fact.url,
        domain=domain_of(fact.url),
        link=links.link_of(fact.url),
        address=fact.url,
        state="known",
        published_at=fact.published_at,
        quotes=quotes,
        trust=fact.trust,
    )


# --- the page ---


class Leading(NamedTuple):
    """A sentence of the lead."""

    text: str
    marks: SafeString | str = ""
    tag: SafeString | str = ""  # if it is unsupported


@dataclass(slots=True)
class Reading:
    """Everything the page shows."""

    strip: Strip
    lead: list[Leading] = field(default_factory=list)
    changed: list[Line] = field(default_factory=list)
    # facts that contradict each other, by their open conflict
    disputed: Mapping[Conflict, list[Line]] = field(default_factory=dict)
    still: list[Line] = field(default_factory=list)
    quiet: list[Line] = field(default_factory=list)
    sources: list[SourceRow] = field(default_factory=list)
    filtered_out: int = 0
    left_out: int = 0  # selected runs whose changes are too many to be merged
    counts: Mapping[str, int] = field(default_factory=dict)
    report: Report | None = None  # of the last selected run
    leading: Report | None = None  # whose summary leads
    full: dict[str, Any] | None = None  # the whole report, if a single run is selected
    last_changes: Column | None = None  # if the selection has none
    unsupported: int = 0  # sentences of the lead or of the whole report, which aren't lines

    @property
    def lines(self) -> list[Line]:
        """Return all sentences in reading order."""
        return [*self.changed, *chain(*self.disputed.values()), *self.still, *self.quiet]

    @property
    def is_first(self) -> bool:
        """Return True if only a first report is selected, so that nothing could change."""
        return all(one.is_baseline for one in self.strip.selected)

    @property
    def baselines(self) -> list[Column]:
        """Return the selected runs that started without memory, except the very first run."""
        return [one for one in self.strip.selected if one.is_baseline and one.number > 1]

    @property
    def counts_text(self) -> str:
        """Return the counts: `3 new facts, 2 changed`."""
        return describe_counts(self.counts, was_read=False) or _("nothing new")

    @property
    def verified(self) -> int:
        """Return how many sentences have a quote that was found in its page."""
        return sum(line.is_verified for line in self._quotable)

    @property
    def _quotable(self) -> list[Line]:
        """Return the lines that can have a quote. What is gone is no longer on its page."""
        return [line for line in self.lines if line.status != Status.GONE]

    @property
    def has_quotes(self) -> bool:
        return any(line.quote is not None for line in self.lines)

    @property
    def quotes_text(self) -> str:
        """Return how many sentences have a verified quote. Those that a person wrote have none.

        The page shows all runs selected and facts of earlier runs, so it has more sentences than
        one run's report.
        """
        total = len(self._quotable) + self.unsupported
        if self.verified == total:
            return _("every quote verified ✓")
        words = _("quotes verified in %(n)d of %(total)d sentences on this page")
        return words % {"n": self.verified, "total": total}


def of(
    topic: Topic, first: int | None = None, last: int | None = None, *, date: str = ""
) -> Reading | None:
    """Return the page for a selection of runs, or None if no run was saved.

    `date` is the end of the query that keeps the page's date. The number of queries is fixed, however many runs, facts and notes there are.
    """
    strip = strip_of(topic, first, last)
    if strip is None:
        return None
    page = Reading(strip)
    merged_runs = strip.selected[-MAX_RUNS:]
    page.left_out = len(strip.selected) - len(merged_runs)
    items = _items_of([one.pk for one in merged_runs])
    shown = [item for item in items if not item.hidden_reason]
    page.filtered_out = sum(bool(item.hidden_reason) and item.is_listed for item in items)
    merged = merge(shown)
    listed = [one for one in merged if one.is_listed]
    add_facts([one.shown for one in listed])
    page.counts = Counter(str(one.status) for one in listed)
    facts = _facts_of(topic, strip)
    book = _book_of(topic, page, listed, facts)
    runs = {column.pk: column for column in strip.columns}
    page.changed = [_changed(topic, one, book, runs) for one in listed]
    page.lead = _lead(page, book)
    _add_facts(topic, page, facts, merged, book)
    if strip.is_one and page.report is not None:
        page.full = _full(topic, page.report, items)
    page.sources = book.rows
    if not listed:
        columns = [
            column
            for column in strip.columns
            if column.changes and column.number < strip.first.number
        ]
        page.last_changes = columns[-1] if columns else None
    _add_remarks(topic, page.lines)
    page.lead = _corrected(page)
    page.unsupported = _count_unsupported(page)
    _add_affected(page, listed)
    _Margins(date).fill(page.lines)
    return page


def _items_of(runs: Sequence[int]) -> list[DeltaItem]:
    items = DeltaItem.objects.filter(run__in=runs).select_related("conflict")
    return list(items.order_by("run__number", "position"))


def _facts_of(topic: Topic, strip: Strip) -> list[Any]:
    """Return the facts as known after the selection, with how often they were confirmed."""
    last = strip.last
    confirmed = DeltaItem.objects.filter(
        previous_fact=OuterRef("pk"),
        status=Status.CONFIRMED,
        hidden_reason="",
        run__number__lte=last.number,
    ).order_by()
    times = confirmed.values("previous_fact").annotate(n=Count("pk"), at=Max("run__finished_at"))
    facts = TopicFact.objects.filter(topic=topic).live().exclude(state=TopicFact.State.STRUCK)
    if last is strip.columns[-1]:
        facts = facts.filter(state=TopicFact.State.CURRENT)
    else:
        facts = facts.filter(
            Q(first_run__lte=last.number) | Q(first_run=None, created__lte=last.at)
        ).filter(
            Q(retired_run=None, state=TopicFact.State.CURRENT) | Q(retired_run__gt=last.number)
        )
    facts = facts.annotate(times=Subquery(times.values("n")), last_at=Subquery(times.values("at")))
    return list(facts.order_by("position", "created")[:MAX_FACTS])


def _book_of(
    topic: Topic, page: Reading, listed: Sequence[Merged], facts: Sequence[Any]
) -> SourceBook:
    """Return the sources of all reports that the page cites, and load the last report."""
    strip, book = page.strip, SourceBook(topic)
    by_number = {column.number: column.pk for column in strip.columns}
    numbers = {one.shown.run_id for one in listed} | {strip.last.pk}
    numbers |= {
        by_number[number]
        for fact in facts
        for number in (fact.first_run, fact.confirmed_run)
        if number in by_number
    }
    numbers.add(_leading(strip).pk)
    reports = Report.objects.filter(run__in=numbers).select_related("owner").order_by("run__number")
    found = {report.run_id: report for report in reports}
    for run_id, report in found.items():
        book.know(run_id, report.sources)
    page.report = found.get(strip.last.pk)
    if strip.is_one:
        book.number_all(strip.last.pk)
    page.leading = found.get(_leading(strip).pk)
    return book


def _leading(strip: Strip) -> Column:
    """Return the run whose summary leads: the last selected one with changes."""
    columns = [one for one in strip.selected if one.changes]
    return columns[-1] if columns else strip.last


def _summary(report: Report, book: SourceBook) -> list[Leading]:
    """Return the first sentences of a report's summary with their citations and tags."""
    line = report.summary.replace(unsupported_mark(), "")
    bad = _unsupported(report)
    results: list[Leading] = []
    for sentence in split(line, language_of(line))[: LEAD + 1]:
        words = without_citations(report_text.spread_citations(sentence)).strip()
        numbers = report_text.cited([sentence])
        marks = _marks(book.by_number(report.run_id, numbers).values(), "")
        if words:
            check = bad.get(report_text.sentence_key(words))
            tag = report_page.unsupported_tag(check) if check else ""
            results.append(Leading(words, marks, tag))
        elif results and marks:  # a citation after the full stop belongs to the sentence before it
            results[-1] = results[-1]._replace(marks=results[-1].marks or marks)
    return results[:LEAD]


def _unsupported(report: Report) -> dict[str, dict[str, Any]]:
    """Return the checks that failed, by the keys of their sentences."""
    return {check["key"]: check for check in report.checks if not check["supported"]}


def _lead(page: Reading, book: SourceBook) -> list[Leading]:
    """Return two sentences that say the most.

    A model's summary does. One without a model only repeats the first changes, so the best lead,
    unless there are so few that the lead would be the same list.
    """
    report = page.leading
    if report is None:
        return []
    if not report.is_extractive or not page.changed:
        return _summary(report, book)
    if len(page.changed) <= LEAD:
        return []
    best = [line for line in page.changed if _can_lead(line)]
    best.sort(key=lambda line: line.status != Status.CHANGED)  # stable: then as listed
    chosen: list[Line] = []
    for line in best:
        # Two values of the same thing aren't two pieces of news.
        if len(chosen) < LEAD and not any(delta_rows.in_one(c.text, line.text) for c in chosen):
            chosen.append(line)
    return [Leading(line.text, line.marks) for line in chosen] or _summary(report, book)


def _corrected(page: Reading) -> list[Leading]:
    """Return the lead with what people corrected in it, and without what they marked as wrong."""
    fixes = {line.key: line.corrected for line in page.lines if line.corrected}
    results = []
    for one in page.lead:
        fix = fixes.get(report_text.sentence_key(one.text))
        if fix is None:
            results.append(one)
        elif fix.right:
            results.append(Leading(fix.right, one.marks))
    return results


def _count_unsupported(page: Reading) -> int:
    keys = {report_text.sentence_key(one.text) for one in page.lead if one.tag}
    if page.full is not None:
        keys |= set(_unsupported(page.full["report"]))
    return len(keys - {line.key for line in page.lines})


def _can_lead(line: Line) -> bool:
    is_prose = ends_like_a_sentence(line.text) and ": " not in line.text
    return is_prose and len(line.text) <= MAX_LEAD_LENGTH and line.status != Status.GONE


def _marks(sources: Iterable[SourceRow], key: str) -> SafeString:
    rows = ((source.n, source.card, key, source.n) for source in sources)
    form = '<a href="#source-{}" title="{}" data-of="{}">[{}]</a>'
    return format_html_join("", form, rows)


def _full(topic: Topic, report: Report, items: Sequence[DeltaItem]) -> dict[str, Any]:
    """Return the whole report as its run wrote it."""
    run = Run.objects.get(pk=report.run_id)
    run.report, run.topic = report, topic
    report.run = run
    return report_page.article(run, items)


# --- changes ---


def _changed(topic: Topic, one: Merged, book: SourceBook, runs: Mapping[int, Column]) -> Line:
    item = one.as_item()
    sources = book.by_number(item.run_id, item.citations)
    cited = list({source.n: source for source in sources.values()}.values())
    row = delta_row(item, sources)
    key = report_text.sentence_key(item.sentence)
    fact = _fact_of(one)
    line = Line(
        status=str(item.status),
        key=key,
        text=item.sentence,
        html=row.now,
        marks=_marks(cited, key),
        row=row,
        source=cited[0] if cited else None,
        runs=_trail(topic, one, runs),
        is_struck=fact.get("state") == TopicFact.State.STRUCK,
        history_url=_history_url(topic, fact.get("id") or item.previous_fact_id),
    )
    if item.status == Status.CONTRADICTED:
        line.html = format_html('{} <mark class="against">{}</mark>', row.before or "", row.now)
    if more := len(cited[1:]):
        words = ngettext("%(n)s more source", "%(n)s more sources", more)
        line.origin = words % {"n": more}
    line.quote = _quote_of(line.source, key, item.quote)
    if item.status != Status.GONE:
        line.correct_url = reverse("research:sentence-correct", args=[topic.slug, item.run_id, key])
        line.corrects_in_place = True
    return line


def _fact_of(one: Merged) -> dict[str, Any]:
    """Return the ID and the state of the fact that `add_facts` found for a change, or neither."""
    return getattr(one.shown, "fact", None) or {}


def _history_url(topic: Topic, fact_id: Any) -> str:
    return reverse("research:fact-history", args=[topic.slug, fact_id]) if fact_id else ""


def _quote_of(source: SourceRow | None, key: str, words: str) -> Quote | None:
    """Return the quote behind a sentence, with its place in its page if the report says so."""
    if source is None:
        return None
    quotes = [quote for quote in source.quotes if quote.key == key]
    exact = [quote for quote in quotes if quote.quote == words]
    found = next(iter(exact or quotes), None)
    return found and _in_brief(found)


def _in_brief(quote: Quote) -> Quote:
    """Return a quote with the few words next to it that fit in a margin. A table keeps its head."""
    if "|" in quote.before or "|" in quote.quote:
        return quote
    before, after = quote.before, quote.after
    if len(before) > MAX_AROUND:
        before = "…" + before[-MAX_AROUND:].partition(" ")[2]
    if len(after) > MAX_AROUND:
        after = after[:MAX_AROUND].rpartition(" ")[0] + "…"
    return replace(quote, before=before, after=after)


def _trail(topic: Topic, one: Merged, runs: Mapping[int, Column]) -> list[SafeString]:
    """Return the runs that mentioned a fact, as links, each with what it said last."""
    words = {
        Status.NEW: _("new in {run}"),
        Status.CHANGED: _("changed in {run}"),
        Status.CONTRADICTED: _("disputed in {run}"),
        Status.CONFIRMED: _("confirmed in {run}"),
        Status.GONE: _("gone in {run}"),
    }
    values: dict[str, dict[int, SafeString]] = {}
    for item in sorted(one.items, key=lambda item: item.status == Status.CONFIRMED):
        run = runs.get(item.run_id)
        # A run can mention a fact twice. A change says more than a confirmation.
        if run is None or item.status not in words or any(run.pk in of for of in values.values()):
            continue
        page = reverse("research:run", args=[topic.slug, run.pk])
        link = format_html('<a href="{}">#{}</a>', page, run.number)
        values.setdefault(item.status, {})[run.pk] = link
    if sum(map(len, values.values())) < 2:
        return []
    return [
        format_html(
            words[Status(status)], run=format_html_join(", ", "{}", ((x,) for x in of.values()))
        )
        for status, of in values.items()
    ]


# --- facts ---


def _add_facts(
    topic: Topic, page: Reading, facts: Sequence[Any], merged: Sequence[Merged], book: SourceBook
) -> None:
    """Add the facts that the changes don't show: still true, or not mentioned."""
    shown = {line.key for line in page.changed}
    # What a change replaced isn't still true, even where both are kept until someone decides.
    shown |= {
        report_text.sentence_key(item.previous_text)
        for one in merged
        if one.is_listed
        for item in one.items
        if item.previous_text
    }
    texts: set[str] = set()
    quiet: set[str] = set()
    for one in merged:
        ids = {str(item.previous_fact_id) for item in one.items if item.previous_fact_id}
        if one.is_listed:
            texts |= ids
            if fact := _fact_of(one):
                texts.add(str(fact["id"]))
        elif one.status == Status.GONE_QUIET:
            quiet |= ids
    by_number = {column.number: column for column in page.strip.columns}
    disputes = _disputes(topic, page, facts)
    disputed: dict[Conflict, list[Line]] = {}
    for fact in facts:
        key = report_text.sentence_key(fact.text)
        if key in shown or str(fact.pk) in texts:
            continue
        line = _line_of_fact(topic, fact, key, by_number, book)
        if page.is_first and line.since is not None and line.since.is_selected:
            line.status = str(Status.NEW)
            page.changed.append(line)
        elif fact.pk in disputes:
            line.status = str(Status.CONTRADICTED)
            disputed.setdefault(disputes[fact.pk], []).append(line)
        elif str(fact.pk) in quiet:
            page.quiet.append(line)
        else:
            page.still.append(line)
    page.disputed = disputed


def _disputes(topic: Topic, page: Reading, facts: Sequence[Any]) -> dict[Any, Conflict]:
    """Return the open contradictions of the facts, by fact, if the last run is selected."""
    if page.strip.last is not page.strip.columns[-1]:
        return {}
    ids = {fact.pk for fact in facts}
    found = Conflict.objects.for_user(topic.owner).standing().about(ids)
    disputes: dict[Any, Conflict] = {}
    for conflict in found.filter(kind=Conflict.Kind.CONTRADICTION):
        for side in (conflict.left_id, conflict.right_id):
            if side in ids:
                disputes.setdefault(side, conflict)
    return disputes


def _line_of_fact(
    topic: Topic, fact: Any, key: str, by_number: Mapping[int, Column], book: SourceBook
) -> Line:
    found, confirmed = by_number.get(fact.first_run or 0), by_number.get(fact.confirmed_run or 0)
    source = book.of_fact(fact, [run.pk for run in (confirmed, found) if run is not None])
    line = Line(
        status=str(Status.CONFIRMED),
        key=key,
        text=fact.text,
        html=delta_rows.unbroken(fact.text),
        marks=_marks([source], key) if source else "",
        source=source,
        quote=_quote_of(source, key, fact.quote),
        runs=_confirmed(fact),
        since=found,
        history_url=_history_url(topic, fact.pk),
    )
    if source is None and fact.edited_by_person:
        line.origin = _("written or edited by you")
    # A sentence of a report is corrected with the report. Another fact is edited itself.
    if found is not None and not fact.edited_by_person:
        line.correct_url = reverse("research:sentence-correct", args=[topic.slug, found.pk, key])
        line.corrects_in_place = True
    elif fact.state == TopicFact.State.CURRENT:
        line.correct_url = reverse("research:fact-edit", args=[topic.slug, fact.pk])
    return line


def _confirmed(fact: Any) -> list[str]:
    """Return how often a fact was confirmed, if it was: `confirmed 9 times, last today`."""
    count, at = fact.times or 0, fact.last_at
    if not count or at is None:
        return []
    day = timezone.localtime(at)
    when = _("today") if day.date() == timezone.localdate() else date_format(day, "j M Y")
    words = ngettext("confirmed once, %(day)s", "confirmed %(n)d times, last %(day)s", count)
    return [words % {"n": count, "day": when}]


# --- what people added ---


def _add_remarks(topic: Topic, lines: Sequence[Line]) -> None:
    """Add what people verified and corrected, and their notes, in three queries."""
    by_key: dict[str, Line] = {line.key: line for line in lines}
    mine = {"report__run__topic": topic, "key__in": list(by_key)}
    for one in Correction.objects.filter(**mine).readable().standing().order_by("created"):
        by_key[one.key].corrected = one
    for check in CheckedSentence.objects.filter(**mine).readable().standing().order_by("created"):
        by_key[check.key].checked = check
    texts = {line.text: line for line in lines}
    notes = Note.objects.for_user(topic.owner).active().filter(topic=topic)
    for note in notes.filter(evidence__overlap=list(texts)).order_by("created")[:MAX_NOTES]:
        for text in note.evidence:
            if text in texts:
                texts[text].notes.append(note)


def _add_affected(page: Reading, listed: Sequence[Merged]) -> None:
    """Add the lines of the owner's memory that the changes affect, each line once."""
    affected_lines = affected.of_items(item.pk for one in listed for item in one.items)
    seen: set[tuple[Any, str]] = set()
    for line, one in zip(page.changed, listed, strict=False):
        for item in reversed(one.items):
            for found in affected_lines.get(item.pk, ()):
                place = (found.record_id, found.line_key)
                if place not in seen:
                    seen.add(place)
                    line.affects.append(found)
    if seen:  # within its kind, what affects the reader comes first
        order = [str(status) for status in ORDER]
        page.changed.sort(key=lambda line: (order.index(line.status), not line.affects))


# --- what lines repeat ---


class _Margins:
    """Renders the margins of a page's lines: words, links, and the facts about a source."""

    def __init__(self, date: str) -> None:
        self._date = date
        changed = "≠ " + _("Changed")
        self._kinds = {
            Status.CONTRADICTED: "! " + _("Disputed"),
            Status.CHANGED: changed,
            Status.NEW: "+ " + _("New"),
            Status.GONE: "− " + _("Gone"),
        }
        self._trust = {
            "owner": _("yours"),
            "agent": _("agent"),
            "quarantined": format_html('<span class="tag warn">! {}</span>', _("quarantined")),
        }
        self._states = {
            "verified": format_html('<span class="ok">{}</span>', _("verified ✓")),
            "snippet": format_html("<span>{}</span>", _("from the search result")),
            "missing": format_html(
                '<span><span class="tag warn">! {}</span></span>', _("quote not found")
            ),
        }
        self._saved_page = _("saved page")
        self._sources: dict[tuple[int, bool], tuple[SafeString, list[SafeString]]] = {}

    def fill(self, lines: Iterable[Line]) -> None:
        last: SourceRow | None = None
        for line in lines:
            cited: SafeString | str = ""
            parts: list[SafeString] = []
            if line.source is not None:
                cited, of_source = self._source(line.source, is_same=line.source is last)
                last = line.source
                parts += of_source
            if line.origin:
                parts.append(format_html("<span>{}</span>", line.origin))
            if line.quote is not None:
                parts.append(self._state_of(line, line.quote))
            parts += [format_html("<span>{}</span>", run) for run in line.runs]
            if line.checked:
                parts.append(format_html('<span class="ok">{}</span>', _("verified by you ✓")))
            facts = SafeString("\n".join(parts))  # nosec B703
            line.margin = Margin(self._kind_of(line), cited, facts)

    def _kind_of(self, line: Line) -> SafeString | str:
        if line.beside is None and line.status == Status.CHANGED and line.waits:
            return "≠ " + _("Changed, needs review")
        if line.beside is not None or line.status in self._kinds:
            return self._kinds[Status.CHANGED if line.beside is not None else Status(line.status)]
        if line.since is None:
            return _("Yours")
        number = line.since.number
        words = _("Since #%(n)s") % {"n": number}
        form = '<a href="?from={}&amp;to={}{}">{}</a>'
        return format_html(form, number, number, self._date, words)

    def _state_of(self, line: Line, quote: Quote) -> SafeString:
        if not line.is_verified:
            return self._states["snippet" if quote.in_snippet else "missing"]
        state = self._states["verified"]
        if not quote.page:
            return state
        return format_html('<a href="{}" title="{}">{}</a>', quote.page, self._saved_page, state)

    def _source(self, source: SourceRow, *, is_same: bool) -> tuple[SafeString, list[SafeString]]:
        """Return the source's number and link, and its domain, day and unusual trust.

        Below a line with the same source, only its number and domain are repeated.
        """
        key = source.n, is_same
        if key not in self._sources:
            text = source.domain if is_same else source.title
            link = render_to_string("research/_link.html", {"link": source.link, "text": text})
            cited = format_html(
                '<a class="n" href="#source-{}">{}</a> {}', source.n, source.n, link
            )
            parts = self._about(source) if not is_same or source.trust == "quarantined" else []
            self._sources[key] = cited, parts
        return self._sources[key]

    def _about(self, source: SourceRow) -> list[SafeString]:
        parts = [format_html("<span>{}</span>", source.domain)]
        if day := source.published_at:
            form = '<time datetime="{}">{}</time>'
            parts.append(format_html(form, f"{day:%Y-%m-%d}", date_format(day, "j M Y")))
        if trust := self._trust.get(source.trust):  # most sources are external
            parts.append(format_html("<span>{}</span>", trust))
        return parts
