"""How often a token may ask: so many requests a minute (BEACON_API_REQUESTS_PER_MINUTE).

Counted in Redis, by all web processes together.  While Redis is away each process counts by
itself, so that the API goes on (decision 5); Postgres is not asked.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

import structlog
from django.conf import settings
from django.core.cache import cache
from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from memory.api.auth import Caller
from memory.api.problems import Problem

logger = structlog.get_logger(__name__)

WINDOW = 60  # seconds
WITHOUT_REDIS = 10.0  # seconds until it is asked again after it failed: a silent one costs 0.3 s


class _Here:
    """Counts of this process, for the time that Redis is away."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._window = 0
        self.until = 0.0  # monotonic time until which Redis is not asked

    def count(self, key: str, window: int) -> int:
        """Return how many requests of `key` there were in this window, this one included."""
        with self._lock:
            if window != self._window:
                self._counts.clear()
                self._window = window
            self._counts[key] += 1
            return self._counts[key]


_here = _Here()


def check(caller: Caller) -> None:
    """Count a request.  Raises Problem (429) with Retry-After where the minute's are used up."""
    most = settings.BEACON_API_REQUESTS_PER_MINUTE
    window, gone = divmod(int(time.time()), WINDOW)
    if _count(caller.token.hash[:32], window) <= most:
        return
    words = _(
        "This token has sent its %(most)s requests of this minute. Wait %(seconds)d seconds; whoever "
        "runs Beacon can allow more (BEACON_API_REQUESTS_PER_MINUTE)."
    )
    told = {"most": f"{most:,}", "seconds": WINDOW - gone}
    raise Problem(429, words % told, headers={"Retry-After": str(WINDOW - gone)})


def _count(key: str, window: int) -> int:
    if time.monotonic() >= _here.until:
        try:
            return _count_in_redis(f"api-requests:{key}:{window}")
        except RedisError as exc:
            _here.until = time.monotonic() + WITHOUT_REDIS
            logger.warning("requests are counted by each process", error=type(exc).__name__)
    return _here.count(key, window)


def _count_in_redis(name: str) -> int:
    # A window's first request sets how long its count is kept; ValueError: it ran out meanwhile.
    if cache.add(name, 1, timeout=2 * WINDOW):
        return 1
    try:
        return cache.incr(name)
    except ValueError:
        return 1
