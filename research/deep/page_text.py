"""What a track is told of a page that it opens."""

from __future__ import annotations

from django.utils.translation import gettext as _

from memory.texts.text import as_data
from memory.toolkit.types import ToolContext, ToolResult, refused
from research.claims.duplicates import near_duplicates
from research.claims.selection import Reading
from research.models import Hit
from research.working.context import RunContext


def answer(context: ToolContext, hit: Hit) -> ToolResult:
    """Return the text of a page that was read, or why there is none."""
    told = {"n": hit.place, "why": hit.reason}
    if hit.reading == Hit.Reading.FAILED:
        words = _("p%(n)d could not be read: %(why)s Open another one.")
        return refused("unreadable", words % told)
    if hit.reading == Hit.Reading.QUARANTINED:
        return refused("quarantined", _("p%(n)d is set aside: %(why)s.") % told)
    if hit.reading == Hit.Reading.NEAR_DUPLICATE:
        return refused("repeated", _("p%(n)d %(why)s; open another one.") % told)
    item = hit.content_item
    if item is None:
        return refused("unreadable", _("The text of p%(n)d is no longer kept.") % told)
    context.read([item])
    about = ", ".join(filter(None, [hit.domain, str(hit.published_at or "")]))
    text = f"{item.title}\n\n{item.content}"
    return ToolResult(
        f"p{hit.place} ({about})\n{as_data(text)}",
        data={
            "page": f"p{hit.place}",
            "url": hit.link,
            "title": item.title,
            "characters": len(item.content),
            "content_item": str(item.pk),
        },
    )


def set_aside_if_repeated(work: RunContext, hit: Hit) -> None:
    """Mark a page that carries the text of one read before, so that it counts as one source."""
    if hit.reading != Hit.Reading.READ:
        return
    rows = work.run.hits.filter(reading=Hit.Reading.READ).select_related("content_item")
    # By order of reading, not by date: what was cited already stays a source.
    read = [*rows.exclude(pk=hit.pk).order_by("place"), hit]
    repeated = near_duplicates([_page(one, n) for n, one in enumerate(read)])
    original = repeated.get(len(read) - 1)
    if original is not None:
        hit.reading = Hit.Reading.NEAR_DUPLICATE
        hit.reason = _("carries the same text as %(domain)s") % {"domain": read[original].domain}
        hit.save(update_fields=["reading", "reason"])


def _page(hit: Hit, number: int) -> Reading:
    text = hit.content_item.content if hit.content_item else ""
    return Reading(number, hit.link, hit.title, hit.domain, text)
