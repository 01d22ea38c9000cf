"""Notify workers of waiting runs: a message after commit, and a periodic check for lost messages.

Every run is a row, so a lost message delays the run by 15 seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import structlog
from django.db.models import Q
from django.utils import timezone

from beacon_site.broker import is_full, send
from research.models import Run, Step

logger = structlog.get_logger(__name__)

# The tick runs every 15 s. With 40 s, a run whose message was lost with Redis starts within a
# minute of Redis's return (reliability.md 4). With 60 s, we measured 66. An extra message does no
# harm.
_NUDGE_AGAIN = timedelta(seconds=40)


def nudge(run_id: int) -> bool:
    """Tell a worker that the run is waiting. If this fails, the tick sends the message."""
    sent = send("research.tasks.execute_run", run_id, queue="research")
    if sent:
        Run.objects.filter(pk=run_id).update(nudged_at=timezone.now())
    return sent


def dispatch(*, send_run: Callable[[int], bool] = nudge) -> int:
    """Send a message for each waiting run and follow-up without a recent one. Return how many."""
    not_lately = Q(nudged_at=None) | Q(nudged_at__lt=timezone.now() - _NUDGE_AGAIN)
    waiting = Run.objects.waiting_to_start().filter(not_lately).values_list("pk", flat=True)
    sent = 0
    if is_full("research") or is_full("reflect"):
        logger.warning(
            "queue is full because no worker is consuming messages, so nothing more is sent"
        )
        return sent
    for run_id in waiting[:200]:
        if not send_run(run_id):
            return sent  # the broker is down, and the next tick tries again
        sent += 1
    follow_ups = Step.objects.follow_ups_waiting().order_by("pk").values_list("pk", flat=True)
    for step_id in follow_ups[:200]:
        if not send("research.tasks.carry_out_follow_up", step_id, queue="reflect"):
            return sent
        sent += 1
    return sent
