"""Failed sign-ins: how many there may be, and what is kept of them.

django-axes closes a name for an address after five failures.  What it would keep beside their number
is what was typed, in one row that every further try makes longer: of that nothing is kept, or whoever
goes on trying fills the disk.  All tries of one address are counted too, whatever names they bear,
since each costs the time of a slow hash on purpose.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import redis
import structlog
from axes.handlers.database import AxesDatabaseHandler
from axes.handlers.proxy import AxesProxyHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest
from django.utils import timezone

logger = structlog.get_logger(__name__)

WINDOW = 60  # seconds


class Failures(AxesDatabaseHandler):  # type: ignore[misc]
    """Counts as axes does, and keeps nothing of what was sent."""

    def user_login_failed(
        self, sender: Any, credentials: dict[str, Any], request: Any = None, **kwargs: Any
    ) -> None:
        """Count a failure."""
        super().user_login_failed(sender, credentials, request, **kwargs)
        if request is not None:
            about = {"username": credentials.get("username"), "ip_address": request.axes_ip_address}
            AccessAttempt.objects.filter(**about).update(get_data="", post_data="")


def is_told(request: HttpRequest, username: str) -> bool:
    """Whether the account's owner is told of a failure: of those that close it, not of those after.

    Otherwise whoever tries on would bury what else happened, at no cost: a closed name is not hashed.
    """
    failures = AxesProxyHandler.get_failures(request, {"username": username})
    return bool(failures <= settings.AXES_FAILURE_LIMIT)


def closed_for(address: str | None) -> int:
    """Count a try from an address; return the seconds that it has to wait, 0 where it may try.

    While Redis is away nobody counts, and people come in (decision 5).
    """
    window, gone = divmod(int(time.time()), WINDOW)
    key = f"sign-ins:{address}:{window}"
    try:
        cache.add(key, 0, 2 * WINDOW)
        tries = cache.incr(key)
    except (redis.RedisError, ValueError) as exc:  # ValueError: gone between the two
        logger.warning("tries to sign in are not counted", error=type(exc).__name__)
        return 0
    return WINDOW - gone if tries > settings.BEACON_SIGN_INS_PER_MINUTE else 0


def forget_over() -> int:
    """Delete the failures whose time is over; return how many rows went.

    The name that was typed may be a password; axes itself would keep it until the next failure.
    """
    over = timezone.now() - timedelta(hours=settings.AXES_COOLOFF_TIME)
    return int(AccessAttempt.objects.filter(attempt_time__lte=over).delete()[0])
