"""Asking the search services one query at a time, and saying in a sentence why one did not answer.

What the queries of one run learn of a service they share by its Gate, so that a service that
refuses everything, or that nobody can reach, is not asked the remaining queries in vain.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from django.db import DatabaseError
from django.utils.text import get_text_list
from django.utils.translation import gettext as _

from beacon_site.net.errors import (
    ProviderError,
    ProviderUnavailable,
    ServiceRefused,
    ServiceUnreachable,
)
from beacon_site.search_services.base import (
    SERVICES,
    SearchHit,
    SearchOptions,
    SearchProvider,
    get_search,
)
from beacon_site.search_services.catalogue import BY_NAME, KEY
from memory.library import services as library_services
from memory.library.services import library_search
from memory.llm import connections
from memory.models import User
from research.models import Run, Step
from research.run_context.context import RunContext

logger = structlog.get_logger(__name__)

TRIES = 3  # R47: a failing query is tried up to three times in all
PAUSES = (0.5, 1.5)  # seconds between the tries of one query
LONGEST_PAUSE = 5.0  # seconds, whatever a service asks for: the run is put off for longer ones
AT_HOME = ("library", "sample")  # they ask nobody: what they find says nothing of the network


@dataclass(frozen=True, slots=True)
class Asked:
    """What asking one service one query gave; no `tries` means that it was not asked in vain."""

    query: str
    service: str
    hits: list[SearchHit]
    tries: int
    milliseconds: int
    problem: str = ""
    may_retry: bool = False
    retry_after: float | None = None
    unreachable: bool = False

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
            "unreachable": self.unreachable,
        }


class Network:
    """Whether anybody outside could be reached, as far as this run's services found out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reached = False
        self._unreached: set[str] = set()
        self._given_up = False

    def reached(self, service: str) -> None:
        """Note that a service answered, be it with a refusal."""
        if service not in AT_HOME:
            with self._lock:
                self._reached = True

    def unreached(self, service: str, *, is_last: bool) -> None:
        """Note that a service could not be reached; `is_last` is in all the tries of a query."""
        with self._lock:
            self._unreached.add(service)
            self._given_up = self._given_up or is_last

    @property
    def is_down(self) -> bool:
        """Whether one service was given up, another not reached either, and none was reached.

        One alone may be at fault itself.
        """
        with self._lock:
            return not self._reached and self._given_up and len(self._unreached) > 1


class Gate:
    """What the queries of one service in one run know of each other, over all their threads.

    It closes when the service refuses whatever it is asked, when it rejects two queries with the
    same words, and when it is down: a query used up its tries and none has been answered yet.
    Best effort: what is under way when it closes goes on to the end of its try.
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
        """Return why the service is to be asked no more, or None while it may be."""
        with self._lock:
            if self._closed:
                return self._last
            given_up = isinstance(self._last, ServiceUnreachable) and self._network.is_down
            return self._last if given_up and not self._answered else None

    def answered(self) -> None:
        """Note an answer, an empty one too."""
        self._network.reached(self.service)
        with self._lock:
            self._answered = True

    def failed(self, exc: ProviderError, *, is_last: bool) -> None:
        """Note a failure; `is_last` says that the query is not tried again."""
        if isinstance(exc, ServiceUnreachable):
            self._network.unreached(self.service, is_last=is_last)
        elif not isinstance(exc, ServiceRefused):  # which may be said without asking at all
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
) -> Asked:
    """Ask one query of one service, up to `most` times while it is unavailable (R47).

    An empty answer is an answer and is not asked again.  Never raises for the service's failures;
    where the gate is closed the service is asked no more, and its reason is this query's too.
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
    asked = _asked(provider.service, query, hits, tries, began, failure)
    logger.info(
        "search failed" if asked.problem else "search answered",
        service=asked.service,
        hits=len(hits),
        tries=tries,
        ms=asked.milliseconds,
    )
    return asked


def _tried(
    provider: SearchProvider, query: str, options: SearchOptions
) -> tuple[list[SearchHit], ProviderError | None]:
    try:
        return provider.search(query, options), None
    except ProviderError as exc:
        return [], exc
    except DatabaseError as exc:  # the library's
        return [], ProviderUnavailable(_("the database didn’t respond: %(why)s") % {"why": exc})


def _waited(failure: ProviderError, tries: int, gate: Gate) -> bool:
    """Wait before the next try; False if the gate closed meanwhile, so that there is none."""
    wanted = getattr(failure, "retry_after", None) or PAUSES[min(tries, len(PAUSES)) - 1]
    time.sleep(min(wanted, LONGEST_PAUSE))
    return gate.closed_by is None


def _asked(
    service: str,
    query: str,
    hits: list[SearchHit],
    tries: int,
    began: float,
    failure: ProviderError | None,
) -> Asked:
    passing = failure if isinstance(failure, ProviderUnavailable) else None
    return Asked(
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


# --- in words -------------------------------------------------------------------------------------


def search_provider(name: str, *, owner: User) -> SearchProvider | None:
    """Return the provider of a service, or None for one that Beacon does not have.

    One that is not set up is returned all the same: asked, it says what is missing.
    """
    if name == "library":
        return library_search(owner)
    return get_search(connections.search_profile(name)) if name in SERVICES else None


def label_of(service: str) -> str:
    """Return a service's name as people call it."""
    return str(BY_NAME[service].label) if service in BY_NAME else service


def listed(services: Iterable[str]) -> str:
    """Return the services in words: “Wikipedia, arXiv and Hacker News”."""
    return str(get_text_list([label_of(service) for service in services], _("and")))


def complaints(asked: Sequence[dict[str, Any]]) -> list[str]:
    """Return a sentence for each service that failed, and one for all if the network is down.

    `asked` are entries of `Asked.as_json`.  A reason is told once, however often it was met.
    """
    by_service: dict[str, list[dict[str, Any]]] = {}
    for entry in asked:
        by_service.setdefault(entry["service"], []).append(entry)
    unreached = unreachable(asked)
    said = []
    if unreached:
        text = _("No network connection. Beacon couldn’t reach %(services)s.")
        said.append(text % {"services": listed(unreached)})
    return said + [
        _complaint(service, entries)
        for service, entries in by_service.items()
        if service not in unreached and any(entry["problem"] for entry in entries)
    ]


def unreachable(asked: Sequence[dict[str, Any]]) -> list[str]:
    """Return the services that nobody reached, if that is so of all that were asked outside.

    One alone may be at fault itself, and is not called the network.
    """
    outside = [entry for entry in asked if entry["service"] not in AT_HOME]
    if any(not entry["problem"] for entry in outside):
        return []
    reached = {entry["service"] for entry in outside if not entry.get("unreachable")}
    found = dict.fromkeys(e["service"] for e in outside if e["service"] not in reached)
    return list(found) if len(found) > 1 else []


def _complaint(service: str, entries: Sequence[dict[str, Any]]) -> str:
    reasons: list[str] = list(
        dict.fromkeys(entry["problem"] for entry in entries if entry["problem"])
    )
    failed = sum(bool(entry["problem"]) for entry in entries)
    told = {
        "service": label_of(service),
        "failed": failed,
        "all": len(entries),
        "why": "; ".join(reasons),
    }
    if failed < len(entries):
        return _("%(service)s: %(failed)d of %(all)d searches failed: %(why)s") % told
    if len(reasons) == 1 and label_of(service).casefold() in reasons[0].casefold():
        return reasons[0]
    return _("%(service)s couldn’t be searched: %(why)s") % told


# --- A run that repeats another as it was: its queries, and what of then is no longer there ---

EXTRACTIVE = "extractive"  # what stands in a manifest where no model wrote


def queries_of(run: Run) -> list[str]:
    """Return the queries that `run` asked; empty if it keeps none."""
    kept: list[str] = run.manifest.get("queries") or []
    if kept:
        return kept
    step = Step.objects.filter(run=run, name="plan", part=0).first()
    planned: list[str] = step.output.get("queries", []) if step else []
    return planned


def what_is_gone(work: RunContext, was: Run) -> list[str]:
    """Return in words which services of the run `was` this one cannot ask any more."""
    return [
        _("%(run)s searched %(service)s, which is no longer available: %(why)s")
        % {"run": was, "service": label_of(name), "why": why}
        for name, why in _services_gone(work)
    ]


def _services_gone(work: RunContext) -> list[tuple[str, str]]:
    names = work.settings.services
    if not names:
        return []
    allowed, profiles = connections.search_services(names), connections.search_profiles()
    gone = []
    for name in names:
        profile = profiles.get(name)
        if name not in allowed:
            gone.append((name, _("BEACON_SEARCH doesn’t include it")))
        elif profile is not None and (lacks := connections.lacks(profile)):
            missing = _("its key") if lacks == KEY else _("its URL")
            gone.append((name, _("%(what)s isn’t set") % {"what": missing}))
        elif name == "library" and library_services.is_empty(work.topic.owner):
            gone.append((name, _("the library is empty")))
    return gone


def model_gone(was: Run) -> str:
    """Return in words that another model writes than wrote `was`, or none; empty if it is the same.

    For a run that has something to write from: without new pages no model is asked at all.
    """
    profile = connections.llm_profile()
    before, now = was.manifest.get("written_by", ""), profile.model if profile else EXTRACTIVE
    if not before or before == now:
        return ""
    values = {"run": was, "before": before, "now": now}
    if before == EXTRACTIVE:
        return _("%(run)s was written without a model. This run uses %(now)s.") % values
    if now == EXTRACTIVE:
        return _("%(run)s was written by %(before)s. No model is set up now.") % values
    return _("%(run)s was written by %(before)s. This run uses %(now)s.") % values


# --- search health ---

LATEST = 10  # search steps, over all topics, that are looked at


def failing() -> list[str]:
    """Return the services none of whose queries was answered in the last run that asked them."""
    steps = Step.objects.filter(name="search", output__has_key="asked").order_by("-id")
    answered: dict[str, bool] = {}
    for asked in steps.values_list("output__asked", flat=True)[:LATEST]:
        for service, entries in _by_service(asked).items():
            answered.setdefault(service, any(not entry["problem"] for entry in entries))
    return [service for service, is_fine in answered.items() if not is_fine]


def _by_service(asked: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in asked:
        found[entry["service"]].append(entry)
    return found
