"""Work that is handed to processes as rows: what has waited far longer than it may."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.doctor.checkup import WARN
from memory.doctor.examining import Examination, Found
from memory.models import Archive, BulkAct, EmbeddingDue, Message, PublishDue, Reflection

PATIENCE = timedelta(minutes=30)  # most is taken up within a minute, the rest within a few


def _waiting() -> Mapping[str, QuerySet[Any]]:
    """Return what nobody has taken up, or goes on with, for too long; by what people call it."""
    before = timezone.now() - PATIENCE
    left = Q(lease_until=None) | Q(lease_until__lt=before)
    acts = (BulkAct.State.WAITING, BulkAct.State.RUNNING)
    return {
        _("acts on many records"): BulkAct.objects.filter(left, state__in=acts, created__lt=before),
        _("exports and imports"): Archive.objects.filter(
            left, state__in=(Archive.State.WAITING, Archive.State.RUNNING), created__lt=before
        ),
        _("answers in Ask"): Message.objects.filter(
            left, state__in=(Message.State.WAITING, Message.State.ANSWERING), created__lt=before
        ),
        _("finished work to look back on"): Reflection.objects.filter(
            state=Reflection.State.WAITING, created__lt=before
        ),
        _("copies to publish in Redis"): PublishDue.objects.filter(created__lt=before),
        _("records that wait for a vector"): EmbeddingDue.objects.filter(
            held=False, not_before__lt=before
        ),
    }


def look() -> Found:
    """Count what waits too long."""
    counted = {name: rows.count() for name, rows in _waiting().items()}
    told = ", ".join(f"{name}: {n:,}" for name, n in counted.items() if n)
    if not told:
        return Found(_("Nothing has waited for more than half an hour."))
    said = _("Waiting for more than half an hour: %(what)s.") % {"what": told}
    todo = _(
        "It is taken up by itself once worker, upkeep and beat run; see Health, and their log."
    )
    return Found(said, WARN, todo)


EXAMINATIONS = (
    Examination(
        "work", gettext_lazy("Work that waits"),
        gettext_lazy("Somebody asked for it, or what recall finds and others read is behind."),
        look,
    ),
)  # fmt: skip
