"""Query the search services, and explain failures in one sentence per service.

The queries of a run share a Gate per service, so a service that rejects everything or is
unreachable doesn't get the remaining queries.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import structlog
from django.db import DatabaseError
from django.utils.text import get_text_list

from beacon_site.net.errors import (
    ProviderError,
    ProviderUnavailable,
    ServiceRefused,
    ServiceUnreachable,
)
from beacon_site.providers.search.base import (
    BY_NAME,
    KEY,
    SERVICES,
    SearchHit,
    SearchOptions,
    SearchProvider,
    get_search,
)
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import joined
from memory.models import User
from memory.services.library import documents as library_services
from memory.services.library.documents import LibrarySearch
from memory.services.llm import connections
from research.models import Run, Step
from research.services.runs.context.outputs import AskedQuery
from research.services.runs.context.run_context import RunContext

logger = structlog.get_logger(__name__)

TRIES = 3  # R47: a failing query gets up to three attempts in total
PAUSES = (0.5, 1.5)  # seconds between the attempts of one query
MAX_PAUSE = 5.0  # seconds; if a service asks for more, the run is postponed
AT_HOME = ("library", "sample")  # local services, which say nothing about the network


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of one query to one service. If `tries` is 0, the query was skipped."""

    query: str
    service: str
    hits: list[SearchHit]
    tries: int
    milliseconds: int
    problem: str = ""
    may_retry: bool = False
    retry_after: float | None = None
    unreachable: bool = False

    def as_json(self) -> AskedQuery:
        """Return everything except the hits, for the step and its page."""
        return {
            "query": self.query,
            "service": self.service,
            "hits": len(self.hits),
            "tries": self.tries,
            "ms": self.milliseconds,
            "problem": self.problem,
            "may_retry": self.may_retry,
            "retry_after": self.retry_after,
            "unreachable": self.unreachable,
        }


class Network:
    """Whether the network works, as far as this run's services know."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reached = False
        self._unreached: set[str] = set()
        self._given_up = False

    def reached(self, service: str) -> None:
        """Note that a service responded, even with an error."""
        if service not in AT_HOME:
            with self._lock:
                self._reached = True

    def unreached(self, service: str, *, is_last: bool) -> None:
        """Note that a service couldn't be reached. With `is_last`, all attempts of a query failed."""
        with self._lock:
            self._unreached.add(service)
            self._given_up = self._given_up or is_last

    @property
    def is_down(self) -> bool:
        """Whether a service was given up, another wasn't reached either, and none was reached.

        A single service may itself be down.
        """
        with self._lock:
            return not self._reached and self._given_up and len(self._unreached) > 1


class Gate:
    """Shared state of one service's queries in a run, across threads.

    It closes if the service refuses everything, rejects two queries with the same message, or is
    down: one query has used up its attempts before any was answered. Best effort: queries in
    progress finish their current attempt.
    """

    def __init__(self, service: str, network: Network | None = None) -> None:
        self.service = service
        self._network = network or Network()
        self._lock = threading.Lock()
        self._answered = False
        self._heard: set[str] = set()
        self._last: ProviderError | None = None
        self._closed = False

    @property
    def closed_by(self) -> ProviderError | None:
        """Return why the service gets no more queries, or None while it is open."""
        with self._lock:
            if self._closed:
                return self._last
            given_up = isinstance(self._last, ServiceUnreachable) and self._network.is_down
            return self._last if given_up and not self._answered else None

    def answered(self) -> None:
        """Note an answer, even an empty one."""
        self._network.reached(self.service)
        with self._lock:
            self._answered = True

    def failed(self, exc: ProviderError, *, is_last: bool) -> None:
        """Note a failure. `is_last` means that the query isn't tried again."""
        if isinstance(exc, ServiceUnreachable):
            self._network.unreached(self.service, is_last=is_last)
        elif not isinstance(exc, ServiceRefused):  # can be raised without a request
            self._network.reached(self.service)
        with self._lock:
            if self._closed:
                return
            said_before = is_last and str(exc) in self._heard
            self._heard.add(str(exc))
            self._last = exc
            is_down = is_last and isinstance(exc, ProviderUnavailable)
            in_vain = (is_down or said_before) and not self._answered
            self._closed = isinstance(exc, ServiceRefused) or in_vain


def ask(
    provider: SearchProvider,
    query: str,
    options: SearchOptions,
    *,
    gate: Gate | None = None,
    most: int = TRIES,
) -> QueryResult:
    """Send one query to one service, up to `most` times while it is unavailable (R47).

    An empty answer isn't retried. The service's failures are never raised. If the gate is closed,
    the query is skipped with the gate's reason.
    """
    gate = gate or Gate(provider.service)
    began = time.monotonic()
    hits: list[SearchHit] = []
    failure, tries = gate.closed_by, 0
    if failure is None:
        for tries in range(1, most + 1):
            hits, failure = _tried(provider, query, options)
            if failure is None:
                gate.answered()
                break
            is_last = tries == most or not isinstance(failure, ProviderUnavailable)
            gate.failed(failure, is_last=is_last)
            if is_last or not _waited(failure, tries, gate):
                break
    result = _query_result(provider.service, query, hits, tries, began, failure)
    logger.info(
        "search failed" if result.problem else "search answered",
        service=result.service,
        hits=len(hits),
        tries=tries,
        ms=result.milliseconds,
    )
    return result


def _tried(
    provider: SearchProvider, query: str, options: SearchOptions
) -> tuple[list[SearchHit], ProviderError | None]:
    try:
        return provider.search(query, options), None
    except ProviderError as exc:
        return [], exc
    except DatabaseError as exc:  # of the library service
        return [], ProviderUnavailable(_("the database didn’t respond: %(why)s") % {"why": exc})


def _waited(failure: ProviderError, tries: int, gate: Gate) -> bool:
    """Wait before the next attempt. Return False if the gate closed in the meantime."""
    wanted = getattr(failure, "retry_after", None) or PAUSES[min(tries, len(PAUSES)) - 1]
    time.sleep(min(wanted, MAX_PAUSE))
    return gate.closed_by is None


def _query_result(
    service: str,
    query: str,
    hits: list[SearchHit],
    tries: int,
    began: float,
    failure: ProviderError | None,
) -> QueryResult:
    passing = failure if isinstance(failure, ProviderUnavailable) else None
    return QueryResult(
        query=query,
        service=service,
        hits=hits,
        tries=tries,
        milliseconds=round((time.monotonic() - began) * 1000),
        problem=(str(failure) or type(failure).__name__) if failure else "",
        may_retry=passing is not None,
        retry_after=passing.retry_after if passing else None,
        unreachable=isinstance(failure, ServiceUnreachable),
    )


# --- messages ---


def search_provider(name: str, *, owner: User) -> SearchProvider | None:
    """Return the provider of a service, or None if Beacon doesn't have it.

    One that isn't set up is returned too. When asked, it says what is missing.
    """
    if name == "library":
        return LibrarySearch(owner)
    return get_search(connections.search_profile(name)) if name in SERVICES else None


def label_of(service: str) -> str:
    return str(BY_NAME[service].label) if service in BY_NAME else service


def listed(services: Iterable[str]) -> str:
    """Return the services as text: “Wikipedia, arXiv and Hacker News”."""
    return str(get_text_list([label_of(service) for service in services], _("and")))


def complaints(queries: Sequence[AskedQuery]) -> list[str]:
    """Return a sentence for each service that failed, and one for all if the network is down.

    `queries` are results of `Asked.as_json`. Each reason is reported once.
    """
    by_service: dict[str, list[AskedQuery]] = {}
    for entry in queries:
        by_service.setdefault(entry["service"], []).append(entry)
    unreached = unreachable(queries)
    texts = []
    if unreached:
        text = _("No network connection. Beacon couldn’t reach %(services)s.")
        texts.append(text % {"services": listed(unreached)})
    return texts + [
        _complaint(service, entries)
        for service, entries in by_service.items()
        if service not in unreached and any(entry["problem"] for entry in entries)
    ]


def unreachable(queries: Sequence[AskedQuery]) -> list[str]:
    """Return the unreachable services, if no external service was reached.

    A single one may be down itself, so it doesn't count as a network failure.
    """
    outside = [entry for entry in queries if entry["service"] not in AT_HOME]
    if any(not entry["problem"] for entry in outside):
        return []
    reached = {entry["service"] for entry in outside if not entry.get("unreachable")}
    found = dict.fromkeys(e["service"] for e in outside if e["service"] not in reached)
    return list(found) if len(found) > 1 else []


def _complaint(service: str, entries: Sequence[AskedQuery]) -> str:
    reasons: list[str] = list(
        dict.fromkeys(entry["problem"] for entry in entries if entry["problem"])
    )
    failed = sum(bool(entry["problem"]) for entry in entries)
    params = {
        "service": label_of(service),
        "failed": failed,
        "all": len(entries),
        "why": joined("; ", reasons),
    }
    if failed < len(entries):
        return _("%(service)s: %(failed)d of %(all)d searches failed: %(why)s") % params
    if len(reasons) == 1 and label_of(service).casefold() in reasons[0].casefold():
        return reasons[0]
    return _("%(service)s couldn’t be searched: %(why)s") % params


# --- repeated runs ---

EXTRACTIVE = "extractive"  # value in a manifest if no model wrote the report


def queries_of(run: Run) -> list[str]:
    """Return the queries of `run`. Empty if none are stored."""
    kept: list[str] = run.manifest.get("queries") or []
    if kept:
        return kept
    step = Step.objects.filter(run=run, name="plan", part=0).first()
    return step.output.get("queries", []) if step else []


def unavailable_services(context: RunContext, was: Run) -> list[str]:
    """Return sentences about services of the run `was` that are no longer available."""
    return [
        _("%(run)s searched %(service)s, which is no longer available: %(why)s")
        % {"run": was, "service": label_of(name), "why": why}
        for name, why in _services_gone(context)
    ]


def _services_gone(context: RunContext) -> list[tuple[str, str]]:
    names = context.settings.services
    if not names:
        return []
    allowed, profiles = connections.search_services(names), connections.search_profiles()
    gone = []
    for name in names:
        profile = profiles.get(name)
        if name not in allowed:
            gone.append((name, _("BEACON_SEARCH doesn’t include this service")))
        elif profile is not None and (lacks := connections.lacks(profile)):
            missing = _("its key") if lacks == KEY else _("its URL")
            gone.append((name, _("%(what)s isn’t set") % {"what": missing}))
        elif name == "library" and library_services.is_empty(context.topic.owner):
            gone.append((name, _("the library is empty")))
    return gone


def model_gone(was: Run) -> str:
    """Return a sentence if another model writes now than wrote `was`, or "" if it is the same.

    Only for a run with new pages, because otherwise no model is used.
    """
    model = connections.model_for(was.topic, "write")
    before, now = was.manifest.get("written_by", ""), model.profile.model if model else EXTRACTIVE
    if not before or before == now:
        return ""
    values = {"run": was, "before": before, "now": now}
    if before == EXTRACTIVE:
        return _("%(run)s didn’t use a model. This run uses %(now)s.") % values
    if now == EXTRACTIVE:
        return _("%(run)s used %(before)s. No model is set up now.") % values
    return _("%(run)s used %(before)s. This run uses %(now)s.") % values


# --- search health ---

LATEST = 10  # recent search steps, over all topics, to check


def failing() -> list[str]:
    """Return the services that answered no query in the last run that used them."""
    steps = Step.objects.filter(name="search", output__has_key="asked").order_by("-id")
    answered: dict[str, bool] = {}
    for asked in steps.values_list("output__asked", flat=True)[:LATEST]:
        for service, entries in _by_service(asked).items():
            answered.setdefault(service, any(not entry["problem"] for entry in entries))
    return [service for service, is_fine in answered.items() if not is_fine]


def _by_service(queries: list[AskedQuery]) -> dict[str, list[AskedQuery]]:
    found: defaultdict[str, list[AskedQuery]] = defaultdict(list)
    for entry in queries:
        found[entry["service"]].append(entry)
    return found
