"""Messages against the workers that should send them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memory.doctor.checkup import BAD, WARN
from memory.doctor.examining import Examination, Found
from research.doctor.runs import GRACE
from research.models import Delivery
from research.notifications import sending

PATIENCE = timedelta(minutes=15)  # after which a message waits too long for a worker


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
    """Let them wait for another worker, which sends none twice: see `research.notifications.sending`."""
    freed = _stuck().update(
        state=Delivery.State.WAITING, not_before=Now(), nudged_at=None, lease_until=None
    )
    sent = sending.dispatch()
    told = {"freed": freed, "sent": sent}
    return _("Messages freed: %(freed)d. Given to a worker: %(sent)d.") % told


EXAMINATIONS = (
    Examination(
        "deliveries", gettext_lazy("Messages"),
        gettext_lazy("People are not told what they asked to be told."),
        look_at_deliveries, mend_deliveries,
    ),
)  # fmt: skip
