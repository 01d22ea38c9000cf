"""Sending a task's message immediately, or not at all.

Work that must run is a row that a tick finds.  The message only speeds it up, so no request waits
for it.
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

# If Redis is down or silent, a request must not wait.  By default, `.delay()` hung for 1.6 to more
# than 40 s (reliability.md 1.5).
_SHORT = {"socket_connect_timeout": 0.3, "socket_timeout": 0.3, "max_retries": 0}


def send(task: str, *args: Any, queue: str) -> bool:
    """Send one message without waiting; False if the broker doesn't accept it."""
    try:
        with app.connection_for_write(connect_timeout=0.3, transport_options=_SHORT) as connection:
            app.send_task(task, args=args, queue=queue, connection=connection, retry=False)
    except (OperationalError, OSError) as exc:
        logger.warning(
            "broker unreachable, so the next tick will send the task",
            task=task,
            error=type(exc).__name__,
        )
        return False
    return True


def is_full(queue: str) -> bool:
    """Whether so many messages wait in a queue that more would be useless.

    Ticks send work again that no worker has started.  If all workers are down, a night of that adds
    up to a million messages.
    """
    limits = {"socket_connect_timeout": 0.3, "socket_timeout": 0.3}
    try:
        with redis.Redis.from_url(settings.REDIS_URL, **limits) as server:
            return int(server.llen(queue)) >= MOST_WAITING
    except redis.RedisError:
        return False  # sending will report the failure
