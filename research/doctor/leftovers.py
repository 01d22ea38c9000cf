"""What runs that are over left behind: pages that were read for them, and reserved money."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Concat, Now
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memory.actors import MAINTENANCE
from memory.content import clearing
from memory.doctor.checkup import WARN
from memory.doctor.examining import Examination, Found
from memory.models import CallReservation, ContentItem, Lock, Trust
from memory.models.content import ContentQuerySet
from research.doctor.runs import GRACE
from research.models import Hit, Run

# Of a run: the source that the records which it made name.
_SOURCE_OF_RUN = Concat(Value("run:"), Cast("pk", TextField()), output_field=TextField())


# --- what was read for runs that are gone ---------------------------------------------------------


def _orphans() -> ContentQuerySet:
    """Return what was kept for a run that is gone; what a person touched, or a report cites, stays."""
    runs = Run.objects.annotate(named=_SOURCE_OF_RUN)
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
    ).annotate(named=_SOURCE_OF_RUN)
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
    """Take those reservations back."""
    return _("Reservations taken back: %(n)d.") % {"n": _of_ended_runs().delete()[0]}


EXAMINATIONS = (
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
)  # fmt: skip
