"""Celery tasks. Each takes IDs, is safe to run twice, and leaves its row in a final state."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import structlog
from celery import shared_task
from django.utils import timezone

from beacon_site.db import leased_jobs
from research.execution import pipeline, rechecking
from research.models import Worker
from research.notifications import digests, sending
from research.reports import topic_news
from research.schedules import scheduling
from research.steps import planning

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
    for part in (
        *(kind.objects.sweep for kind in leased_jobs.kinds()),
        _start_due,
        _start_rechecks,
        _go_on,
        digests.make_due,
        *(kind.objects.dispatch for kind in leased_jobs.kinds()),
        scheduling.pause_failing,
        topic_news.catch_up,
        _forget_old_processes,
    ):
        try:
            done = part()
        except Exception as exc:
            # One failing part must not keep the others from running. The task fails afterwards.
            logger.exception("part of a tick failed", part=part.__name__)
            failure = exc
        else:
            if done:
                logger.info("tick", part=part.__name__.strip("_"), done=done)
    if failure is not None:
        raise failure


def _start_due() -> int:
    return len(scheduling.start_due(timezone.now()))


def _start_rechecks() -> int:
    return rechecking.start_due(timezone.now())


def _go_on() -> int:
    return planning.resume_unreviewed()


def _forget_old_processes() -> int:
    old = timezone.now() - timedelta(days=1)
    return Worker.objects.filter(seen_at__lt=old).delete()[0]
