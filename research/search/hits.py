"""What the services found, stored as one row for each page however many of them found it.

Data flow: answers -> usable results -> a hit by canonical URL, with a vote for each (query, service)
that returned it.  What stands on a hit is the word of its first vote in the topic's order; what that
one left out is the word of the next that said it.  In which order the answers come decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext as _

from beacon_site.providers.search import SearchHit
from memory.texts.canonical import canonical_url, domain_of
from memory.texts.text import clean, one_line
from research.models import Hit
from research.search import fusion
from research.search.searching import Asked
from research.working.context import RunContext

LONGEST_URL = 2048  # bytes: what the guard opens at most, and what an index of Postgres holds
_TOLD = ("service", "link", "domain", "title", "snippet", "published_at")
_MAY_LACK = ("title", "snippet", "published_at")  # a vote that says it is noted under `gave`


@dataclass(frozen=True, slots=True)
class Order:
    """The topic's services and the run's queries, each with its place from 0."""

    services: Mapping[str, int]
    queries: Mapping[str, int]

    @classmethod
    def of(cls, services: Sequence[str], queries: Sequence[str]) -> Order:
        """Return the order of these services and queries."""
        return cls(*({name: n for n, name in enumerate(names)} for names in (services, queries)))

    def first(self, votes: Sequence[Mapping[str, Any]]) -> tuple[int, int, int]:
        """Return the place of the first of these votes: service, query, rank."""
        return fusion.first_vote(votes, self.services, self.queries)


def keep(work: RunContext, answers: Sequence[Asked], order: Order, count: int) -> int:
    """Store the hits of these answers beside the `count` that the run has; return the new count."""
    found = [(asked, result) for asked in answers for result in _usable(work, asked)]
    urls = [canonical_url(result.url) for _asked, result in found]
    known = {hit.url: hit for hit in work.run.hits.filter(url__in=urls)}
    fresh: dict[str, Hit] = {}
    for (asked, result), url in zip(found, urls, strict=True):
        hit = known.get(url) or fresh.get(url)
        if hit is None:
            count += 1
            hit = fresh[url] = Hit(run=work.run, url=url, place=count)
        _vote(hit, asked, result, order)
    Hit.objects.bulk_create(fresh.values(), ignore_conflicts=True)
    store_again(known.values(), ["queries", "rank", *_TOLD])
    return count


def store_again(hits: Iterable[Hit], fields: Sequence[str]) -> None:
    """Store these fields of hits that have rows already, in one statement.

    An update by columns: `bulk_update` makes a condition for each hit and field, which takes a third
    of a millisecond each, and eight services find hundreds of hits.
    """
    Hit.objects.bulk_create(hits, update_conflicts=True, unique_fields=["id"], update_fields=fields)


def _vote(hit: Hit, asked: Asked, result: SearchHit, order: Order) -> None:
    """Add a vote to a hit, and take over what it says as far as no earlier one said it."""
    hit.rank = min(hit.rank or result.rank, result.rank)
    if any((v["query"], v["service"]) == (asked.query, asked.service) for v in hit.queries):
        return  # twins of one page in one answer are one vote for it, that of the best
    told = _told(result)
    gave = [name for name in _MAY_LACK if told[name]]
    vote = {"query": asked.query, "service": asked.service, "rank": result.rank, "gave": gave}
    for name in _TOLD:
        if name in _MAY_LACK and name not in gave:
            continue
        others = [v for v in hit.queries if name not in _MAY_LACK or name in v["gave"]]
        if not others or order.first([vote]) < order.first(others):
            setattr(hit, name, told[name])
    hit.queries = [*hit.queries, vote]
    if not any("title" in v["gave"] for v in hit.queries):
        hit.title = hit.link[:500]


def _told(result: SearchHit) -> dict[str, Any]:
    return {
        "service": result.service,
        "link": result.url,
        "domain": domain_of(result.url)[:255],
        "title": result.title,
        "snippet": result.snippet,
        "published_at": result.published_at,
    }


def _usable(work: RunContext, asked: Asked) -> list[SearchHit]:
    """Return an answer's hits; one without an address, or one longer than any page's, is left out."""
    usable = [found for found in map(_cleaned, asked.hits) if _has_address(found)]
    if len(usable) < len(asked.hits):
        work.run.warn(
            _("%(service)s gave hits without a usable address; they are left out")
            % {"service": asked.service}
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
    return 0 < longest <= LONGEST_URL
