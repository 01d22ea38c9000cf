"""Runs and follow-ups against the workers that should carry them out, and the numbers of runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import F, Max, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memory.doctor.checkup import BAD, WARN
from memory.doctor.examining import Examination, Found
from memory.models import Topic
from research import outbox
from research.models import Run, Step

GRACE = timedelta(minutes=1)  # for which the tick, which comes every 15 s, is given time
PATIENCE = timedelta(minutes=15)  # after which a run waits too long for a worker
MODEL_PATIENCE = timedelta(minutes=30)  # a follow-up may wait for a model besides


# --- runs -----------------------------------------------------------------------------------------


def _stalled() -> QuerySet[Any]:
    return Run.objects.filter(status=Run.Status.RUNNING, lease_until__lt=Now() - GRACE)


def look_at_runs() -> Found:
    """See whether runs are given up by their workers, or wait for one too long."""
    stalled = _stalled().count()
    if stalled:
        said = ngettext(
            "%(n)d run goes on by its row alone: its worker is gone.",
            "%(n)d runs go on by their rows alone: their workers are gone.",
            stalled,
        )
        return Found(said % {"n": stalled}, BAD)
    waiting = Run.objects.waiting_to_start().filter(not_before__lt=Now() - PATIENCE).count()
    if waiting:
        said = _("Runs that have waited for a worker for more than 15 minutes: %(n)d.")
        todo = _("See whether a worker runs, and what it is busy with (Health, its log).")
        return Found(said % {"n": waiting}, WARN, todo)
    return Found(_("No run is stalled."))


def mend_runs() -> str:
    """Queue again what lost its worker, as the tick does, and tell a worker."""
    freed = Run.objects.free_stalled()
    sent = outbox.dispatch()
    told = {"freed": freed, "sent": sent}
    return _("Runs freed: %(freed)d. Sent to a worker: %(sent)d.") % told


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
        is_follow_up=True, state=Step.State.WAITING, not_before__lt=Now() - MODEL_PATIENCE
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


# --- numbers --------------------------------------------------------------------------------------


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
        "runs", gettext_lazy("Runs"),
        gettext_lazy("Nothing comes of them, and their topics cannot be researched meanwhile."),
        look_at_runs, mend_runs,
    ),
    Examination(
        "follow-ups", gettext_lazy("Follow-ups of runs"),
        gettext_lazy("What a run found out is in its report, but not yet in observations and notes."),
        look_at_follow_ups, mend_follow_ups,
    ),
    Examination(
        "run-numbers", gettext_lazy("Numbers of runs"),
        gettext_lazy("The next run of such a topic cannot be saved: its number is taken."),
        look_at_numbers, mend_numbers,
    ),
)  # fmt: skip
