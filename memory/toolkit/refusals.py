"""What memory refuses, as answers that a model can act on."""

from __future__ import annotations

from django.utils.translation import gettext as _

from memory.errors import InvalidValue, LimitReached, Locked, MemoryRefused, NoSuchKey, StaleWrite
from memory.files.errors import NoSuchFile
from memory.files.limits import OverBudget
from memory.toolkit.types import ToolResult, refused


def answer_of(exc: Exception) -> ToolResult | None:
    """Return the answer for what memory refused; None for what is no refusal."""
    if isinstance(exc, NoSuchKey):
        advice = _("scratchpad_list shows which keys there are.")
        return refused("not_found", f"{exc} {advice}")
    if not isinstance(exc, MemoryRefused):
        return None
    if isinstance(exc, InvalidValue):
        return refused("invalid", str(exc), errors=exc.errors)
    if isinstance(exc, Locked):
        advice = _("Leave it as it is, and tell the person what you would change.")
        return refused("locked", f"{exc} {advice}")
    if isinstance(exc, StaleWrite):
        return refused("stale", str(exc), version=exc.current)
    if isinstance(exc, NoSuchFile):
        return refused("not_found", str(exc), path=exc.path)
    if isinstance(exc, OverBudget):
        return refused("over_budget", str(exc), have=exc.have, most=exc.most)
    if isinstance(exc, LimitReached):
        return refused("limit", str(exc))
    return refused("refused", str(exc))
