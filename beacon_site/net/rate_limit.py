"""Rate limits that vendors ask for: one request every N seconds, or at most N at once.

A limit applies to all threads and processes of a site, because each slot is reserved in Django's
cache with an atomic `add`.  If the cache can't be reached, each process keeps the limit by itself,
so a search never fails because Redis is down (R56).  Only the vendor's own hosts are limited, not
another server that the admin set as base URL.

    PACE = MinInterval("arXiv", "arxiv.org", seconds=3)
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
from typing import Any
from urllib.parse import urlsplit

import structlog
from django.core.cache import cache
from redis.exceptions import RedisError

from beacon_site.net.errors import ProviderUnavailable
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import ngettext

logger = structlog.get_logger(__name__)

PATIENCE = 30.0  # seconds that a request waits for its turn at most
SLACK = 0.1  # additional seconds between two turns, since sleepers wake late
LEASE = 60  # seconds after which a killed process's slot is free; no request takes longer
POLL = 0.1  # seconds between two checks for a free slot

_MAX_WAIT = ContextVar("longest wait for a turn", default=math.inf)


@contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Limit the wait for a turn in this block, when a person waits for the page."""
    token = _MAX_WAIT.set(seconds)
    try:
        yield
    finally:
        _MAX_WAIT.reset(token)


class Limiter:
    """The base of both limits: the vendor they apply to, and slots that only one holder can have."""

    def __init__(
        self,
        name: str,
        domain: str,
        *,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`name` is for people; `domain` and its subdomains share one limit."""
        self.name = name
        self.domain = domain
        self._patience = patience
        self._clock = clock
        self._sleep = sleep
        self._held: dict[int, str] = {}  # slot -> the value that marks it as this object's
        self._lock = threading.Lock()

    @property
    def patience(self) -> float:
        """Return the longest wait for a turn, in seconds."""
        return min(self._patience, _MAX_WAIT.get())

    def covers(self, url: str) -> bool:
        host = (urlsplit(url).hostname or "").lower()
        return host == self.domain or host.endswith("." + self.domain)

    def _take(self, place: int, seconds: float) -> bool:
        """Reserve a slot for `seconds`, unless another thread or process holds it."""
        with self._lock:
            if place in self._held:
                return False
            mark = self._held[place] = uuid.uuid4().hex
        try:
            taken = bool(cache.add(self._key(place), mark, timeout=math.ceil(seconds)))
        except RedisError as exc:
            logger.warning("rate limit kept only within this process", name=self.name, why=str(exc))
            return True
        if not taken:
            self._drop(place)
        return taken

    def _free(self, place: int) -> None:
        """Release a slot, unless its lease has expired and someone else has it."""
        mark = self._drop(place)
        try:
            if cache.get(self._key(place)) == mark:
                cache.delete(self._key(place))
        except RedisError as exc:
            logger.warning("rate limit slot is released later", name=self.name, why=str(exc))

    def _drop(self, place: int) -> str:
        with self._lock:
            return self._held.pop(place, "")

    def _key(self, place: int) -> str:
        return f"pace:{self.domain}:{place}"


class MinInterval(Limiter):
    """One request every `seconds`, in the order in which they were asked for.

    Time is divided into numbered slots that are slightly longer.  A turn begins with a free slot.
    A turn that begins immediately, in the middle of a slot, also reserves the next one.
    """

    def __init__(self, name: str, domain: str, *, seconds: float, **more: Any) -> None:
        super().__init__(name, domain, **more)
        self.seconds = seconds
        self._slot = seconds + SLACK

    @contextmanager
    def turn(self, url: str) -> Iterator[None]:
        """Wait until `url` can be requested.

        Raises ProviderUnavailable immediately if the wait would be longer than `patience`.
        """
        if self.covers(url):
            wait = self._reserved() - self._clock()
            if wait > 0:
                self._sleep(wait)
        yield

    def _reserved(self) -> float:
        """Reserve the next free turn; return its time, on this object's clock."""
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
            ngettext(
                "%(name)s allows one request per second, and other searches have reserved the next %(patience)g seconds. Try again later.",
                "%(name)s allows one request every %(seconds)g seconds, and the next %(patience)g seconds are already reserved for other searches. Try again later.",
                1 if self.seconds == 1 else 2,
            )
            % {"name": self.name, "seconds": self.seconds, "patience": self.patience},
            retry_after=self.patience,
        )

    def _take_slot(self, slot: int, now: float) -> bool:
        return self._take(slot, (slot + 1) * self._slot - now + 1)

    def _forget_before(self, slot: int) -> None:
        with self._lock:
            self._held = {held: mark for held, mark in self._held.items() if held >= slot}


class MaxConcurrent(Limiter):
    """At most `count` requests at the same time."""

    def __init__(self, name: str, domain: str, *, count: int, **more: Any) -> None:
        super().__init__(name, domain, **more)
        self.count = count

    @contextmanager
    def turn(self, url: str) -> Iterator[None]:
        """Hold a slot while `url` is requested.

        Raises ProviderUnavailable if none is free within `patience`.
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
                "%(name)s allows %(count)d searches at once, and none of the current ones finished within %(patience)g seconds. Try again later."
            )
            % {"name": self.name, "count": self.count, "patience": self.patience},
            retry_after=self.patience,
        )
