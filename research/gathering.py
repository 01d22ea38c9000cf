"""Steps 3 and 4: asking the search services, and telling new hits from known ones.

Data flow: queries x services, in parallel -> hits, one row by canonical URL -> each new, known,
returning or blocked, in one order for all that follows.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import structlog
from django.db import DatabaseError, transaction
from django.utils.translation import gettext as _

from beacon_site.providers.errors import ProviderError, ProviderRejected, ProviderUnavailable
from beacon_site.providers.search import SearchHit, SearchOptions, SearchProvider
from memory import connections, library
from memory.canonical import canonical_url, domain_of, is_in_domain
from memory.models import SeenUrl, Source
from memory.text import clean, one_line
from research import planning
from research.models import Hit
from research.stepping import StepResult, Work

logger = structlog.get_logger(__name__)

TRIES = 3  # R47: a failing query is tried up to three times in all
PAUSES = (0.5, 1.5)  # seconds between the tries of one query
HITS_A_QUERY = 10
LONGEST_URL = 2048  # bytes: what the guard opens at most, and what an index of Postgres holds
_OPENABLE = ("http://", "https://", "library:")
_RRF = 60  # rank constant of reciprocal rank fusion (Cormack et al. 2009)


class NothingToAsk(ProviderRejected):
    """No search service could be asked at all; the message says what to set up."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What asking one service one query gave."""

    query: str
    service: str
    hits: list[SearchHit]
    tries: int
    milliseconds: int
    problem: str = ""
    may_retry: bool = False
    retry_after: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return what the step keeps and its page shows: everything but the hits themselves."""
        return {
            "query": self.query,
            "service": self.service,
            "hits": len(self.hits),
            "tries": self.tries,
            "ms": self.milliseconds,
            "problem": self.problem,
            "may_retry": self.may_retry,
            "retry_after": self.retry_after,
        }


def search(work: Work) -> StepResult:
    """Ask every planned query of every service of the topic, in parallel (R36).

    What has answered is kept as it comes, so a resumed run asks it no second time.  A failing
    query never fails the run (R47).  If every one failed the step raises: ProviderUnavailable
    where trying later may help, else ProviderRejected.
    """
    queries = work.output("plan")["queries"]
    services = _services(work)
    done = [entry for entry in work.step.output.get("asked", []) if not entry["problem"]]
    answered = {(entry["query"], entry["service"]) for entry in done}
    # R47 counts the tries of a query: a run that was put off asks once more, not thrice.
    tries = 1 if work.run.tries else TRIES
    calls = [
        _call(provider, query, options, tries)
        for provider, options in services
        for query in queries
        if (query, provider.service) not in answered
    ]
    place = work.run.hits.count()
    if calls:
        work.check_there_is_something(done)
    for outcome in work.each_of(calls):
        asked = outcome.get()
        with transaction.atomic():  # hits and the note that they came: both, while the run is held
            place = _keep(work, asked, place)
            done.append(asked.as_json())
            work.progress(
                _("%(done)d of %(all)d queries answered, %(hits)d hits")
                % {"done": len(done), "all": len(queries) * len(services), "hits": place},
                output={"asked": done},
                queries=len(done),
                hits=place,
            )
    for provider, _options in services:
        # A feed that answered but was broken in part says so here.
        for warning in getattr(provider, "warnings", ()):
            work.run.warn(str(warning))
    work.check_there_is_something(done)
    return _searched(work, done, place)


def _services(work: Work) -> list[tuple[SearchProvider, SearchOptions]]:
    """Return the topic's services ready to be asked.  Raises NothingToAsk if there is none."""
    settings = work.settings
    memory = planning.known(work)
    options = SearchOptions(
        limit=HITS_A_QUERY,
        since=planning.since(settings),
        languages=tuple(settings.languages),
        engine=settings.engine,
        batch=memory.batch if memory else 1,
        feeds=tuple(settings.feeds),
        about=work.topic.title,
        last_asked=memory.last_run_at if memory else None,
    )
    ready = []
    for name in connections.search_services(settings.services):
        if name == "feeds" and not settings.feeds:
            continue
        if name == "library" and library.is_empty(work.topic.owner):
            continue
        provider = connections.search_provider(name, owner=work.topic.owner)
        if provider is not None:
            ready.append((provider, options))
    if not ready:
        raise NothingToAsk(
            _(
                "No search service could be asked: there is no SerpAPI key, the topic names no "
                "feed, and the library holds no document. Add one of them, in the topic's settings "
                "or under Settings, Connections, and retry the run."
            )
        )
    return ready


def _call(
    provider: SearchProvider, query: str, options: SearchOptions, most: int
) -> Callable[[], Asked]:
    return lambda: ask(provider, query, options, most=most)


def ask(
    provider: SearchProvider, query: str, options: SearchOptions, *, most: int = TRIES
) -> Asked:
    """Ask one query of one service, up to `most` times while it is unavailable (R47).

    An empty answer is an answer and is not asked again.  Never raises for the service's failures.
    """
    began = time.monotonic()
    problem, may_retry, hits, tries = "", False, [], 0
    retry_after: float | None = None
    for tries in range(1, most + 1):
        try:
            hits, problem = provider.search(query, options), ""
            break
        except ProviderUnavailable as exc:
            problem, may_retry, retry_after = str(exc), True, exc.retry_after
            if tries < most:
                time.sleep(min(exc.retry_after or PAUSES[tries - 1], 5.0))
        except ProviderError as exc:
            problem, may_retry = str(exc), False
            break
        except DatabaseError as exc:  # the library's
            problem, may_retry = _("the database did not answer: %(why)s") % {"why": exc}, True
    milliseconds = round((time.monotonic() - began) * 1000)
    logger.info(
        "search answered" if not problem else "search failed",
        service=provider.service,
        hits=len(hits),
        tries=tries,
        ms=milliseconds,
    )
    return Asked(
        query, provider.service, hits, tries, milliseconds, problem, may_retry, retry_after
    )


def _keep(work: Work, asked: Asked, place: int) -> int:
    """Store the hits of one answer, one row by canonical URL; return how many the run has now.

    A hit without an address, or with one longer than any page's, is left out and said so.
    """
    usable = [found for found in map(_cleaned, asked.hits) if _has_address(found)]
    if len(usable) < len(asked.hits):
        work.run.warn(
            _("%(service)s gave hits without a usable address; they are left out")
            % {"service": asked.service}
        )
    urls = [canonical_url(found.url) for found in usable]
    known = {hit.url: hit for hit in work.run.hits.filter(url__in=urls)}
    fresh: dict[str, Hit] = {}
    for found, url in zip(usable, urls, strict=True):
        hit = known.get(url) or fresh.get(url)
        if hit is None:
            place += 1
            fresh[url] = _row(work, found, url, place)
            hit = fresh[url]
        if not any(
            (entry["query"], entry["service"]) == (asked.query, asked.service)
            for entry in hit.queries
        ):
            # Twins of one page in one answer are one vote for it, that of the best.
            entry = {"query": asked.query, "service": asked.service, "rank": found.rank}
            hit.queries = [*hit.queries, entry]
        hit.rank = min(hit.rank or found.rank, found.rank)
    Hit.objects.bulk_create(fresh.values(), ignore_conflicts=True)
    Hit.objects.bulk_update(known.values(), ["queries", "rank"])
    return place


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


def _row(work: Work, found: SearchHit, url: str, place: int) -> Hit:
    return Hit(
        run=work.run,
        url=url,
        link=found.url,
        domain=domain_of(found.url)[:255],
        title=(found.title or found.url)[:500],
        snippet=found.snippet,
        service=found.service,
        rank=found.rank,
        place=place,
        published_at=found.published_at,
    )


def _searched(work: Work, done: list[dict[str, Any]], hits: int) -> StepResult:
    failed = [entry for entry in done if entry["problem"]]
    answered = {entry["service"] for entry in done if not entry["problem"]}
    # An empty answer of one service says nothing of what another, which is down, would have found.
    silent = {entry["service"] for entry in failed} - answered
    if silent and not hits:
        reasons = "; ".join(dict.fromkeys(f"{e['service']}: {e['problem']}" for e in failed))
        message = _("every search failed: %(why)s") % {"why": reasons}
        if any(entry["may_retry"] for entry in failed):
            waits = [entry["retry_after"] for entry in failed if entry.get("retry_after")]
            raise ProviderUnavailable(message, retry_after=max(waits, default=None))
        raise ProviderRejected(message)
    warning = ""
    if failed:
        reasons = "; ".join(dict.fromkeys(f"{e['service']}: {e['problem']}" for e in failed))
        warning = _("%(failed)d of %(all)d searches failed: %(why)s") % {
            "failed": len(failed),
            "all": len(done),
            "why": reasons,
        }
        work.run.warn(warning)
    names = sorted({entry["service"] for entry in done})
    return StepResult(
        {"asked": done},
        detail=_("%(hits)d hits from %(services)s") % {"hits": hits, "services": ", ".join(names)},
        counts={"queries": len(done), "hits": hits, "failed": len(failed)},
        warning=warning,
    )


def filter_seen(work: Work) -> StepResult:
    """Tell which hits are new, known, returning or blocked, and put them in one order (R37).

    A hit that fell out of the seen URLs but was read once is returning, never new.
    """
    hits = list(work.run.hits.all())
    urls = [hit.url for hit in hits]
    seen: set[str] = set()
    read: set[str] = set()
    if planning.known(work) is not None:
        seen = set(
            SeenUrl.objects.filter(topic=work.topic, url__in=urls).values_list("url", flat=True)
        )
        read = set(
            Source.objects.filter(topic=work.topic, url__in=urls).values_list("url", flat=True)
        )
    for hit in hits:
        hit.state, hit.reason = _state(work, hit, seen, read)
    hits.sort(key=lambda hit: (-_fused(hit), hit.place))
    for place, hit in enumerate(hits, start=1):
        hit.place = place
    counts = Counter(hit.state for hit in hits)
    new, known = counts[Hit.State.NEW], counts[Hit.State.KNOWN]
    returning, blocked = counts[Hit.State.RETURNING], counts[Hit.State.BLOCKED]
    with transaction.atomic():
        work.run.put(new_count=new, known_count=known, returning_count=returning)
        Hit.objects.bulk_update(hits, ["state", "reason", "place"])
    return StepResult(
        {"new": new, "known": known, "returning": returning, "blocked": blocked},
        detail=_("%(new)d new, %(known)d known") % {"new": new, "known": known},
        counts={"new": new, "known": known, "returning": returning, "blocked": blocked},
    )


def _state(work: Work, hit: Hit, seen: set[str], read: set[str]) -> tuple[str, str]:
    settings = work.settings
    if not hit.url.startswith(_OPENABLE):
        return Hit.State.BLOCKED, _("no page: its address is neither http nor https")
    if any(is_in_domain(hit.link, domain) for domain in settings.block_domains):
        return Hit.State.BLOCKED, _("the topic blocks %(domain)s") % {"domain": hit.domain}
    allowed = settings.allow_domains
    if allowed and not any(is_in_domain(hit.link, domain) for domain in allowed):
        return Hit.State.BLOCKED, _("not among the domains that the topic allows")
    if hit.url in seen:
        return Hit.State.KNOWN, ""
    if hit.url in read:
        return Hit.State.RETURNING, _("read in an earlier run")
    return Hit.State.NEW, ""


def _fused(hit: Hit) -> float:
    """Return the hit's reciprocal rank fusion over the queries that returned it."""
    return sum(1 / (_RRF + (entry["rank"] or 1)) for entry in hit.queries)
