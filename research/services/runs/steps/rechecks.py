"""The steps of a recheck: read the sources of stale facts again, and compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import structlog
from django.db import transaction
from rapidfuzz import fuzz, process

from beacon_site.net.errors import ProviderError, ProviderRejected
from beacon_site.net.fetch import WebPage
from beacon_site.providers.search import sample
from beacon_site.providers.search.base import SearchHit, SearchProvider
from beacon_site.text.canonical_urls import canonical_or_same, canonical_url, domain_of
from beacon_site.text.cleaning import clean, one_line, without_citations
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import joined, ngettext
from beacon_site.text.sentences import split_sentences
from memory.models import Source, Topic, TopicFact
from research.claims.matching import match
from research.claims.quoting import MIN_QUOTE, fold
from research.claims.selection import PageText
from research.models import Hit
from research.services.runs.context import inputs
from research.services.runs.context.outputs import (
    CitedSource,
    FilterOutput,
    PlanOutput,
    SearchOutput,
    Versions,
    WriteOutput,
)
from research.services.runs.context.run_context import RunContext, StepResult
from research.services.runs.reporting import composing, report_text
from research.services.runs.reporting.composing import Draft
from research.services.runs.reporting.delta import Statement, Status
from research.services.runs.search import gathering
from research.services.runs.search import reading as search_reading
from research.services.runs.search.searching import EXTRACTIVE
from research.services.runs.steps import planning, saving
from research.services.topics.settings import standing_rules

MAX_SENTENCES = 1_500  # sentences checked per page
CLOSEST = 12  # sentences of a page compared with a fact
FAR = 35  # similarity out of 100; below it, a sentence isn't about the fact


@dataclass(slots=True)
class Page:
    """One page that was read, split into sentences once."""

    reading: PageText
    folded: str
    sentences: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, reading: PageText) -> Page:
        return cls(reading, fold(reading.text), split_sentences(reading.text)[:MAX_SENTENCES])


def statements(
    facts: Sequence[TopicFact], known: Sequence[str], pages: Sequence[Page]
) -> dict[str, Statement]:
    """Return, by fact id, what a page says about each fact. Facts that no page mentions are left out.

    `known` are the texts of all current facts. A sentence belongs to the nearest one. The fact's
    own page comes first, then one that confirms it, then any other.
    """
    found = {}
    for fact in facts:
        own = sorted(pages, key=lambda page: page.reading.url != fact.url)
        statement = _first(fact, known, own)
        if statement is not None:
            found[str(fact.pk)] = statement
    return found


def _first(fact: TopicFact, known: Sequence[str], pages: Sequence[Page]) -> Statement | None:
    changed = None
    for page in pages:
        kind, statement = _compare_fact(fact, known, page)
        if statement is None:
            continue
        if kind == "confirmed" or page.reading.url == fact.url:
            return statement
        changed = changed or statement
    return changed


def _compare_fact(
    fact: TopicFact, known: Sequence[str], page: Page
) -> tuple[str, Statement | None]:
    bare = without_citations(fact.text)
    number = page.reading.number
    for words in (fact.quote, bare):
        if len(one_line(words)) >= MIN_QUOTE and fold(words) in page.folded:
            return "confirmed", Statement(bare, (number,), one_line(words))
    near = process.extract(
        bare, page.sentences, scorer=fuzz.token_set_ratio, score_cutoff=FAR, limit=CLOSEST
    )
    changed = None
    for sentence, _score, _place in near:
        hit = match(sentence, known)
        if hit is None or known[hit.index] != bare:
            continue
        statement = Statement(sentence, (number,), one_line(sentence))
        if hit.kind == "confirmed":
            return "confirmed", statement
        changed = changed or statement
    return "changed", changed


# --- fetching ---

logger = structlog.get_logger(__name__)

SERVICE = "recheck"  # the service of a hit that no search found
MAX_SERVICES = 2  # services asked about one fact
MAX_PAGES = 2  # search results read per fact
_OPENABLE = ("http://", "https://", "library:")


def facts_of(context: RunContext) -> list[TopicFact]:
    """Return the facts to check that are still current."""
    rows = TopicFact.objects.filter(topic=context.topic, pk__in=context.run.rechecks).current()
    known = (
        {fact.id for fact in memory.facts} if (memory := inputs.loaded_memory(context)) else set()
    )
    return [fact for fact in rows if str(fact.pk) in known]


def fetch_sources(context: RunContext, facts: Sequence[TopicFact]) -> Versions:
    """Read the page of each fact again. Return what servers said about the versions, by URL."""
    places = {fact.url: fact.source_title for fact in facts if _may_open(context, fact.url)}
    hits = [
        _hit(context, url, place, title=title, service=SERVICE)
        for place, (url, title) in enumerate(places.items(), start=1)
    ]
    return _read(context, [hit for hit in hits if hit is not None])


def _may_open(context: RunContext, url: str) -> bool:
    is_place = sample.is_sample_url(url) or url.startswith(_OPENABLE)
    return is_place and not standing_rules.reason_against(context.settings, canonical_or_same(url))


def _hit(context: RunContext, url: str, place: int, *, service: str, **fields: Any) -> Hit | None:
    """Get or create the run's hit for a URL. Return None if it isn't a URL."""
    try:
        canonical, domain = canonical_url(url), domain_of(url)[:255]
    except ValueError:
        return None
    values = {"link": url, "domain": domain, "service": service, "place": place, **fields}
    values["title"] = str(values.get("title", ""))[:500]
    return Hit.objects.get_or_create(run=context.run, url=canonical, defaults=values)[0]


def _read(context: RunContext, hits: Sequence[Hit]) -> Versions:
    """Read the pages of unread hits, and store each result."""
    left = [hit for hit in hits if hit.reading == Hit.Reading.NOT_READ]
    versions: Versions = {}
    fetched = search_reading.fetching(context, left, is_recheck=True)
    calls: list[Callable[[], WebPage]] = [
        partial(search_reading.noting_version, get, hit, versions)
        for hit, get in zip(left, fetched, strict=True)
    ]
    for done, (place, get) in enumerate(context.each_of(calls, at_once=4), start=1):
        hit = left[place]
        with transaction.atomic():  # the page is stored only while this worker holds the run
            search_reading.keep(context, hit, get)
            message = _("%(done)d of %(all)d pages · %(page)s")
            values = {"done": done, "all": len(left), "page": search_reading.shown_name(hit)}
            context.progress(message % values, read=done, pages=len(left))
    return versions


# --- facts that no page mentions ---


def search_for(context: RunContext, facts: Sequence[TopicFact]) -> tuple[list[str], Versions]:
    """Search for each fact separately and read the first results.

    Returns the queries, and what servers said about the pages' versions.
    """
    queries = [_query(fact) for fact in facts]
    if not queries or context.is_stopping:
        return [], {}
    try:
        services = gathering.services_of(context, queries)[:MAX_SERVICES]
    except ProviderError as exc:
        context.run.warn(_("Beacon couldn’t search for facts: %(why)s") % {"why": exc})
        return [], {}
    calls: list[Callable[[], list[SearchHit]]] = [
        partial(_ask, context, service.provider, query) for query in queries for service in services
    ]
    options: list[Hit] = []
    place = context.run.hits.count()
    for _place, get in context.each_of(calls, at_once=4):
        for found in [one for one in get() if _may_open(context, one.url)][:MAX_PAGES]:
            place += 1
            fields = {"title": clean(found.title)[0], "snippet": clean(found.snippet)[0]}
            hit = _hit(context, found.url, place, service=found.service or SERVICE, **fields)
            options += [hit] if hit is not None else []
    return queries, _read(context, options)


def _query(fact: TopicFact) -> str:
    return one_line(without_citations(fact.text))[: inputs.MAX_QUERY_LENGTH]


def _ask(context: RunContext, provider: SearchProvider, query: str) -> list[SearchHit]:
    """Ask one service. If it doesn't answer, it counts as no results, and the log says so."""
    try:
        return provider.search(query, gathering.options_of(context))
    except ProviderError as exc:
        logger.info("recheck search failed", service=provider.service, why=str(exc))
        return []


# --- steps ---

BY = "recheck"  # the planner's name


def load(context: RunContext) -> StepResult:
    """Load the memory with the facts to check. Without it, there is nothing to check."""
    result = planning.load_memory(context)
    if result.output["memory"] is None:
        why = result.output["problem"] or _("the topic’s memory has expired")
        raise ProviderRejected(_("Nothing to recheck: %(why)s.") % {"why": why})
    return result


def choose(context: RunContext) -> StepResult:
    """Select the facts to check: the requested ones that are still current."""
    facts = facts_of(context)
    if not facts:
        raise ProviderRejected(_("Nothing to recheck: the selected facts are no longer current."))
    output: PlanOutput = {"queries": [], "by": BY, "facts": [str(fact.pk) for fact in facts]}
    return StepResult(output, detail=_facts(len(facts)), counts={"facts": len(facts)})


def read_sources(context: RunContext) -> StepResult:
    versions = fetch_sources(context, facts_of(context))
    return _was_read(context, SearchOutput(asked=[], order=[], versions=versions))


def search(context: RunContext) -> StepResult:
    """Search separately for each fact that its own page no longer mentions."""
    facts = facts_of(context)
    said = statements(facts, _known_texts(context), _pages(context))
    silent = [fact for fact in facts if str(fact.pk) not in said]
    queries, versions = search_for(context, silent)
    new = context.run.hits.count()
    output: FilterOutput = {
        "known": 0,
        "new": new,
        "returning": 0,
        "blocked": 0,
        "queries": queries,
        "versions": versions,
    }
    return _was_read(context, output)


def _was_read(context: RunContext, output: SearchOutput | FilterOutput) -> StepResult:
    hits = list(context.run.hits.all())
    read = sum(hit.reading == Hit.Reading.READ for hit in hits)
    context.run.put(read_count=read)
    message = ngettext("%(n)d page read", "%(n)d pages read", read) % {"n": read}
    return StepResult(output, detail=message, counts={"read": read, "pages": len(hits)})


def compare(context: RunContext) -> StepResult:
    """Compare the pages with the facts, and write the report."""
    memory = inputs.loaded_memory(context)
    assert memory is not None  # noqa: S101 (`load` saw to it)  # nosec B101
    facts, pages = facts_of(context), _pages(context)
    said = statements(facts, _known_texts(context), pages)
    draft = Draft("", "", list(said.values()), written_by=EXTRACTIVE, is_extractive=True)
    output = composing.compose(context, memory, [page.reading for page in pages], draft)
    ids = {str(fact.pk) for fact in facts}
    # A recheck brings no news, and facts that it didn't search for haven't gone quiet.
    output["changes"] = [
        change
        for change in output["changes"]
        if change["previous_id"] in ids and change["status"] not in (Status.GONE, Status.GONE_QUIET)
    ]
    _forget_unused(context, output["sources"])
    counts = _write_down(context, facts, output)
    _drop_unmentioned(output)
    output["heading"] = _("Recheck Results")
    return StepResult(output, detail=_describe(counts), counts=counts)


def _drop_unmentioned(output: WriteOutput) -> None:
    """Drop the sources of facts that weren't checked, and renumber the others without gaps."""
    cited = set(report_text.cited([output["body"]]))
    kept = [s for s in output["sources"] if not s.get("is_earlier") or s["n"] in cited]
    numbers = {source["n"]: place for place, source in enumerate(kept, start=1)}
    output["body"] = report_text.renumbered(output["body"], numbers)
    output["sources"] = [{**source, "n": numbers[source["n"]]} for source in kept]
    for change in output["changes"]:
        change["citations"] = [numbers[n] for n in change["citations"] if n in numbers]
    for finding in output["findings"]:
        finding["citations"] = [numbers[n] for n in finding["citations"] if n in numbers]


def _known_texts(context: RunContext) -> list[str]:
    memory = inputs.loaded_memory(context)
    return [without_citations(fact.text) for fact in memory.facts] if memory else []


def _pages(context: RunContext) -> list[Page]:
    found = search_reading.readings(context)
    # Statements are compared with the facts, not with the last version of their page.
    pages = (replace(page, number=n, previous="") for n, page in enumerate(found, start=1))
    return [Page.of(page) for page in pages]


def _forget_unused(context: RunContext, sources: Sequence[CitedSource]) -> None:
    """Drop search results that no fact cites, because later runs would skip them as seen."""
    cited = [source["link"] for source in sources]
    context.run.hits.exclude(link__in=cited).exclude(service=SERVICE).delete()


def _write_down(context: RunContext, facts: list[TopicFact], output: WriteOutput) -> dict[str, int]:
    """Write the short report of the recheck into the step's output. Return the counts."""
    by_fact = {change["previous_id"]: change for change in output["changes"]}
    groups: Versions = {}
    for fact in facts:
        change = by_fact.get(str(fact.pk))
        status = change["status"] if change else ""
        if change:
            line = _change_line(change)
        else:
            marks = "".join(f"[{s['n']}]" for s in output["sources"] if s["link"] == fact.url)
            line = f"{' '.join(filter(None, [fact.text, marks]))} ({_why_not(context, fact)})"
        groups.setdefault(status, []).append(f"- {line}")
    titles = {
        Status.CONTRADICTED: _("Contradicted"),
        Status.CHANGED: _("Changed"),
        Status.CONFIRMED: _("Confirmed"),
        "": _("Couldn’t be checked"),
    }
    counts = {
        "confirmed": len(groups.get(Status.CONFIRMED, [])),
        "changed": len(groups.get(Status.CHANGED, [])),
        "contradicted": len(groups.get(Status.CONTRADICTED, [])),
        "unchecked": len(groups.get("", [])),
    }
    title = ngettext("Recheck of %(n)d fact", "Recheck of %(n)d facts", len(facts))
    summary = f"{title % {'n': len(facts)}}: {_describe(counts)}."
    parts = [summary]
    for status, heading in titles.items():
        if groups.get(status):
            parts += [f"## {heading}", "\n".join(groups[status])]
    output["body"], output["summary"] = "\n\n".join(parts), summary
    output["quiet"] = _("Nothing changed: %(counts)s.") % {"counts": _describe(counts)}
    return counts


def _change_line(change: dict[str, Any]) -> str:
    marks = "".join(f"[{number}]" for number in change["citations"])
    line = f"{change['sentence']} {marks}".strip()
    if change["status"] == Status.CONFIRMED:
        return line
    before = _("before: %(text)s") % {"text": change["previous_text"]}
    return f"{line} ({before})"


def _why_not(context: RunContext, fact: TopicFact) -> str:
    """Return why a fact couldn't be checked."""
    hit = context.run.hits.filter(link=fact.url).first() if fact.url else None
    if hit is None:
        return _("it has no readable source, and a search found no other source")
    if hit.reading != Hit.Reading.READ:
        why = hit.reason or _("not read")
        return _("its source couldn’t be read: %(why)s") % {"why": why.rstrip(".")}
    return _("its source no longer supports it, and a search found no other source")


def _facts(count: int) -> str:
    return ngettext("%(n)d fact to check", "%(n)d facts to check", count) % {"n": count}


def _describe(counts: dict[str, int]) -> str:
    words = {
        "contradicted": _("%(n)d contradicted"),
        "changed": _("%(n)d changed"),
        "confirmed": _("%(n)d confirmed"),
        "unchecked": _("%(n)d couldn’t be checked"),
    }
    texts = [words[name] % {"n": counts[name]} for name in words if counts[name]]
    return joined(", ", texts)


def save(context: RunContext) -> StepResult:
    """Save the recheck as the topic's next run, without follow-ups.

    The topic keeps the summary of its last report, and the sample doesn't count a recheck as a
    batch.
    """
    with transaction.atomic():
        mine = Topic.objects.filter(pk=context.topic.pk)
        kept = mine.select_for_update().values("summary", "memory_runs").get()
        result = saving.save(context, [])
        mine.update(**kept)
        for read in (context.output("search"), context.output("filter_seen")):
            for url, (etag, modified) in read.get("versions", {}).items():
                pages = Source.objects.filter(topic=context.topic, url=url)
                pages.update(etag=etag, last_modified=modified)
    return result
