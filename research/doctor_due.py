"""What research has the doctor look at besides: follow-ups, schedules, the numbers of runs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from cronsim import CronSimError
from django.db.models import F, Max, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memory.doctor.checkup import BAD, WARN
from memory.doctor.examining import Examination, Found
from memory.models import Topic
from research import outbox
from research.models import Schedule, Step
from research.schedules import scheduling

GRACE = timedelta(minutes=1)  # for which the tick, which comes every 15 s, is given time
PATIENCE = timedelta(minutes=30)  # a slot is late after 15, and a follow-up may wait for a model


# --- follow-ups -----------------------------------------------------------------------------------


def _lost() -> QuerySet[Any]:
    return Step.objects.filter(
        is_follow_up=True, state=Step.State.RUNNING, lease_until__lt=Now() - GRACE
    )


def look_at_follow_ups() -> Found:
    """See whether what follows a run is given up by its worker, or waits for one too long."""
    if lost := _lost().count():
        said = ngettext(
            "%(n)d follow-up of a run is carried out by a worker that is gone.",
            "%(n)d follow-ups of runs are carried out by workers that are gone.",
            lost,
        )
        return Found(said % {"n": lost}, BAD)
    waiting = Step.objects.filter(
        is_follow_up=True, state=Step.State.WAITING, not_before__lt=Now() - PATIENCE
    ).count()
    if waiting:
        said = _("Follow-ups of runs that have waited for more than half an hour: %(n)d.")
        todo = _("See whether a worker runs, and what it is busy with (Health, its log).")
        return Found(said % {"n": waiting}, WARN, todo)
    return Found(_("No follow-up of a run is stalled."))


def mend_follow_ups() -> str:
    """Let another worker take them; one that has lost three workers is given up, with a warning."""
    freed = _lost().update(state=Step.State.WAITING, not_before=Now(), lease_until=None)
    told = {"freed": freed, "sent": outbox.dispatch()}
    return _("Follow-ups freed: %(freed)d. Sent to a worker, with runs: %(sent)d.") % told


# --- schedules ------------------------------------------------------------------------------------


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


# --- numbers of runs ------------------------------------------------------------------------------


def _behind() -> QuerySet[Topic]:
    """Return the topics that would give a number that one of their runs has."""
    found: QuerySet[Topic] = Topic.objects.annotate(last=Max("runs__number")).filter(
        last__gt=F("run_count")
    )
    return found


def look_at_numbers() -> Found:
    """Compare each topic's count of runs with the numbers that its runs have."""
    behind = _behind().count()
    if not behind:
        return Found(_("Each topic's next run has a number of its own."))
    said = ngettext(
        "%(n)d topic has counted fewer runs than it has.",
        "%(n)d topics have counted fewer runs than they have.",
        behind,
    )
    return Found(said % {"n": behind}, BAD)


def mend_numbers() -> str:
    """Count on from the highest number."""
    counted = 0
    for topic in _behind():
        last = topic.last  # type: ignore[attr-defined]
        counted += Topic.objects.filter(pk=topic.pk, run_count__lt=last).update(run_count=last)
    return _("Topics that count on from their last run: %(n)d.") % {"n": counted}


EXAMINATIONS = (
    Examination(
        "follow-ups", gettext_lazy("Follow-ups of runs"),
        gettext_lazy("What a run found out is in its report, but not yet in observations and notes."),
        look_at_follow_ups, mend_follow_ups,
    ),
    Examination(
        "schedules", gettext_lazy("Schedules"),
        gettext_lazy("Topics are not researched when their owners believe that they are."),
        look_at_schedules, mend_schedules,
    ),
    Examination(
        "run-numbers", gettext_lazy("Numbers of runs"),
        gettext_lazy("The next run of such a topic cannot be saved: its number is taken."),
        look_at_numbers, mend_numbers,
    ),
)  # fmt: skip
