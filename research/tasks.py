"""Celery's ways in.  Each takes ids, is safe to be delivered twice, and leaves its row ended."""

from __future__ import annotations

from typing import Any

import structlog
from celery import shared_task
from django.utils import timezone

from research import executing, outbox, scheduling
from research.models import Run

logger = structlog.get_logger(__name__)


@shared_task(bind=True, acks_late=True)
def execute_run(self: Any, run_id: int) -> None:
    """Carry out one queued run."""
    executing.execute(run_id, worker=str(self.request.hostname))


@shared_task(acks_late=True)
def carry_out_follow_up(step_id: int) -> None:
    """Carry out one follow-up of a saved run."""
    executing.carry_out_follow_up(step_id)


@shared_task(acks_late=True)
def tick() -> None:
    """Every 15 s: free stalled runs, start what is due, and send what the outbox holds.

    Two beats may tick at once: each of the three claims its rows one by one.
    """
    freed = Run.objects.free_stalled()
    started = scheduling.start_due(timezone.now())
    sent = outbox.dispatch()
    if freed or started or sent:
        logger.info("tick", freed=freed, started=len(started), sent=sent)
