"""Compose a report: compare the draft with known facts, lay it out, and number its sources.

Draft (citing 1..k) -> changes against the facts, whose own sources are cited from k+1 on
-> summary and body of a report without a model -> the step's output, every citation
renumbered to the sources that are shown (R48).

A quiet report counts only what was read or searched (R42). Unread hits aren't called known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from django.db.models import Count, Max, Q
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext_lazy

from beacon_site.providers.search import sample
from beacon_site.text.canonical_urls import domain_of
from beacon_site.text.cleaning import ended, match_key, plain, shorten, without_citations
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import ngettext
from memory.models import Source, TopicFact, origins
from memory.models.library import ADDRESS, page_of
from memory.services.topic_memory import KnownFact, TopicMemory
from research.claims.matching import match
from research.claims.selection import PageText
from research.models import DeltaItem, Hit, Report, Schedule, Step
from research.services.runs.context.outputs import CitedSource, Finding, WriteOutput
from research.services.runs.context.run_context import RunContext
from research.services.runs.reporting import delta, report_text
from research.services.runs.reporting.delta import Change, SecondOpinion, Statement, Status
from research.services.runs.reporting.rereading import Outcome, as_gone, moved, states
from research.services.runs.search import known_pages

# The last line of a report that no model wrote, and if some of its sentences are unsupported.
EXTRACTIVE = gettext_lazy(
    "Extractive report: every sentence is a quote from its source, and no model was used."
)
EXTRACTIVE_MARKED = gettext_lazy(
    "Extractive report: no model was used, and unsupported sentences are marked."
)

# --- sources of known facts ---

_CITATION = re.compile(r"\s*(?:\[\d{1,3}\])+")


@dataclass(frozen=True, slots=True)
class KnownSources:
    """The sources of known facts that this run didn't read, as `pages`.

    `numbers` are the citations of the facts and `notes` say how often each was confirmed, both by
    the fact's id.
    """

    pages: Sequence[PageText]
    numbers: Mapping[str, int]
    notes: Mapping[str, str]

    @classmethod
    def of(
        cls,
        context: RunContext,
        facts: Sequence[KnownFact],
        pages: Sequence[PageText],
        changes: list[Change],
    ) -> KnownSources:
        """Number the sources of `facts`, in 2 or 3 queries.

        A library document that was edited has another URL. A fact that its new version confirms
        cites that version.
        """
        by_url = {page.url: page.number for page in pages}
        by_number = {page.number: page_of(page.url) for page in pages}
        confirmed = {
            (change.previous_id, by_number[number]): number
            for change in changes
            if change.status == Status.CONFIRMED
            for number in change.citations
            if number in by_number
        }
        last = max(by_url.values(), default=0)
        earlier: list[PageText] = []
        numbers: dict[str, int] = {}
        for fact in facts:
            if not fact.url:
                continue
            number = confirmed.get((fact.id, page_of(fact.url)))
            if number is None and fact.url not in by_url:
                last += 1
                by_url[fact.url] = last
                earlier.append(_reading(last, fact))
            numbers[fact.id] = number or by_url[fact.url]
        return cls(earlier, numbers, _notes(context, facts, changes) if facts else {})

    def numbers_of(self, fact_id: str) -> list[int]:
        """Return the citation of a fact, or nothing if it has no source URL."""
        return [self.numbers[fact_id]] if fact_id in self.numbers else []

    def line(self, fact: KnownFact) -> str:
        """Return a fact as a line of Markdown, with its citation and confirmations."""
        marks = "".join(f"[{n}]" for n in self.numbers_of(fact.id))
        note = self.notes.get(fact.id, "")
        return " ".join(filter(None, [fact.text, marks, f"*({note})*" if note else ""]))


def _reading(number: int, fact: KnownFact) -> PageText:
    try:
        domain = domain_of(fact.url)
    except ValueError:
        domain = ""
    title = fact.title or fact.url
    return PageText(number, fact.url, title, domain, "", published_at=fact.published_at)


def _notes(
    context: RunContext, facts: Iterable[KnownFact], changes: Iterable[Change]
) -> dict[str, str]:
    rows = TopicFact.objects.for_user(context.topic.owner).filter(
        pk__in=[fact.id for fact in facts]
    )
    confirmed = DeltaItem.objects.filter(
        previous_fact__in=rows, status=Status.CONFIRMED, hidden_reason="", run__topic=context.topic
    )
    counted = confirmed.order_by().values_list("previous_fact")
    before = {
        str(pk): (n, at) for pk, n, at in counted.annotate(Count("pk"), Max("run__finished_at"))
    }
    now = {change.previous_id for change in changes if change.status == Status.CONFIRMED}
    # Only these are looked up. A run's origin has a URL, and finding it would make a worker load
    # the URL configuration.
    named = origins.of(context.topic.owner, {row.source for row in rows if not row.url})
    notes = {}
    for row in rows:
        count, at = before.get(str(row.pk), (0, None))
        if str(row.pk) in now:
            count, at = count + 1, timezone.now()
        who = "" if row.url else named[row.source].words
        notes[str(row.pk)] = _note(count, at, row.created, who)
    return notes


def _note(count: int, at: datetime | None, created: datetime, who: str) -> str:
    day = date_format(timezone.localtime(at or created), "j M Y")
    if count:
        words = ngettext(
            "confirmed once, on %(day)s", "confirmed %(n)d times, last on %(day)s", count
        )
        message = words % {"n": count, "day": day}
        return _("%(said)s, added by %(who)s") % {"said": message, "who": who} if who else message
    if who:
        return _("added by %(who)s on %(day)s") % {"who": who, "day": day}
    return _("found on %(day)s, not confirmed since") % {"day": day}


# --- quiet reports ---


def _unread(context: RunContext) -> int:
    """Count the new and returning hits whose text didn't reach the writer.

    If the run is stopping, count those that the next run will read.
    """
    hits = context.run.hits.filter(state__in=[Hit.State.NEW, Hit.State.RETURNING])
    if context.is_stopping:
        return hits.filter(reading=Hit.Reading.NOT_READ).count()
    left = hits.exclude(reading__in=[Hit.Reading.READ, Hit.Reading.NEAR_DUPLICATE])
    left = left.filter(Q(snippet="") | Q(reading=Hit.Reading.QUARANTINED))
    # A known document in a new version isn't a new source.
    return left.count() - len(known_pages.new_versions(context, list(left)))


def nothing_found(context: RunContext, read: int) -> str:
    """Return the summary of a baseline without a finding. `read` sources reached the writer."""
    counts, unread = context.output("filter_seen"), _unread(context)
    values = {"topic": context.topic.title, "read": read, "unread": unread}
    if read:
        message = ngettext(
            "Beacon read %(read)d page, but it contains nothing specific about “%(topic)s”.",
            "Beacon read %(read)d pages, but none of them contains anything specific about “%(topic)s”.",
            read,
        )
        return message % values
    if unread and context.is_stopping:
        message = ngettext(
            "The run ended before it could read any pages. The next run will read %(unread)d source.",
            "The run ended before it could read any pages. The next run will read %(unread)d sources.",
            unread,
        )
        return message % values
    if unread:
        message = ngettext(
            "The searches found %(unread)d source, but it couldn’t be read. The list of sources shows why.",
            "The searches found %(unread)d sources, but none could be read. The list of sources shows why.",
            unread,
        )
        return message % values
    if blocked := counts["blocked"]:
        message = ngettext(
            "The searches found %(blocked)d source, but your rules block it. The list of sources shows why.",
            "The searches found %(blocked)d sources, but your rules block all of them. The list of sources shows why.",
            blocked,
        )
        return message % {"blocked": blocked}
    return _("The searches found nothing about “%(topic)s”.") % values


def what_was_checked(
    again: Outcome, standing: Sequence[KnownFact], changes: Iterable[Change] = ()
) -> str:
    """Say which known pages were read again, and how many facts are still on their pages.

    A fact counts only if its page was read in this run and still has its quote, and none of the
    `changes` found on other pages disagrees.
    """
    parts = []
    if read := again.unchanged + again.changed:
        parts.append(_pages_read(again, read))
    disputed = {c.previous_id for c in changes if c.status in (Status.CHANGED, Status.CONTRADICTED)}
    own = [c for c in again.changes if c.status == Status.CONFIRMED]
    if confirmed := sum(change.previous_id not in disputed for change in own):
        parts.append(
            ngettext(
                "%(n)d fact is still on its page.",
                "%(n)d facts are still on their pages.",
                confirmed,
            )
            % {"n": confirmed}
        )
    looked_at = {c.previous_id for c in again.changes if c.status != Status.GONE_QUIET}
    if missing := [fact for fact in standing if fact.id in again.not_found]:
        words = ngettext(
            "%(n)d fact is no longer on its page in the same words (%(sites)s).",
            "%(n)d facts are no longer on their pages in the same words (%(sites)s).",
            len(missing),
        )
        parts.append(words % {"n": len(missing), "sites": _sites(missing)})
    looked_at |= again.not_found | again.confirmed
    if unchecked := [fact for fact in standing if fact.url and fact.id not in looked_at]:
        parts.append(
            ngettext(
                "%(n)d fact wasn’t checked because its page wasn’t read or compared (%(sites)s).",
                "%(n)d facts weren’t checked because their pages weren’t read or compared (%(sites)s).",
                len(unchecked),
            )
            % {"n": len(unchecked), "sites": _sites(unchecked)}
        )
    if again.deleted:
        parts.append(
            ngettext(
                "%(n)d fact is gone because its document was deleted (%(titles)s).",
                "%(n)d facts are gone because their documents were deleted (%(titles)s).",
                len(again.deleted),
            )
            % {"n": len(again.deleted), "titles": _sites(again.deleted)}
        )
    parts.append(_emptied(again))
    return " ".join(filter(None, parts)) or _("No known pages were checked again.")


def _sites(facts: Iterable[KnownFact]) -> str:
    """Name the sites of facts, and the documents of the library."""
    sites = (
        fact.title if ADDRESS.fullmatch(fact.url) else _reading(0, fact).domain or fact.title
        for fact in facts
    )
    return ", ".join(list(dict.fromkeys(sites))[:MAX_SITES])


def _emptied(again: Outcome) -> str:
    if not again.emptied:
        return ""
    words = ngettext(
        "%(n)d known document is now empty (%(titles)s).",
        "%(n)d known documents are now empty (%(titles)s).",
        len(again.emptied),
    )
    return words % {"n": len(again.emptied), "titles": ", ".join(again.emptied[:MAX_SITES])}


def _pages_read(again: Outcome, read: int) -> str:
    values = {"read": read, "changed": again.changed}
    if not again.changed:
        words = ngettext(
            "%(read)d known page was checked again and hasn’t changed.",
            "%(read)d known pages were checked again and haven’t changed.",
            read,
        )
        return words % values
    words = ngettext(
        "%(read)d known page was checked again, and it has changed.",
        "%(read)d known pages were checked again, and %(changed)d of them changed.",
        read,
    )
    return words % values


def uncovered_changes(again: Outcome) -> list[str]:
    """Describe what no delta item covers: replaced pages, table columns, and changes beyond the limit."""
    texts = []
    if again.replaced:
        domains = ", ".join(sorted({page.domain for page in again.replaced})[:5])
        texts.append(
            ngettext(
                "%(n)d known page now has entirely different content, so its facts weren’t checked (%(domains)s)",
                "%(n)d known pages now have entirely different content, so their facts weren’t checked (%(domains)s)",
                len(again.replaced),
            )
            % {"n": len(again.replaced), "domains": domains}
        )
    if again.columns:
        texts.append(
            _("Table columns changed (%(pages)s)") % {"pages": "; ".join(again.columns[:5])}
        )
    if again.left_out:
        texts.append(
            ngettext(
                "%(n)d minor change to a known page isn’t listed",
                "%(n)d minor changes to known pages aren’t listed",
                again.left_out,
            )
            % {"n": again.left_out}
        )
    return texts


def nothing_new(
    context: RunContext,
    memory: TopicMemory | None,
    pages: Sequence[PageText],
    again: Outcome,
    *,
    has_background: bool = False,
    with_known_pages: bool = True,
) -> str:
    """Return the sentence of a run that found nothing new in the `pages` that reached the writer."""
    values: dict[str, int | str] = {
        "since": delta.since_line(memory.last_run_at, memory.run_count) if memory else "",
        "known": context.output("filter_seen")["known"],
        "read": sum(not page.previous for page in pages),
        "again": again.unchanged + again.changed,
        "unread": _unread(context),
    }
    known = _again(values) if with_known_pages else ""
    parts = [
        _outcome(values, has_background),
        known,
        _emptied(again),
        _describe_unread(values, context),
    ]
    return " ".join(filter(None, parts))


def _again(values: dict[str, int | str]) -> str:
    """Describe the known pages that have nothing new."""
    if not values["again"]:
        return ""
    message = ngettext(
        "%(again)d known page was checked again and contains nothing new.",
        "%(again)d known pages were checked again and contain nothing new.",
        int(values["again"]),
    )
    return message % values


def _outcome(values: dict[str, int | str], has_background: bool) -> str:
    if values["read"] and has_background:
        message = ngettext(
            "Nothing new %(since)s. Beacon read %(read)d new page, but what it adds was published earlier.",
            "Nothing new %(since)s. Beacon read %(read)d new pages, but what they add was published earlier.",
            int(values["read"]),
        )
        return message % values
    if values["read"]:
        message = ngettext(
            "Nothing new %(since)s. Beacon read %(read)d new page, but it adds nothing.",
            "Nothing new %(since)s. Beacon read %(read)d new pages, but they add nothing.",
            int(values["read"]),
        )
        return message % values
    if values["unread"]:
        return _("No new pages have been read %(since)s.") % values
    if values["known"]:
        message = ngettext(
            "Nothing new %(since)s. The searches found %(known)d page, which was already known.",
            "Nothing new %(since)s. The searches found %(known)d pages, all already known.",
            int(values["known"]),
        )
        return message % values
    return _("Nothing new %(since)s. The searches found no pages.") % values


def _describe_unread(values: dict[str, int | str], context: RunContext) -> str:
    """Describe the new sources that weren't read."""
    if not values["unread"]:
        return ""
    unread = int(values["unread"])
    if context.is_stopping:
        message = ngettext(
            "The next run will read %(unread)d new source that this run didn’t get to.",
            "The next run will read %(unread)d new sources that this run didn’t get to.",
            unread,
        )
        return message % values
    message = ngettext(
        "%(unread)d new source couldn’t be read. The list of sources shows why.",
        "%(unread)d new sources couldn’t be read. The list of sources shows why.",
        unread,
    )
    return message % values


# --- composing ---

# A search finds a page some days after it was published.
PUBLISHED_LATE = timedelta(days=2)
MAX_BACKGROUND = 10  # statements of such pages in a report
MAX_SITES = 5  # named in one sentence
REPORTS = 10  # reports whose sentences aren't reported as new again
TIMELINE = 300  # retired facts that a finding is compared with


@dataclass(slots=True)
class Draft:
    """A report before it is compared with known facts. Citations are the readings' numbers."""

    summary: str
    body: str
    findings: list[Statement]
    more: list[Statement] = field(default_factory=list)
    written_by: str = ""
    is_extractive: bool = False
    is_in_passing: bool = False  # no page is about the topic, though some mention it


def heading(context: RunContext, memory: TopicMemory | None) -> str:
    """Return the heading of the delta section, by the schedule at the start of the run."""
    schedule: Schedule | None = getattr(context.topic, "schedule", None)
    return delta.heading(schedule, memory.run_count if memory else 0)


def compose(
    context: RunContext,
    memory: TopicMemory | None,
    pages: list[PageText],
    draft: Draft,
    second: SecondOpinion | None = None,
    again: Outcome | None = None,
) -> WriteOutput:
    """Compare a draft with what is known. `second` decides where the comparison is unsure.

    `again` is the outcome of reading known pages again.
    """
    again = again or Outcome()
    facts = list(memory.facts) if memory else []
    struck = list(memory.struck) if memory else []
    found = [*draft.findings, *draft.more] if memory else draft.findings
    background = _background(context, memory, pages, draft)
    changes, dropped = delta.compare(
        delta.with_pages(found, pages),
        facts,
        retired=_timeline(context, found) if memory else [],
        struck=struck,
        topic=context.topic.title,
        checked=memory.last_run_at.date() if memory and memory.last_run_at else None,
        embed=delta.local_vectors() if facts else None,
        second=second,
    )
    reported = _reported_before(context) if memory else frozenset()
    # Findings in the body as further context aren't delta items, but can confirm a fact.
    beside = {match_key(statement.sentence) for statement in [*draft.more, *background]} | reported
    changes = [c for c in changes if c.status != Status.NEW or match_key(c.sentence) not in beside]
    changes = _joined(again.changes, changes)
    gone = known_pages.deleted_documents(context, facts)
    again.deleted = _unstated(facts, gone, pages, changes)
    emptied = known_pages.emptied_documents(context) if memory else {}
    again.emptied = list(dict.fromkeys(emptied.values()))
    no_longer = {fact.url for fact in facts if page_of(fact.url) in emptied}
    missing = [*again.deleted, *_unstated(facts, no_longer, pages, changes)]
    changes += _moved_from(facts, no_longer | gone, pages, changes)
    changes = delta.in_order([*changes, *map(as_gone, missing)])
    again.confirmed = {c.previous_id for c in changes if c.status == Status.CONFIRMED}
    facts = _followed(facts, pages, changes)
    is_quiet = memory is not None and not any(change.is_listed for change in changes)
    standing = _remaining_facts(changes, facts) if memory else []
    known = KnownSources.of(context, facts, pages, changes)
    deleted = {fact.id for fact in missing}
    for change in changes:
        if change.status == Status.GONE_QUIET or change.previous_id in deleted:
            change.citations = known.numbers_of(change.previous_id)
    checked = [what_was_checked(again, standing, changes)] if memory and not is_quiet else []
    if draft.is_extractive:
        draft.findings = _not_reported(draft.findings, reported, changes)
        draft.more = _not_reported(draft.more, reported, changes)
        _set_summary_and_body(
            context, memory, pages, draft, changes, standing, known, background, again, checked
        )
    else:
        draft.body = report_text.framed(context, draft.body, checked)
    for text in uncovered_changes(again):
        context.run.warn(text)
    if dropped:
        context.run.warn(
            ngettext(
                "Dropped %(count)d finding that repeats what you marked as wrong",
                "Dropped %(count)d findings that repeat what you marked as wrong",
                dropped,
            )
            % {"count": dropped}
        )
    about = (context, memory, pages, again)
    is_below = draft.is_extractive and draft.summary == what_was_checked(again, standing)
    told = partial(nothing_new, *about, has_background=bool(background))
    quiet_text = told(with_known_pages=not is_below) if is_quiet else ""
    output = _numbered(context, memory, pages, draft, changes, standing, known, quiet_text)
    output["checked"] = told() if is_quiet else " ".join(checked)
    return output


def _reported_before(context: RunContext) -> frozenset[str]:
    """Return the keys of the last reports' cited sentences. Copies on another page aren't news.

    A run that couldn't save its memory doesn't count, so the next one reports the same news (R8).
    """
    reports = Report.objects.filter(run__topic=context.topic, trashed_at=None).exclude(
        run=context.run
    )
    not_saved = Step.objects.filter(run__topic=context.topic, name="save").exclude(warning="")
    reports = reports.exclude(run__in=not_saved.values("run"))
    bodies = reports.order_by("-created")[:REPORTS].values_list("body", flat=True)
    cited = (part for body in bodies for part in _CITATION.split(body)[:-1])
    return frozenset(match_key(plain(part.rpartition("\n")[2])) for part in cited)


def _not_reported(
    found: Iterable[Statement], reported: Collection[str], changes: Iterable[Change]
) -> list[Statement]:
    listed = {match_key(change.sentence) for change in changes if change.is_listed}
    keys = ((match_key(statement.sentence), statement) for statement in found)
    return [statement for key, statement in keys if key not in reported or key in listed]


def _joined(again: Sequence[Change], found: Sequence[Change]) -> list[Change]:
    """Merge what known pages and new pages say about the same facts.

    A fact's own page goes first. Another page that confirms it is cited as well. One that disagrees
    makes the change unsure, so both stay until a person decides.
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
            change.needs_review = change.needs_review or change.status == Status.CHANGED
            joined.append(change)
            if settled.status == Status.CONFIRMED and settled in joined:
                joined.remove(settled)
    return joined


def _unstated(
    facts: Sequence[KnownFact],
    urls: Collection[str],
    pages: Sequence[PageText],
    changes: Sequence[Change],
) -> list[KnownFact]:
    """Return the facts from `urls` that no page states.

    Kept facts stay current, so they'd be reported by each run.
    """
    spoken_of = {change.previous_id for change in changes}
    left = [f for f in facts if f.url in urls and f.id not in spoken_of and not f.is_kept]
    return [fact for fact in left if not any(states(page, fact) for page in pages)]


def _moved_from(
    facts: Sequence[KnownFact],
    urls: Collection[str],
    pages: Sequence[PageText],
    changes: Sequence[Change],
) -> list[Change]:
    """Return the changes of the facts from `urls` whose statement is on another page now."""
    spoken_of = {change.previous_id: change for change in changes}
    from_urls = [fact for fact in facts if fact.url in urls]
    for fact in from_urls:
        change = spoken_of.get(fact.id)
        if change is not None and change.status == Status.CONFIRMED:
            change.sentence, change.follows = fact.text, True
    left = [fact for fact in from_urls if fact.id not in spoken_of]
    return [found for fact in left if (found := moved(fact, pages))]


def _followed(
    facts: Iterable[KnownFact], pages: Iterable[PageText], changes: Iterable[Change]
) -> list[KnownFact]:
    """Return the facts, with the new words and sources of those whose statement was edited or moved."""
    by_number = {page.number: page for page in pages}
    follow = {change.previous_id: change for change in changes if change.follows}
    result = []
    for fact in facts:
        change = follow.get(fact.id)
        if change is not None and not fact.is_kept:
            page = by_number[change.citations[0]]
            fact = replace(fact, text=change.sentence, url=page.url, title=page.title)
        result.append(fact)
    return result


def _says(sentence: str, other: str) -> bool:
    found = match(sentence, [other])
    return found is not None and found.kind == "confirmed"


def _timeline(context: RunContext, found: Iterable[Statement]) -> list[KnownFact]:
    """Return the facts retired last, and older ones that a finding repeats word for word."""
    of_topic = TopicFact.objects.filter(topic=context.topic).retired()
    latest = list(of_topic[:TIMELINE])
    rows = of_topic.filter(key__in={match_key(statement.sentence) for statement in found})
    return _as_known({fact.pk: fact for fact in [*latest, *rows]}.values())


def outranked(context: RunContext) -> list[KnownFact]:
    """Return the facts outside the top 10, the most recent first. Nothing says that they are wrong."""
    facts = TopicFact.objects.filter(topic=context.topic).retired()
    return _as_known(facts.filter(retired_as=TopicFact.RetiredAs.OUTRANKED)[:TIMELINE])


def _as_known(facts: Iterable[TopicFact]) -> list[KnownFact]:
    return [
        KnownFact(str(fact.pk), fact.text, fact.url, fact.source_title, quote=fact.quote)
        for fact in facts
    ]


def _remaining_facts(changes: Iterable[Change], facts: Sequence[KnownFact]) -> list[KnownFact]:
    """Return the facts that remain: all except replaced ones and those gone from their page."""
    changes = list(changes)
    replaced = {c.replaces for c in changes}
    gone = {c.previous_id for c in changes if c.status == Status.GONE}
    return [f for f in facts if f.id not in replaced and (f.is_kept or f.id not in gone)]


def _set_summary_and_body(
    context: RunContext,
    memory: TopicMemory | None,
    pages: list[PageText],
    draft: Draft,
    changes: list[Change],
    standing: Sequence[KnownFact],
    known: KnownSources,
    background: Sequence[Statement],
    again: Outcome,
    checked: Sequence[str],
) -> None:
    """Set the summary and body of an extractive report. `checked` names the known pages that were read again."""
    known_keys = {match_key(c.sentence) for c in changes if c.status == Status.CONFIRMED}
    listed = {match_key(c.sentence) for c in changes if c.is_listed}
    # What the section above calls superseded isn't repeated below as if it were still true.
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
    reread = delta.in_order(change for change in again.changes if change.is_listed)
    news = [_cite(_summary_sentence(change)) for change in reread]
    # A fact that is listed above as the old version isn't repeated as known.
    above = {c.previous_id for c in changes if c.is_listed}
    draft.summary = _summary(context, memory, pages, [*fresh, *more], standing, news, again)
    parts = report_text.Parts(
        summary=draft.summary,
        fresh=[_cite(statement) for statement in fresh],
        more=[_cite(statement) for statement in more],
        known=[
            known.line(fact)
            for fact in standing
            if fact.id not in above and not _is_superseded(fact.text, old, listed)
        ],
        background=[_cite(statement) for statement in background[:MAX_BACKGROUND]],
        is_baseline=memory is None,
        is_in_passing=draft.is_in_passing,
    )
    body = report_text.body_in_style(context.settings.report_style, parts)
    draft.body = report_text.framed(
        context, body, [*checked, *([str(EXTRACTIVE)] if fresh or more else [])]
    )


def _is_superseded(sentence: str, old: Sequence[str], listed: Collection[str]) -> bool:
    """Return True if a sentence repeats one of `old`. Sentences listed as news don't count."""
    if not old or match_key(sentence) in listed:
        return False
    found = match(without_citations(sentence), old)
    return found is not None and found.kind == "confirmed"


def _background(
    context: RunContext, memory: TopicMemory | None, pages: list[PageText], draft: Draft
) -> list[Statement]:
    """Return the findings whose page was published before the last run: found late, but not news."""
    if memory is None or memory.last_run_at is None:
        return []
    horizon = timezone.localtime(memory.last_run_at).date() - PUBLISHED_LATE
    if context.settings.services == [sample.SERVICE]:
        newest = Source.objects.filter(topic=context.topic).aggregate(last=Max("published_at"))[
            "last"
        ]
        horizon = min(horizon, newest - PUBLISHED_LATE) if newest else horizon
    old = {page.number for page in pages if page.published_at and page.published_at < horizon}
    found = [*draft.findings, *draft.more]
    return [s for s in found if s.citations and all(n in old for n in s.citations)]


def _summary(
    context: RunContext,
    memory: TopicMemory | None,
    pages: list[PageText],
    found: Sequence[Statement],
    standing: Sequence[KnownFact],
    news: Sequence[str],
    again: Outcome,
) -> str:
    if news or found:
        told = (_cite(replace(one, sentence=ended(one.sentence))) for one in found)
        return " ".join([*news, *told][:2])
    if memory is None:
        return nothing_found(context, len(pages))
    return what_was_checked(again, standing)


def _summary_sentence(change: Change) -> Statement:
    """Return a change as a summary sentence, marked if it is gone and ending with a full stop."""
    text = change.told or change.sentence
    if change.status == Status.GONE:
        text = _("No longer on the source page: %(sentence)s") % {"sentence": text}
    return Statement(ended(text), tuple(change.citations))


def _cite(statement: Statement) -> str:
    return f"{statement.sentence} {_marks(statement.citations)}"


def _marks(numbers: Iterable[int]) -> str:
    return "".join(f"[{n}]" for n in numbers)


def _numbered(
    context: RunContext,
    memory: TopicMemory | None,
    pages: list[PageText],
    draft: Draft,
    changes: list[Change],
    standing: Sequence[KnownFact],
    known: KnownSources,
    quiet_text: str,
) -> WriteOutput:
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
    states = dict(context.run.hits.values_list("link", "state"))
    states |= {page.url: "known" for page in known.pages}
    earlier = {page.number for page in known.pages}
    sources = [_source(numbers[old], by_number[old], states, earlier) for old in numbers]
    findings: list[Finding] = [
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
        "checked": "",
        "heading": heading(context, memory) if memory else "",
        "since": delta.since_line(memory.last_run_at, memory.run_count) if memory else "",
        "fell_back": False,
    }


def _source(
    number: int, page: PageText, states: dict[str, str], earlier: Collection[int]
) -> CitedSource:
    source: CitedSource = {
        "n": number,
        "url": page.url,
        "link": page.url,
        "title": shorten(page.title or page.url, 300),
        "domain": page.domain,
        "published_at": page.published_at.isoformat() if page.published_at else None,
        "state": states.get(page.url, "new"),
        "quotes": [],
    }
    if page.number in earlier:
        source["is_earlier"] = True
    return source
