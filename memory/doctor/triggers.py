"""The database's triggers, which keep histories, indexes and counts whoever writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pgtrigger
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.doctor.checkup import BAD
from memory.doctor.examining import Examination, Found

_NAMED = 5
# What was counted while a trigger was missing counts no more: its app says here how to forget it.
AFTER_MENDING: list[Callable[[], object]] = []


def _drifted() -> list[tuple[Any, Any]]:
    """Return the triggers that are missing, switched off, or not as this version has them."""
    drifted = []
    for model, trigger in pgtrigger.registered():
        status, is_on = trigger.get_installation_status(model)
        if status != "INSTALLED" or not is_on:
            drifted.append((model, trigger))
    return drifted


def look_at_triggers() -> Found:
    """Compare the database's triggers with those of the models."""
    drifted = _drifted()
    if not drifted:
        return Found(_("Every trigger is there, and on."))
    names = [trigger.get_uri(model) for model, trigger in drifted]
    more = " …" if len(names) > _NAMED else ""
    said = _("Triggers that are missing, off or of another version: %(n)d (%(names)s).")
    return Found(said % {"n": len(names), "names": ", ".join(names[:_NAMED]) + more}, BAD)


@transaction.atomic
def mend_triggers() -> str:
    """Install them, on; what follows in the doctor's round finds what was written without them."""
    drifted = _drifted()
    for model, trigger in drifted:
        trigger.install(model)
        trigger.enable(model)
    if drifted:
        for forget in AFTER_MENDING:
            forget()
    return _("Triggers installed: %(n)d.") % {"n": len(drifted)}


EXAMINATIONS = (
    Examination(
        "triggers",
        gettext_lazy("Triggers"),
        gettext_lazy(
            "Histories can be changed, and indexes and counts miss what is written. They go when a "
            "table is copied or restored by hand without them."
        ),
        look_at_triggers,
        mend_triggers,
    ),
)
