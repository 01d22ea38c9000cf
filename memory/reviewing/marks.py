"""The words of a proposal that look like prompt injection, marked in the rows of its diff."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from memory.texts.diff import Piece, Row
from memory.texts.injection import instruction_spans, smells_of_instructions

Span = tuple[int, int]
_MARK = '<mark class="offending">{}</mark>'


class MarkedPiece(Piece):
    """A piece of a line whose offending words are marked; `spans` are their places in it."""

    __slots__ = ("spans",)
    spans: Sequence[Span]

    @classmethod
    def of(cls, piece: Piece, spans: Sequence[Span]) -> MarkedPiece:
        """Return the piece with marks."""
        marked = cls(piece.kind, piece.text)
        object.__setattr__(marked, "spans", spans)
        return marked

    @property
    def shown(self) -> SafeString:
        """Return the text for a page, escaped, with a <mark> around each span."""
        text, at, parts = self.text.rstrip("\r\n"), 0, list[str]()
        for begin, end in self.spans:
            parts += [text[at:begin], format_html(_MARK, text[begin:end])]
            at = end
        return format_html_join("", "{}", [(part,) for part in [*parts, text[at:]]])


def marked(rows: Iterable[Row]) -> list[Row]:
    """Return the rows with the offending words of their new text marked.

    Orders that only several lines together give are marked as a whole.
    """
    rows = list(rows)
    texts = ["".join(piece.text for piece in row.after) if row.new else "" for row in rows]
    spans = [
        instruction_spans(text) if row.kind != "same" else []
        for row, text in zip(rows, texts, strict=True)
    ]
    if not any(spans):
        added = [text if row.kind != "same" else "" for row, text in zip(rows, texts, strict=True)]
        if smells_of_instructions("".join(added)):
            spans = [[(0, len(text))] if text.strip() else [] for text in added]
    return [_row(row, found) if found else row for row, found in zip(rows, spans, strict=True)]


def _row(row: Row, spans: Sequence[Span]) -> Row:
    pieces, at = [], 0
    for piece in row.pieces:
        if piece.kind == "old":
            pieces.append(piece)
            continue
        end = at + len(piece.text)
        inside = [(max(a, at) - at, min(b, end) - at) for a, b in spans if a < end and b > at]
        pieces.append(MarkedPiece.of(piece, inside) if inside else piece)
        at = end
    return replace(row, pieces=tuple(pieces))
