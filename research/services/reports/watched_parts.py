"""What changed in the parts of pages that a topic watches, between two runs.

The hits of a saved run that have a `part` -> the last text of the same part that an earlier run
read -> a diff of both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import Q

from beacon_site.text.cleaning import shorten
from beacon_site.text.diff import Row, diff, folded
from memory.models import ContentItem, Trust
from research.models import Hit, Run
from research.models.reports import Link, link_of

MOST_ROWS = 200  # lines shown of one part's diff
MOST_CHARACTERS = 30_000  # of these lines
LONGEST_PIECE = 2_000  # characters that changed, or stayed, without a break

FIRST, SAME, CHANGED, UNREAD = "first", "same", "changed", "unread"


@dataclass(frozen=True, slots=True)
class WatchedPart:
    """A part of a page in one run, compared with the last run that read it."""

    address: str
    part: str
    state: str  # first, same, changed, or unread
    reason: str = ""  # why it's unread
    since: int | None = None  # the number of the run it is compared with
    rows: list[Row] = field(default_factory=list)
    rows_left: int = 0  # further lines of the diff

    @property
    def link(self) -> Link:
        return link_of(self.address)


def watched_parts(run: Run, hits: Iterable[Hit] | None = None) -> list[WatchedPart]:
    """Return the run's watched parts in order. `hits` are all of its hits, if they are loaded.

    Makes no query more if there are none, otherwise two: for the texts, and for earlier ones.
    """
    hits = run.hits.exclude(part="") if hits is None else hits
    parts = sorted((hit for hit in hits if hit.part), key=lambda hit: hit.place)
    if not parts:
        return []
    usable = ContentItem.objects.filter(trashed_at=None).exclude(trust=Trust.QUARANTINED)
    texts = usable.in_bulk([hit.content_item_id for hit in parts if hit.content_item_id])
    earlier = _earlier(run, parts)
    return [_compared(hit, texts.get(hit.content_item_id), earlier.get(hit.url)) for hit in parts]


def _earlier(run: Run, parts: list[Hit]) -> dict[str, Hit]:
    """Return the last earlier hit with a text of each part, by URL."""
    same = Q()
    for hit in parts:
        same |= Q(url=hit.url, part=hit.part)
    found = Hit.objects.filter(same, run__topic=run.topic_id, run__number__lt=run.number)
    found = found.filter(content_item__trashed_at=None, content_item__isnull=False)
    found = found.exclude(content_item__trust=Trust.QUARANTINED)
    found = found.select_related("content_item", "run")
    last = found.order_by("url", "-run__number").distinct("url")
    return {hit.url: hit for hit in last}


def _compared(hit: Hit, text: ContentItem | None, earlier: Hit | None) -> WatchedPart:
    told: dict[str, Any] = {"address": hit.link, "part": hit.part}
    if text is None or hit.reading in (Hit.Reading.FAILED, Hit.Reading.QUARANTINED):
        return WatchedPart(**told, state=UNREAD, reason=hit.reason)
    if earlier is None or earlier.content_item is None:
        return WatchedPart(**told, state=FIRST)
    told["since"] = earlier.run.number
    before, now = earlier.content_item.content, text.content
    if before == now:
        return WatchedPart(**told, state=SAME)
    # Blank lines only separate paragraphs, so their changes aren't shown.
    rows = [row for row in diff(f"{before}\n", f"{now}\n") if not row.is_blank]
    rows = folded(rows)
    shown = _limited(rows)
    left = len(rows) - len(shown)
    return WatchedPart(**told, state=CHANGED, rows=shown, rows_left=left)


def _limited(rows: list[Row]) -> list[Row]:
    """Return the first rows with their pieces cut, so that a page or an answer stays small."""
    kept: list[Row] = []
    room = MOST_CHARACTERS
    for row in rows[:MOST_ROWS]:
        if room <= 0:
            break
        pieces = [replace(one, text=shorten(one.text, LONGEST_PIECE)) for one in row.pieces]
        room -= sum(len(one.text) for one in pieces)
        kept.append(replace(row, pieces=tuple(pieces)))
    return kept
