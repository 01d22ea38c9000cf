"""Celery tasks. Each takes IDs, is safe to run twice, and leaves its row in a final state."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import structlog
from celery import shared_task
from django.utils import timezone

from beacon_site.db import leased_jobs
from beacon_site.db.errors import LoggedFailure
from beacon_site.worker_threads import FINDS_NOTHING
from research.models import Schedule, Worker
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
    unfinished = leased_jobs.unfinished_kinds()  # there are rarely any
    _do_all(
        [
            *((f"sweep {_name(kind)}", kind.objects.sweep) for kind in unfinished),
            ("start due", lambda: len(scheduling.start_due(timezone.now()))),
            *((f"dispatch {_name(kind)}", kind.objects.dispatch) for kind in unfinished),
        ]
    )


def _nothing_is_due() -> bool:
    due = Schedule.objects.due(timezone.now())
    return not leased_jobs.unfinished_kinds() and not due.exists()


FINDS_NOTHING["research.tasks.tick"] = _nothing_is_due


@shared_task(acks_late=True)
def minute_tick() -> None:
    """Every minute: what is due, but can wait for some seconds. Two beats can run this at once."""
    _do_all(
        [
            ("start rechecks", lambda: starting.start_due(timezone.now())),
            ("resume unreviewed", planning.resume_unreviewed),
            ("make digests", digests.make_due),
            ("pause failing", scheduling.pause_failing),
            ("catch up news", since_read.catch_up),
            ("forget old processes", _forget_old_processes),
        ]
    )


def _do_all(parts: list[tuple[str, Callable[[], object]]]) -> None:
    failure: Exception | None = None
    for name, part in parts:
        with LoggedFailure("part of a tick failed", part=name) as run:  # the task fails afterwards
            if done := part():
                logger.info("tick", part=name, done=done)
        failure = run.error or failure
    if failure is not None:
        raise failure


def _name(kind: Any) -> str | None:
    name: str | None = kind._meta.model_name
    return name


def _forget_old_processes() -> int:
    old = timezone.now() - timedelta(days=1)
    return Worker.objects.filter(seen_at__lt=old).delete()[0]
