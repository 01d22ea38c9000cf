"""What research has the doctor look at: runs, what was read for them, deliveries, reserved money."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Concat, Now
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memory.actors import MAINTENANCE
from memory.content import clearing
from memory.doctor import examining, triggers
from memory.doctor.checkup import BAD, WARN
from memory.doctor.examining import Examination, Found
from memory.models import CallReservation, ContentItem, Lock, Trust
from memory.models.content import ContentQuerySet
from research import doctor_due, outbox
from research.models import Delivery, Hit, Run, TopicNews
from research.notices import sending

GRACE = timedelta(minutes=1)  # for which the tick, which comes every 15 s, is given time
PATIENCE = timedelta(minutes=15)  # after which what waits for a worker waits too long


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


# --- deliveries -----------------------------------------------------------------------------------


def _stuck() -> QuerySet[Any]:
    return Delivery.objects.filter(state=Delivery.State.SENDING, lease_until__lt=Now() - GRACE)


def look_at_deliveries() -> Found:
    """See whether messages are given up by their workers, or wait for one too long."""
    stuck = _stuck().count()
    if stuck:
        said = ngettext(
            "%(n)d message is being sent by a worker that is gone.",
            "%(n)d messages are being sent by workers that are gone.",
            stuck,
        )
        return Found(said % {"n": stuck}, BAD)
    waiting = Delivery.objects.filter(
        state=Delivery.State.WAITING, not_before__lt=Now() - PATIENCE
    ).count()
    if waiting:
        said = _("Messages that were to be sent more than 15 minutes ago: %(n)d.")
        todo = _("See whether the upkeep worker runs (Health); then they go by themselves.")
        return Found(said % {"n": waiting}, WARN, todo)
    return Found(_("No message is stuck."))


def mend_deliveries() -> str:
    """Let them wait for another worker, which sends none twice: see `research.notices.sending`."""
    freed = _stuck().update(
        state=Delivery.State.WAITING, not_before=Now(), nudged_at=None, lease_until=None
    )
    sent = sending.dispatch()
    told = {"freed": freed, "sent": sent}
    return _("Messages freed: %(freed)d. Given to a worker: %(sent)d.") % told


# --- what was read for runs that are gone ---------------------------------------------------------


def _orphans() -> ContentQuerySet:
    """Return what was kept for a run that is gone; what a person touched, or a report cites, stays."""
    runs = Run.objects.annotate(
        named=Concat(Value("run:"), Cast("pk", TextField()), output_field=TextField())
    )
    kept = (
        ContentItem.objects.all()
        .live()
        .filter(kept_with__startswith="run:", source__startswith="run:")
    )
    kept = kept.filter(pinned=False, lock=Lock.OPEN).exclude(trust=Trust.OWNER)
    kept = kept.filter(~Exists(runs.filter(named=OuterRef("source"))))
    return kept.filter(~Exists(Hit.objects.filter(content_item=OuterRef("pk"))))


def look_at_content() -> Found:
    """See whether pages that were read for a run outlived it."""
    orphans = _orphans().count()
    if not orphans:
        return Found(_("What was kept for runs belongs to runs that there are."))
    said = ngettext(
        "%(n)d content item was kept for a run that is gone.",
        "%(n)d content items were kept for runs that are gone.",
        orphans,
    )
    return Found(said % {"n": orphans}, WARN)


def mend_content() -> str:
    """Move them to the trash, from where their owners may bring them back for 30 days."""
    now = timezone.now()
    why = _("the run that it was read for is gone")
    moved = clearing.change_all(_orphans(), {"trashed_at": now}, by=MAINTENANCE, why=why)
    return _("Moved to the trash: %(n)d.") % {"n": moved}


# --- money ----------------------------------------------------------------------------------------


def _of_ended_runs() -> QuerySet[Any]:
    """Return what runs hold that failed or were cancelled: nothing follows after those."""
    ended = Run.objects.filter(
        status__in=[Run.Status.FAILED, Run.Status.CANCELLED], finished_at__lt=Now() - GRACE
    ).annotate(named=Concat(Value("run:"), Cast("pk", TextField()), output_field=TextField()))
    mine = Q(topic__owner=OuterRef("owner")) & Q(named=OuterRef("source"))
    return CallReservation.objects.filter(
        Exists(ended.filter(mine, finished_at__gt=OuterRef("created")))
    )


def look_at_money() -> Found:
    """See whether a run that has ended still holds a part of a budget."""
    left = _of_ended_runs().count()
    if not left:
        return Found(_("No run that has ended holds a part of a budget."))
    said = ngettext(
        "%(n)d call of a run that has ended still holds a part of a budget.",
        "%(n)d calls of runs that have ended still hold a part of a budget.",
        left,
    )
    return Found(said % {"n": left}, WARN)


def mend_money() -> str:
    """Give it back."""
    return _("Reservations taken back: %(n)d.") % {"n": _of_ended_runs().delete()[0]}


def count_news_anew() -> None:
    """Let what lists tell of unread reports be counted again: a trigger may have missed a change."""
    TopicNews.objects.update(counted=None)


def register() -> None:
    """Have the doctor look at these, too."""
    triggers.AFTER[:] = [count_news_anew]
    examining.register(
        Examination(
            "runs", gettext_lazy("Runs"),
            gettext_lazy("Nothing comes of them, and their topics cannot be researched meanwhile."),
            look_at_runs, mend_runs,
        ),
        Examination(
            "deliveries", gettext_lazy("Messages"),
            gettext_lazy("People are not told what they asked to be told."),
            look_at_deliveries, mend_deliveries,
        ),
        Examination(
            "content", gettext_lazy("Content of runs"),
            gettext_lazy("It takes room, and nothing that is shown leads to it."),
            look_at_content, mend_content,
        ),
        Examination(
            "budgets", gettext_lazy("Budgets of runs"),
            gettext_lazy("Other calls may be refused for money that nobody spends."),
            look_at_money, mend_money,
        ),
        *doctor_due.EXAMINATIONS,
    )  # fmt: skip
