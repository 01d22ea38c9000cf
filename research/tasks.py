"""Celery tasks. Each takes IDs, is safe to run twice, and leaves its row in a final state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import structlog
from celery import shared_task
from django.utils import timezone

from beacon_site.db import leased_jobs
from research.models import Worker
from research.services.notifications import digests, sending
from research.services.reports import since_read
from research.services.runs.execution import pipeline, starting
from research.services.runs.steps import planning
from research.services.schedules import scheduling

logger = structlog.get_logger(__name__)


@shared_task(bind=True, acks_late=True)
def execute_run(self: Any, run_id: int) -> None:
    """Carry out one queued run."""
    pipeline.execute(run_id, worker=str(self.request.hostname))


@shared_task(acks_late=True)
def run_follow_up(step_id: int) -> None:
    pipeline.run_follow_up(step_id)


@shared_task(acks_late=True)
def deliver(delivery_id: str) -> None:
    """Send one delivery to its channel."""
    sending.deliver(delivery_id)


@shared_task(acks_late=True)
def forget_deliveries() -> None:
    """Delete deliveries sent long ago, and channels removed a month ago."""
    sending.forget_old()


@shared_task(acks_late=True)
def tick() -> None:
    """Every 15 s: free the jobs of lost workers, start due runs, and send lost messages.

    Two beats can run this at once: each part claims its rows one by one.
    """
    failure: Exception | None = None
    for name, part in _parts_of_a_tick():
        try:
            done = part()
        except Exception as exc:
            # One failing part must not keep the others from running. The task fails afterwards.
            logger.exception("part of a tick failed", part=name)
            failure = exc
        else:
            if done:
                logger.info("tick", part=name, done=done)
    if failure is not None:
        raise failure


def _parts_of_a_tick() -> Iterator[tuple[str, Callable[[], object]]]:
    yield from ((f"sweep {name}", jobs.sweep) for name, jobs in _unfinished_jobs())
    yield "start due", _start_due
    yield "start rechecks", _start_rechecks
    yield "resume unreviewed", planning.resume_unreviewed
    yield "make digests", digests.make_due
    yield from ((f"dispatch {name}", jobs.dispatch) for name, jobs in _unfinished_jobs())
    yield "pause failing", scheduling.pause_failing
    yield "catch up news", since_read.catch_up
    yield "forget old processes", _forget_old_processes


def _unfinished_jobs() -> list[tuple[str, Any]]:
    return [(kind._meta.model_name, kind.objects) for kind in leased_jobs.unfinished_kinds()]


def _start_due() -> int:
    return len(scheduling.start_due(timezone.now()))


def _start_rechecks() -> int:
    return starting.start_due(timezone.now())


def _forget_old_processes() -> int:
    old = timezone.now() - timedelta(days=1)
    return Worker.objects.filter(seen_at__lt=old).delete()[0]
