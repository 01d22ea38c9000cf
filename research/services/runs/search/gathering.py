"""Steps 3 and 4: search the services, store and order the hits, and separate new from known ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.utils.text import get_text_list

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.providers.search.answers import distinct
from beacon_site.providers.search.base import BY_NAME, SearchHit, SearchOptions, SearchProvider
from beacon_site.text.canonical_urls import canonical_url, domain_of, is_in_domain
from beacon_site.text.cleaning import clean, one_line
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import joined, ngettext
from memory.models import SeenUrl, Source
from memory.services.library import documents as library_services
from memory.services.library import folder as library_folder
from memory.services.llm import connections
from memory.services.review import proposals as review_services
from research.models import Hit, TopicSettings
from research.models.topics import is_page
from research.services.runs.context import applied_rules, inputs
from research.services.runs.context.outputs import AskedQuery, FilterOutput, SearchOutput
from research.services.runs.context.run_context import RunContext, StepResult
from research.services.runs.search import known_pages, searching
from research.services.runs.search.searching import TRIES, Gate, Network, QueryResult
from research.services.topics.settings import standing_rules

RRF = 60  # rank constant of reciprocal rank fusion (Cormack et al. 2009)


def fused(entries: Sequence[Mapping[str, Any]], places: Mapping[str, int]) -> float:
    """Return a hit's reciprocal rank fusion over each (query, service) that returned it.

    `entries` have service and rank. `places` are the services' places in the topic's order, from 0.
    Each place counts as one rank, so the first hit of the second service equals the second hit of
    the first. The order decides ties and near-ties, but a much better rank still wins. A page that
    two services found always comes before one that only one found: 10 ranks and 10 services can't
    halve a vote (1/61 against 1/80).
    """
    # Summed exactly, because rounding in order of arrival must not separate equal hits.
    return math.fsum(
        1 / (RRF + (entry["rank"] or 1) + places.get(entry["service"], len(places)))
        for entry in entries
    )


def first_vote(
    entries: Sequence[Mapping[str, Any]], places: Mapping[str, int], queries: Mapping[str, int]
) -> tuple[int, int, int]:
    """Return a hit's first vote (service, query, rank), which breaks ties of equal scores.

    The order of hits must not depend on the order in which responses arrive.
    """
    return min(
        (
            (
                places.get(entry["service"], len(places)),
                queries.get(entry["query"], len(queries)),
                entry["rank"] or 1,
            )
            for entry in entries
        ),
        default=(len(places), len(queries), 0),
    )


# --- hits ---

MAX_URL_LENGTH = 2048  # bytes: the limit of the guard, and of a Postgres index
_TOLD = ("service", "link", "domain", "title", "snippet", "published_at")
_MAY_LACK = ("title", "snippet", "published_at")  # `gave` lists those that a vote has


Order = tuple[dict[str, int], dict[str, int]]


def order_of(services: Iterable[str], queries: Iterable[str]) -> Order:
    """Return the places of the topic's services and of the run's queries, each from 0."""
    return {name: n for n, name in enumerate(services)}, {one: n for n, one in enumerate(queries)}


def keep(context: RunContext, answers: Sequence[QueryResult], order: Order, count: int) -> int:
    """Add the hits of these answers to the run's `count` hits. Return the new count."""
    found = [(asked, result) for asked in answers for result in _usable(context, asked)]
    urls = [canonical_url(result.url) for _asked, result in found]
    known = {hit.url: hit for hit in context.run.hits.filter(url__in=urls)}
    fresh: dict[str, Hit] = {}
    for (asked, result), url in zip(found, urls, strict=True):
        hit = known.get(url) or fresh.get(url)
        if hit is None:
            count += 1
            hit = fresh[url] = Hit(run=context.run, url=url, place=count)
        _vote(hit, asked, result, order)
    Hit.objects.bulk_create(fresh.values(), ignore_conflicts=True)
    store_again(known.values(), ["queries", "rank", *_TOLD])
    return count


def store_again(hits: Iterable[Hit], fields: Sequence[str]) -> None:
    """Store these fields of existing hits in one statement.

    It updates by columns. `bulk_update` creates a condition for each hit and field, which takes a
    third of a millisecond each, and eight services find hundreds of hits.
    """
    Hit.objects.bulk_create(hits, update_conflicts=True, unique_fields=["id"], update_fields=fields)


def _vote(hit: Hit, asked: QueryResult, result: SearchHit, order: Order) -> None:
    """Add a vote to a hit, and fill in fields that no earlier answer had."""
    hit.rank = min(hit.rank or result.rank, result.rank)
    if any((v["query"], v["service"]) == (asked.query, asked.service) for v in hit.queries):
        return  # duplicates of a page in one answer count as one vote, the best
    values = _hit_fields(result)
    gave = [name for name in _MAY_LACK if values[name]]
    vote = {"query": asked.query, "service": asked.service, "rank": result.rank, "gave": gave}
    for name in _TOLD:
        if name in _MAY_LACK and name not in gave:
            continue
        others = [v for v in hit.queries if name not in _MAY_LACK or name in v["gave"]]
        if not others or first_vote([vote], *order) < first_vote(others, *order):
            setattr(hit, name, values[name])
    hit.queries = [*hit.queries, vote]
    if not any("title" in v["gave"] for v in hit.queries):
        hit.title = hit.link[:500]


def _hit_fields(result: SearchHit) -> dict[str, Any]:
    return {
        "service": result.service,
        "link": result.url,
        "domain": domain_of(result.url)[:255],
        "title": result.title,
        "snippet": result.snippet,
        "published_at": result.published_at,
    }


def _usable(context: RunContext, result: QueryResult) -> list[SearchHit]:
    """Return an answer's hits without those that have no URL or one that is too long."""
    usable = [found for found in map(_cleaned, result.hits) if _has_address(found)]
    if len(usable) < len(result.hits):
        context.run.warn(
            _("Results from %(service)s without a usable URL were left out.")
            % {"service": result.service}
        )
    return usable


def _cleaned(found: SearchHit) -> SearchHit:
    return replace(
        found,
        url=clean(found.url)[0].strip(),
        title=one_line(clean(found.title)[0])[:500],
        snippet=one_line(clean(found.snippet)[0]),
    )


def _has_address(found: SearchHit) -> bool:
    longest = max(len(found.url.encode()), len(canonical_url(found.url).encode()))
    return 0 < longest <= MAX_URL_LENGTH


# --- search ---

HITS_A_QUERY = 10
AT_ONCE = 48  # threads, which mostly wait: eight services with six queries each
_OPENABLE = ("http://", "https://", "library:")


class NoSearchService(ProviderRejected):
    """No search service is available. The message says what to set up."""


@dataclass(frozen=True, slots=True)
class Service:
    """One service of the topic, and its queries."""

    provider: SearchProvider
    queries: list[str]
    all_queries: int

    @property
    def name(self) -> str:
        return self.provider.service

    @property
    def is_slow(self) -> bool:
        """Return True if it gets one query at a time, because it makes others wait anyway."""
        return bool(getattr(self.provider, "is_paced", False))


def search(context: RunContext) -> StepResult:
    """Send every planned query to every service of the topic, in parallel (R36).

    Queries that are equal for a service are sent once, and a slow service only gets the first
    `queries_a_run`. Answers are stored as they arrive, so a resumed run doesn't repeat them. A
    failing query never fails the run (R47). If all failed, the step raises ProviderUnavailable if a
    retry may help, otherwise ProviderRejected.
    """
    services = services_of(context, context.output("plan")["queries"])
    before: list[AskedQuery] = context.step.output.get("asked", [])
    done = [entry for entry in before if not entry["problem"]]
    order = [service.name for service in services]
    calls = _calls(context, services, {(entry["query"], entry["service"]) for entry in done})
    places = order_of(order, context.output("plan")["queries"])
    place = context.run.hits.count()
    if calls:
        context.check_there_is_something(done)
    for batch in context.batches_of(calls, at_once=AT_ONCE):
        answers = [asked for _place, get in batch for asked in get()]
        # both the hits and the note of their arrival, while the run is held
        with transaction.atomic():
            place = keep(context, answers, places, place)
            done += [asked.as_json() for asked in answers]
            context.progress(
                _progress_text(done, sum(len(service.queries) for service in services), place),
                output=SearchOutput(asked=done, order=order),
                queries=len(done),
                hits=place,
            )
    _pass_on_warnings(context, services, done)
    context.check_there_is_something(done)
    return _searched(context, services, done, place)


def _progress_text(done: list[AskedQuery], count: int, hits: int) -> str:
    """Return how many of `count` queries were answered, failed or skipped, and the number of hits."""
    failed = sum(bool(entry["problem"]) and entry["tries"] > 0 for entry in done)
    unasked = sum(bool(entry["problem"]) and not entry["tries"] for entry in done)
    parts = [
        _("%(done)d of %(all)d queries answered")
        % {"done": len(done) - failed - unasked, "all": count},
        _("%(n)d failed") % {"n": failed} if failed else "",
        _("%(n)d skipped") % {"n": unasked} if unasked else "",
        ngettext("%(n)d result", "%(n)d results", hits) % {"n": hits},
    ]
    return ", ".join(part for part in parts if part)


def services_of(context: RunContext, queries: list[str]) -> list[Service]:
    """Return the topic's services in order.

    Raises NoSearchService if there is none.
    """
    ready, lacking = [], []
    for name in connections.search_services(context.settings.services):
        if name == "library":
            # A run checks the watched folder first, so the latest changes count.
            folder = library_folder.scan_if_due(every=0)
            if folder is not None and folder.remaining:
                message = ngettext(
                    "%(n)d file in the watched folder hadn’t been read when this run searched the library. A later run will include it.",
                    "%(n)d files in the watched folder hadn’t been read when this run searched the library. A later run will include them.",
                    folder.remaining,
                )
                context.run.warn(message % {"n": folder.remaining})
        if name == "feeds" and not context.settings.feeds:
            lacking.append(_("the topic has no feeds"))
        elif name == "library" and library_services.is_empty(context.topic.owner):
            lacking.append(_("the library is empty"))
        else:
            provider = searching.search_provider(name, owner=context.topic.owner)
            if provider is not None:
                bound = BY_NAME[name].queries_a_run if name in BY_NAME else None
                own = distinct(provider, queries, options_of(context))
                ready.append(Service(provider, own[:bound], len(own)))
    if ready:
        return ready
    none = _("none of the topic’s search services are enabled on this server")
    why = get_text_list(lacking, _("and")) if lacking else none
    raise NoSearchService(
        _(
            "No search service is available: %(why)s. In the topic’s settings, add a feed or select a service that doesn’t need a key, such as Wikipedia. You can also add a document to the library. Then retry the run. The sample topic needs none of these."
        )
        % {"why": why}
    )


def options_of(context: RunContext) -> SearchOptions:
    settings, memory = context.settings, inputs.loaded_memory(context)
    return SearchOptions(
        limit=HITS_A_QUERY,
        since=inputs.since(settings),
        languages=tuple(settings.languages),
        engine=settings.engine,
        batch=memory.batch if memory else 1,
        feeds=tuple(settings.feeds),
        about=context.topic.title,
        last_asked=memory.last_run_at if memory else None,
    )


def _calls(
    context: RunContext, services: Sequence[Service], answered: set[tuple[str, str]]
) -> list[Callable[[], list[QueryResult]]]:
    """Return the calls, with the first query of each service before the second of any.

    That way, a service that rejects everything usually does so before its other queries start.
    """
    options, network = options_of(context), Network()
    # R47 limits the attempts of a query, so a postponed run makes one more attempt, not 3.
    tries = 1 if context.run.tries else TRIES
    calls: list[tuple[int, Callable[[], list[QueryResult]]]] = []
    for service in services:
        gate = Gate(service.name, network)
        left = [query for query in service.queries if (query, service.name) not in answered]
        chains = [left] if service.is_slow and left else [[query] for query in left]
        calls += [
            (place, _call(service.provider, chain, options, gate, tries))
            for place, chain in enumerate(chains)
        ]
    return [call for _place, call in sorted(calls, key=lambda each: each[0])]


def _call(
    provider: SearchProvider, queries: list[str], options: SearchOptions, gate: Gate, most: int
) -> Callable[[], list[QueryResult]]:
    return lambda: [
        searching.ask(provider, query, options, gate=gate, most=most) for query in queries
    ]


def _pass_on_warnings(
    context: RunContext, services: Sequence[Service], done: list[AskedQuery]
) -> None:
    """Pass on the warnings of a service that answered, such as a broken feed."""
    text = " ".join(entry["problem"] for entry in done)
    for service in services:
        for warning in getattr(service.provider, "warnings", ()):
            if str(warning) not in text:
                context.run.warn(str(warning))


def _searched(
    context: RunContext, services: Sequence[Service], done: list[AskedQuery], count: int
) -> StepResult:
    failed = [entry for entry in done if entry["problem"]]
    answered = {entry["service"] for entry in done if not entry["problem"]}
    order = [service.name for service in services]
    # A service that was removed while the run waited has no place.
    places = {name: place for place, name in enumerate(order)}
    queries = sorted(done, key=lambda entry: places.get(entry["service"], len(places)))
    complaints = searching.complaints(queries)
    # An empty answer from one service doesn't show what an unavailable one would have found.
    silent = {entry["service"] for entry in failed} - answered
    if silent and not count:
        _raise_for(failed, complaints, answered)
    for complaint in complaints:
        context.run.warn(complaint)
    return StepResult(
        SearchOutput(asked=done, order=order),
        detail=_detail(services, done, count),
        counts={"queries": len(done), "hits": count, "failed": len(failed)},
        warning=joined(" ", complaints),
    )


def _raise_for(failed: list[AskedQuery], complaints: list[str], answered: set[str]) -> None:
    """End a search without results. Raises ProviderUnavailable or ProviderRejected."""
    why = joined(" ", complaints)
    if answered:
        params = {"why": why, "services": searching.listed(sorted(answered))}
        message = _("%(services)s found nothing, and every other search failed: %(why)s")
        message %= params
    else:
        message = _("every search failed: %(why)s") % {"why": why}
    if searching.unreachable(failed):
        message += " " + _("The library and the sample topic work without network access.")
    if any(entry["may_retry"] for entry in failed):
        waits = [wait for entry in failed if (wait := entry["retry_after"])]
        raise ProviderUnavailable(message, retry_after=max(waits, default=None))
    raise ProviderRejected(message)


def _detail(services: Sequence[Service], done: list[AskedQuery], count: int) -> str:
    """Return how many hits came from which services, and which services got only some queries."""
    answered = {entry["service"] for entry in done if not entry["problem"]}
    gave = {entry["service"] for entry in done if entry["hits"]} or answered
    names = [service.name for service in services if service.name in gave]
    parts = [
        ngettext("%(hits)d result from %(services)s", "%(hits)d results from %(services)s", count)
        % {"hits": count, "services": ", ".join(map(searching.label_of, names))}
    ]
    parts += [
        _("%(service)s received only the first %(some)d of %(all)d queries")
        % {
            "service": searching.label_of(service.name),
            "some": len(service.queries),
            "all": service.all_queries,
        }
        for service in services
        if len(service.queries) < service.all_queries
    ]
    return joined("; ", parts)


def filter_seen(context: RunContext) -> StepResult:
    """Mark hits as new, known, returning or blocked, and sort them (R37).

    A page that was read before is returning, even if it is no longer among the seen URLs. So is a
    known page that is always checked.
    """
    applied_rules.add_pages(context)
    known_pages.add_pages(context)
    found = list(context.run.hits.all())
    classify(context, found)
    _sort_hits(context, found)
    for place, hit in enumerate(found, start=1):
        hit.place = place
    counts = Counter(hit.state for hit in found if hit.service != known_pages.SERVICE)
    new, known = counts[Hit.State.NEW], counts[Hit.State.KNOWN]
    returning, blocked = counts[Hit.State.RETURNING], counts[Hit.State.BLOCKED]
    left_out = applied_rules.left_out(context.settings, found)
    added = sum(hit.service == applied_rules.SERVICE for hit in found)
    # All that isn't a result of the step before is named, so the two steps agree.
    words = [
        _("%(new)d new, %(known)d known") % {"new": new, "known": known},
        _("%(n)d seen again") % {"n": returning} if returning else "",
        applied_rules.in_few_words(context.settings, found),
        _("%(n)d added by your rules") % {"n": added} if added else "",
    ]
    with transaction.atomic():
        context.run.put(new_count=new, known_count=known, returning_count=returning)
        store_again(found, ["state", "reason", "place"])
    output: FilterOutput = {
        "new": new,
        "known": known,
        "returning": returning,
        "blocked": blocked,
        "left_out": left_out,
    }
    return StepResult(
        output,
        detail=joined(
            "; ",
            [
                joined(", ", filter(None, words)),
                *applied_rules.describe_left_out(left_out)[: applied_rules.MAX_NAMED],
            ],
        ),
        counts={"new": new, "known": known, "returning": returning, "blocked": blocked},
    )


def classify(context: RunContext, found: Sequence[Hit]) -> None:
    """Set the state and reason of each hit, without storing them."""
    urls = [hit.url for hit in found]
    seen: set[str] = set()
    read: set[str] = set()
    if inputs.loaded_memory(context) is not None:
        seen_urls = SeenUrl.objects.filter(topic=context.topic, url__in=urls)
        seen = set(seen_urls.values_list("url", flat=True))
        sources = Source.objects.filter(topic=context.topic, url__in=urls)
        read = set(sources.values_list("url", flat=True))
    refuses = review_services.refused_domains(context.topic.owner)
    turned_away: Counter[str] = Counter()
    for hit in found:
        hit.state, hit.reason = _state(context, hit, seen, read)
        place = standing_rules.place_of(hit.url, refuses)
        if place:
            params = {"place": standing_rules.readable_rule(place)}
            hit.state, hit.reason = Hit.State.BLOCKED, _("you blocked all of %(place)s") % params
            turned_away[place] += 1
    for place, number in turned_away.items():
        review_services.count_pages(context.topic.owner, place, number)


def _state(context: RunContext, hit: Hit, seen: set[str], read: set[str]) -> tuple[str, str]:
    settings = context.settings
    if not hit.url.startswith(_OPENABLE):
        return Hit.State.BLOCKED, _("not a web page (the URL isn’t http or https)")
    place = standing_rules.reason_against(settings, hit.url)
    if place and not _is_checked_all_the_same(settings, hit):
        where = standing_rules.readable_rule(place)
        return Hit.State.BLOCKED, _("the topic never reads %(place)s") % {"place": where}
    if applied_rules.is_always(settings, hit):
        if hit.url in seen or hit.url in read:
            return Hit.State.RETURNING, _("always included by your rule")
        return Hit.State.NEW, ""
    allowed = settings.allow_domains
    if allowed and not any(is_in_domain(hit.url, domain) for domain in allowed):
        return Hit.State.BLOCKED, _("not one of the topic’s allowed domains")
    if hit.url in seen:
        return Hit.State.KNOWN, ""
    if hit.url in read:
        return Hit.State.RETURNING, _("read in an earlier run")
    return Hit.State.NEW, ""


def _is_checked_all_the_same(settings: TopicSettings, hit: Hit) -> bool:
    """Return True if the topic always includes a page that is blocked for all topics.

    The topic's own rules can't contradict each other, and override those for all topics.
    """
    checks = filter(is_page, settings.always_check)
    return any(canonical_url(standing_rules.address_of(check)) == hit.url for check in checks)


def _sort_hits(context: RunContext, found: list[Hit]) -> None:
    """Sort the hits by all their votes. See `fused` for the effect of the services' order."""
    services = context.output("search").get("order", [])
    places, queries = order_of(services, context.output("plan")["queries"])
    found.sort(
        key=lambda hit: (
            not applied_rules.is_always(context.settings, hit),
            not applied_rules.is_boosted(context.settings, hit),
            -fused(hit.queries, places),
            first_vote(hit.queries, places, queries),
            hit.place,
        )
    )
