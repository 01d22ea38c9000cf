"""Sending a task's message at once or not at all.

What must run is a row that a tick finds; the message is only a nudge, and none is worth a wait.
"""

from __future__ import annotations

from typing import Any

import redis
import structlog
from django.conf import settings
from kombu.exceptions import OperationalError

from beacon_site.celery import app

logger = structlog.get_logger(__name__)

MOST_WAITING = 1_000

# With Redis closed or silent a request must not wait: `.delay()` as it comes was seen to hang for
# 1.6 to over 40 s (reliability.md 1.5).
_SHORT = {"socket_connect_timeout": 0.3, "socket_timeout": 0.3, "max_retries": 0}


def send(task: str, *args: Any, queue: str) -> bool:
    """Send one message at once or not at all; False if the broker does not take it."""
    try:
        with app.connection_for_write(connect_timeout=0.3, transport_options=_SHORT) as connection:
            app.send_task(task, args=args, queue=queue, connection=connection, retry=False)
    except (OperationalError, OSError) as exc:
        logger.warning("broker took no message, the tick will", task=task, error=type(exc).__name__)
        return False
    return True


def is_full(queue: str) -> bool:
    """Whether so many messages wait in a queue that nobody seems to take any: no more are of use.

    Ticks send again what was not taken up; while all workers are away, a night of that is a million.
    """
    limits = {"socket_connect_timeout": 0.3, "socket_timeout": 0.3}
    try:
        with redis.Redis.from_url(settings.REDIS_URL, **limits) as server:
            return int(server.llen(queue)) >= MOST_WAITING
    except redis.RedisError:
        return False  # sending it will say so
