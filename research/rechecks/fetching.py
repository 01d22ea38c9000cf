"""Reading the sources of facts again: by a conditional request where the page was kept, else whole.

Data flow: facts -> one hit a source -> the page (or, unchanged, its stored text) as a content item
on the hit -> facts that no page speaks of are searched for alone, the first pages read likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structlog
from django.db import transaction
from django.utils.translation import gettext as _

from beacon_site.providers import sample
from beacon_site.providers.errors import ProviderError
from beacon_site.providers.fetch import WebPage
from beacon_site.providers.search import SearchHit, SearchProvider
from memory.models import TopicFact
from memory.texts.canonical import canonical_url, domain_of
from memory.texts.text import clean, one_line, without_citations
from research.models import Hit
from research.search import gathering, reading
from research.topic_settings import standing_rules
from research.working import inputs
from research.working.context import RunContext

logger = structlog.get_logger(__name__)

SERVICE = "recheck"  # what a hit says that a search did not find
MOST_SERVICES = 2  # that are asked for a fact alone
MOST_PAGES = 2  # of what they find, read for a fact
_OPENABLE = ("http://", "https://", "library:")


def facts_of(work: RunContext) -> list[TopicFact]:
    """Return the facts that the run checks, as they are now and still current."""
    wanted = TopicFact.objects.filter(topic=work.topic, pk__in=work.run.rechecks).current()
    known = {fact.id for fact in memory.facts} if (memory := inputs.known(work)) else set()
    return [fact for fact in wanted if str(fact.pk) in known]


def read_sources(work: RunContext, facts: Sequence[TopicFact]) -> dict[str, list[str]]:
    """Read the page of each fact again; return what servers said of the versions, by address."""
    places = {fact.url: fact.source_title for fact in facts if _may_open(work, fact.url)}
    hits = [
        _hit(work, url, place, title=title, service=SERVICE)
        for place, (url, title) in enumerate(places.items(), start=1)
    ]
    return _read(work, [hit for hit in hits if hit is not None])


def _may_open(work: RunContext, url: str) -> bool:
    is_place = sample.is_sample_url(url) or url.startswith(_OPENABLE)
    return is_place and not standing_rules.reason_against(work.settings, _canonical(url))


def _canonical(url: str) -> str:
    try:
        return canonical_url(url)
    except ValueError:
        return url


def _hit(work: RunContext, url: str, place: int, *, service: str, **fields: Any) -> Hit | None:
    """Return the run's hit of an address, made if there is none; None for what is no address."""
    try:
        canonical, domain = canonical_url(url), domain_of(url)[:255]
    except ValueError:
        return None
    made = {"link": url, "domain": domain, "service": service, "place": place, **fields}
    made["title"] = str(made.get("title", ""))[:500]
    hit: Hit = Hit.objects.get_or_create(run=work.run, url=canonical, defaults=made)[0]
    return hit


def _read(work: RunContext, hits: Sequence[Hit]) -> dict[str, list[str]]:
    """Read the pages of hits that were not read yet, and keep what came of each."""
    left = [hit for hit in hits if hit.reading == Hit.Reading.NOT_READ]
    versions: dict[str, list[str]] = {}
    fetched = reading.fetching(work, left, is_recheck=True)
    calls: list[Callable[[], WebPage]] = [
        partial(reading.noting_version, get, hit, versions)
        for hit, get in zip(left, fetched, strict=True)
    ]
    for done, outcome in enumerate(work.each_of(calls, at_once=4), start=1):
        hit = left[outcome.place]
        with transaction.atomic():  # the page is kept only while the run is held
            reading.keep(work, hit, outcome.get)
            told = _("%(done)d of %(all)d pages · %(domain)s")
            values = {"done": done, "all": len(left), "domain": hit.domain}
            work.progress(told % values, read=done, pages=len(left))
    return versions


# --- what no page speaks of -------------------------------------------------------------------------


def search_for(
    work: RunContext, facts: Sequence[TopicFact]
) -> tuple[list[str], dict[str, list[str]]]:
    """Search for each fact alone and read what comes first.

    Returns the queries that were asked, and what servers said of the pages' versions.
    """
    queries = [_query(fact) for fact in facts]
    if not queries or work.is_stopping:
        return [], {}
    try:
        services = gathering.services_of(work, queries)[:MOST_SERVICES]
    except ProviderError as exc:
        work.run.warn(_("facts were not searched for: %(why)s") % {"why": exc})
        return [], {}
    calls: list[Callable[[], list[SearchHit]]] = [
        partial(_ask, work, service.provider, query) for query in queries for service in services
    ]
    options: list[Hit] = []
    place = work.run.hits.count()
    for outcome in work.each_of(calls, at_once=4):
        for found in _usable(work, outcome.get())[:MOST_PAGES]:
            place += 1
            told = {"title": clean(found.title)[0], "snippet": clean(found.snippet)[0]}
            hit = _hit(work, found.url, place, service=found.service or SERVICE, **told)
            options += [hit] if hit is not None else []
    return queries, _read(work, options)


def _query(fact: TopicFact) -> str:
    return one_line(without_citations(fact.text))[: inputs.MOST_QUERY_LENGTH]


def _ask(work: RunContext, provider: SearchProvider, query: str) -> list[SearchHit]:
    """Ask one service; one that does not answer finds nothing, which the log says."""
    try:
        return provider.search(query, gathering.options_of(work))
    except ProviderError as exc:
        logger.info("recheck search failed", service=provider.service, why=str(exc))
        return []


def _usable(work: RunContext, found: Sequence[SearchHit]) -> list[SearchHit]:
    return [one for one in found if _may_open(work, one.url)]
