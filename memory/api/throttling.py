"""How often a token may ask: so many requests a minute (BEACON_API_REQUESTS_PER_MINUTE).

Counted in Redis, by all web processes together.  While Redis is away each process counts by
itself, so that the API goes on (decision 5); Postgres is not asked.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter

import redis
import structlog
from django.conf import settings
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
            return _count_in_redis(f"beacon:api-requests:{key}:{window}")
        except RedisError as exc:
            _here.until = time.monotonic() + WITHOUT_REDIS
            logger.warning("requests are counted by each process", error=type(exc).__name__)
    return _here.count(key, window)


def _count_in_redis(name: str) -> int:
    """Count in one round trip; the name holds its window, so its end may be set each time."""
    with _client(str(settings.CACHES["default"]["LOCATION"])).pipeline() as together:
        together.incr(name)
        together.expire(name, 2 * WINDOW)
        number, _is_set = together.execute()
    return int(number)


@functools.cache
def _client(address: str) -> redis.Redis:
    """Return this process's client: the cache's own takes three round trips to count."""
    return redis.Redis.from_url(address, socket_connect_timeout=0.3, socket_timeout=0.3)
