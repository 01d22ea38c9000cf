"""Why a record is set aside in quarantine, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext as _

from memory.models import Trust
from memory.texts.injection import smells_of_instructions


def reason_of(record: Any) -> str:
    """Return why the record is set aside, in words; "" for one that is not."""
    if record.trust != Trust.QUARANTINED:
        return ""
    names = ("title", "content", "text", "key", "value")
    return reason_in(getattr(record, name, "") for name in names)


def reason_in(texts: Iterable[Any]) -> str:
    """Return why a record that says these texts is set aside."""
    for text in filter(None, texts):
        if smell := smells_of_instructions(str(text)):
            return _("It smells of instructions: it %(smell)s.") % {"smell": smell}
    return _("It derives from something in quarantine, or came so with an archive.")
