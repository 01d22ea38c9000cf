"""Rating a result of recall, which `update_memory` does on request."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from django.utils.translation import gettext as _

from beacon_site.text.cleaning import shorten
from memory.agents.tools.types import ToolContext, ToolResult, refused
from memory.services.records.kinds import named
from memory.services.review.proposals import check_unreviewed
from memory.services.search import ratings

RatingValue = Literal["useful", "not-useful", "none"]
REVIEWED_AS = "rating"  # the rule for everything else applies


def rate(context: ToolContext, text: str, value: RatingValue, query: str, why: str) -> ToolResult:
    """Rate a record that the caller can read, or clear its rating."""
    try:
        key = UUID(text.strip().strip("[]").rpartition(":")[2])
    except ValueError:
        key = None
    record = ratings.record_of(context.owner, key) if key else None
    if record is None or not context.may_read(record):
        problem = _("There is no result “%(id)s”. Use recall to get IDs.")
        return refused("not_found", problem % {"id": shorten(text, 60)})
    act = _("Rating a result")
    check_unreviewed(context.owner, REVIEWED_AS, by=context.by, act=act)
    if value != "none":
        ratings.rate(context.owner, query, record, value, by=context.by, reason=why)
        told = _("Rated. The same query ranks it accordingly.")
    elif (rating := ratings.rating_of(context.owner, query, record)) is not None:
        ratings.clear(rating, by=context.by)
        told = _("Rating cleared.")
    else:
        told = _("It isn’t rated for this query, so nothing changed.")
    return ToolResult(told, data={"id": str(record.pk), "records": [named(record)]})
