"""Politeness towards vendors that ask for it: one request every N seconds, or at most N at once.

A limit holds over all threads and processes of a site, because each place is taken in Django's
cache by an atomic `add`.  While the cache cannot be reached each process keeps to the limit for
itself: a search never fails because Redis is down (R56).  Only the vendor's own hosts are paced; a
base URL of one's own leads to a server that the operator answers for.

    PACE = OneEvery("arXiv", "arxiv.org", seconds=3)
    with PACE.turn(url):
        reply = http.get(url, params)
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import urlsplit

import structlog
from django.core.cache import cache
from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from beacon_site.net.errors import ProviderUnavailable

logger = structlog.get_logger(__name__)

PATIENCE = 30.0  # seconds that a request waits for its turn at most
SLACK = 0.1  # seconds between two turns beyond what is asked: sleepers wake late
LEASE = 60  # seconds after which the place of a killed process is free; no request takes longer
POLL = 0.1  # seconds between two looks for a free place

_LONGEST_WAIT = ContextVar("longest wait for a turn", default=math.inf)


@contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Let no turn that is asked for meanwhile be waited for longer: a person waits at the page."""
    token = _LONGEST_WAIT.set(seconds)
    try:
        yield
    finally:
        _LONGEST_WAIT.reset(token)


class Pace:
    """What both kinds of limit share: whom they are for, and places that one alone may hold."""

    def __init__(
        self,
        name: str,
        domain: str,
        *,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`name` is for people; `domain` and all below it are paced, and share one limit."""
        self.name = name
        self.domain = domain
        self._patience = patience
        self._clock = clock
        self._sleep = sleep
        self._held: dict[int, str] = {}  # the place and what marks it as this object's
        self._lock = threading.Lock()

    @property
    def patience(self) -> float:
        """Return the seconds that a turn is waited for at most."""
        return min(self._patience, _LONGEST_WAIT.get())

    def covers(self, url: str) -> bool:
        """Return whether `url` leads to the vendor."""
        host = (urlsplit(url).hostname or "").lower()
        return host == self.domain or host.endswith("." + self.domain)

    def _take(self, place: int, seconds: float) -> bool:
        """Take a place for `seconds`, unless a thread or another process holds it."""
        with self._lock:
            if place in self._held:
                return False
            mark = self._held[place] = uuid.uuid4().hex
        try:
            taken = bool(cache.add(self._key(place), mark, timeout=math.ceil(seconds)))
        except RedisError as exc:
            logger.warning("pace kept by this process alone", name=self.name, why=str(exc))
            return True
        if not taken:
            self._drop(place)
        return taken

    def _free(self, place: int) -> None:
        """Give a place back, unless its lease is over and it is another's by now."""
        mark = self._drop(place)
        try:
            if cache.get(self._key(place)) == mark:
                cache.delete(self._key(place))
        except RedisError as exc:
            logger.warning("pace frees its place later", name=self.name, why=str(exc))

    def _drop(self, place: int) -> str:
        with self._lock:
            return self._held.pop(place, "")

    def _key(self, place: int) -> str:
        return f"pace:{self.domain}:{place}"


class OneEvery(Pace):
    """One request every `seconds`, in the order in which they were asked for.

    Time is cut into numbered slots a little longer than that.  A turn begins with a slot that
    nobody else holds; one that begins at once, amid a slot, holds the following slot as well.
    """

    def __init__(
        self,
        name: str,
        domain: str,
        *,
        seconds: float,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(name, domain, patience=patience, clock=clock, sleep=sleep)
        self.seconds = seconds
        self._slot = seconds + SLACK

    @contextmanager
    def turn(self, url: str) -> Iterator[None]:
        """Wait until `url` may be asked.

        Raises ProviderUnavailable at once if that were later than the patience allows.
        """
        if self.covers(url):
            wait = self._reserved() - self._clock()
            if wait > 0:
                self._sleep(wait)
        yield

    def _reserved(self) -> float:
        """Take the next free turn; return its moment, on this object's clock."""
        now = self._clock()
        current = int(now // self._slot)
        self._forget_before(current)
        if self._take_slot(current, now) and self._take_slot(current + 1, now):
            return now
        last = int((now + self.patience) // self._slot)
        for slot in range(current + 1, last + 1):
            if self._take_slot(slot, now):
                return slot * self._slot
        raise ProviderUnavailable(
            _(
                "%(name)s may be asked once in %(seconds)g seconds, and the next %(patience)g "
                "seconds are given to other searches already. Try again later."
            )
            % {"name": self.name, "seconds": self.seconds, "patience": self.patience},
            retry_after=self.patience,
        )

    def _take_slot(self, slot: int, now: float) -> bool:
        return self._take(slot, (slot + 1) * self._slot - now + 1)

    def _forget_before(self, slot: int) -> None:
        with self._lock:
            self._held = {held: mark for held, mark in self._held.items() if held >= slot}


class AtMost(Pace):
    """At most `count` requests at the same time."""

    def __init__(
        self,
        name: str,
        domain: str,
        *,
        count: int,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(name, domain, patience=patience, clock=clock, sleep=sleep)
        self.count = count

    @contextmanager
    def turn(self, url: str) -> Iterator[None]:
        """Hold a place while `url` is asked.

        Raises ProviderUnavailable if none comes free within the patience.
        """
        if not self.covers(url):
            yield
            return
        place = self._entered()
        try:
            yield
        finally:
            self._free(place)

    def _entered(self) -> int:
        until = self._clock() + self.patience
        while True:
            for place in range(self.count):
                if self._take(place, LEASE):
                    return place
            if self._clock() >= until:
                break
            self._sleep(POLL)
        raise ProviderUnavailable(
            _(
                "No more than %(count)d searches of %(name)s may run at once, and others held every "
                "place for %(patience)g seconds. Try again later."
            )
            % {"name": self.name, "count": self.count, "patience": self.patience},
            retry_after=self.patience,
        )
