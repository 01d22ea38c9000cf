"""Memory's upkeep by Celery beat."""

from __future__ import annotations

from datetime import timedelta

import structlog
from celery import shared_task
from django.apps import apps
from django.utils import timezone

from memory import library_folder
from memory.actors import MAINTENANCE
from memory.models import Remembered

logger = structlog.get_logger(__name__)

TRASH_DAYS = 30  # decision 9: deletes go to the trash for 30 days


@shared_task
def empty_trash() -> None:
    """Purge what has lain in the trash for more than 30 days, one record at a time."""
    before = timezone.now() - timedelta(days=TRASH_DAYS)
    purged = 0
    for model in apps.get_models():
        if not issubclass(model, Remembered):
            continue
        for record in model.objects.filter(trashed_at__lt=before).iterator():
            record.purge(by=MAINTENANCE)
            purged += 1
    if purged:
        logger.info("trash emptied", purged=purged)


@shared_task
def take_in_library() -> None:
    """Take what changed in the watched folder into the library; safe to deliver twice."""
    library_folder.look_if_due(every=0, seconds=library_folder.TASK_SECONDS)
