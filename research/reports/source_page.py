"""The page of one source of a report: its text as it was read, the quotes marked at their places.

Data flow: source as the report cites it -> the run's hit and its stored text -> pieces of the text,
plain or quoted.  What the store let go is told; the quotes stay with the words around them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from memory.models import ContentItem
from research.claims.quoting import Folded, Span, fold
from research.models import Hit, Report
from research.reports.page import Quote, SourceRow, sources_of


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the stored text; `place` is the number of the quote that it holds, 0 for none."""

    text: str
    place: int = 0


@dataclass(slots=True)
class SourcePage:
    """One source with the text that was read, and its quotes with where they stand."""

    source: SourceRow
    item: ContentItem | None
    hit: Hit | None
    quotes: list[tuple[int, Quote, bool]] = field(default_factory=list)  # number, quote, is there
    pieces: list[Piece] = field(default_factory=list)


def source_page(report: Report, n: int) -> SourcePage | None:
    """Return source `n` of a report as it was read, or None: one query."""
    numbered = zip(sources_of(report), report.sources, strict=True)
    found = [(row, stored) for row, stored in numbered if row.n == n]
    if not found:
        return None
    row, stored = found[0]
    hits = Hit.objects.filter(run=report.run_id, link=stored.get("link", ""))
    hit = hits.select_related("content_item").first()
    item = hit.content_item if hit else None
    page = SourcePage(row, item, hit)
    spans = _spans(page, stored.get("quotes", []), item.content if item else "")
    page.pieces = list(_pieces(item.content, spans)) if item else []
    return page


def _spans(page: SourcePage, stored: list[Any], content: str) -> list[tuple[Span, int]]:
    """Return the places of the quotes in the stored text, each with its number."""
    folded = Folded(content)
    found: list[tuple[Span, int]] = []
    for number, (quote, kept) in enumerate(zip(page.source.quotes, stored, strict=True), start=1):
        span = _span_of(quote, kept, folded) if quote.found and content else None
        if span is not None:
            found.append((span, number))
        page.quotes.append((number, quote, span is not None))
    return sorted(found, key=lambda one: (one[0].start, one[0].end))


def _span_of(quote: Quote, kept: dict[str, Any], folded: Folded) -> Span | None:
    """Return where a quote stands: at the place that was noted, else where it is found now."""
    start, end = kept.get("start", -1), kept.get("end", -1)
    is_noted = isinstance(start, int) and isinstance(end, int) and 0 <= start < end
    if is_noted and fold(folded.stored[start:end]) == fold(quote.quote):
        return Span(start, end)
    return folded.find(quote.quote)


def _pieces(content: str, spans: list[tuple[Span, int]]) -> Any:
    """Yield the text in pieces; where quotes overlap, the later one begins where the former ends."""
    at = 0
    for span, number in spans:
        start = max(at, span.start)
        if start > at:
            yield Piece(content[at:start])
        # One that lies inside another keeps its place: an empty mark to jump to.
        yield Piece(content[start : max(start, span.end)], number)
        at = max(at, span.end)
    if at < len(content):
        yield Piece(content[at:])
