"""Schedules against the next runs that they wait for."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from cronsim import CronSimError
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memory.doctor.checkup import BAD, WARN
from memory.doctor.examining import Examination, Found
from research.models import Schedule
from research.schedules import scheduling

PATIENCE = timedelta(minutes=30)  # a slot counts as late after 15


def _in_force() -> QuerySet[Any]:
    """Return the schedules that should start runs."""
    return Schedule.objects.filter(
        paused=False,
        topic__trashed_at=None,
        topic__archived_at=None,
        topic__owner__is_active=True,
    ).exclude(cron="")


def _astray(now: datetime) -> tuple[dict[Any, datetime | None], int]:
    """Return the next run of each schedule that has another, and how many cannot be read.

    One that is due is the tick's.
    """
    right: dict[Any, datetime | None] = {}
    unreadable = 0
    for schedule in _in_force().exclude(next_run_at__lte=now):
        try:
            following = scheduling.next_run(schedule, now)
        except CronSimError:
            unreadable += 1
            continue
        if schedule.next_run_at != following:
            right[schedule.pk] = following
    return right, unreadable


def look_at_schedules() -> Found:
    """See whether each schedule knows its next run, and whether slots go by."""
    now = timezone.now()
    astray, unreadable = _astray(now)
    if astray:
        said = ngettext(
            "%(n)d schedule waits for another moment than its next run, or for none.",
            "%(n)d schedules wait for other moments than their next runs, or for none.",
            len(astray),
        )
        return Found(said % {"n": len(astray)}, BAD)
    if unreadable:
        said = _("Schedules whose cron line cannot be read: %(n)d.")
        todo = _(
            "Their owners set them anew (the topic's Settings, When): until then nothing runs."
        )
        return Found(said % {"n": unreadable}, WARN, todo)
    if late := Schedule.objects.due(now - PATIENCE).count():
        said = _("Schedules whose run was due more than half an hour ago: %(n)d.")
        todo = _(
            "Start Beacon, or see whether beat and upkeep run (Health): then each comes, or is "
            "skipped, as its topic's settings say."
        )
        return Found(said % {"n": late}, WARN, todo)
    return Found(_("Each schedule knows its next run, and none is late."))


def mend_schedules() -> str:
    """Look their next runs up anew; nothing is caught up with."""
    astray, _unreadable = _astray(timezone.now())
    moved = 0
    for key, following in astray.items():
        moved += Schedule.objects.filter(pk=key, paused=False).update(next_run_at=following)
    return _("Next runs looked up anew: %(n)d.") % {"n": moved}


EXAMINATIONS = (
    Examination(
        "schedules", gettext_lazy("Schedules"),
        gettext_lazy("Topics are not researched when their owners believe that they are."),
        look_at_schedules, mend_schedules,
    ),
)  # fmt: skip
