"""How a quote is shown: a row of a Markdown table as a row, with those around it, else as it is.

The words around a quote are kept on one line, so that the rows of a table have to be found again:
the quoted row tells how many cells each of them has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_CELL = r"(?:\\.|[^|\\])*\|"
_RULE = re.compile(r":?-+:?")
_HEADING = re.compile(r"(?:^|(?<=\s))#{1,6}\s+")


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table; `is_quoted` marks the one that is the quote."""

    cells: list[str]
    is_quoted: bool = False
    is_head: bool = False


@dataclass(slots=True)
class Shown:
    """A quote with the lines before and after it, and the rows of the table that it is a row of."""

    before: list[str] = field(default_factory=list)
    rows: list[TableRow] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


def cells_of(quote: str) -> list[str]:
    """Return the cells of a quote that is a row of a Markdown table, else nothing."""
    quote = quote.strip()
    if len(quote) < 3 or not (quote.startswith("|") and quote.endswith("|")):
        return []
    cells = [one[:-1].strip().replace("\\|", "|") for one in re.findall(_CELL, quote[1:])]
    return cells if len(cells) > 1 else []


def in_words(quote: str) -> str:
    """Return the quote as a line of text: the cells of a row without the bars between them."""
    return " · ".join(filter(None, cells_of(quote))) or quote


def shown(quote: str, before: str = "", after: str = "") -> Shown:
    """Return the quote with what is around it, in lines and rows."""
    cells = cells_of(quote)
    if not cells:
        return Shown(_lines(_without_rows_at_end(before)), [], _lines(_without_rows(after)))
    above, before = _rows_at_end(before, len(cells))
    below, after = _rows_at_start(after, len(cells))
    rule = next((place for place, row in enumerate(above) if all(map(_RULE.fullmatch, row))), 0)
    rows = [TableRow(row, is_head=bool(rule)) for row in above[:rule]]
    rows += [TableRow(row) for row in above[rule + bool(rule) :]]
    rows += [TableRow(cells, is_quoted=True), *map(TableRow, below)]
    # Before the table its heading is enough; what follows it speaks of something else.
    return Shown(["…"] if "|" in before else _lines(before)[-1:], rows)


def _rows_at_end(text: str, count: int) -> tuple[list[list[str]], str]:
    row = re.compile(rf"(?:^|(?<=\s))\|(?:{_CELL}){{{count}}}$")
    rows: list[list[str]] = []
    text = text.rstrip()
    while found := row.search(text):
        rows.insert(0, cells_of(found[0]))
        text = text[: found.start()].rstrip()
    return rows, text


def _rows_at_start(text: str, count: int) -> tuple[list[list[str]], str]:
    row = re.compile(rf"\|(?:{_CELL}){{{count}}}(?=\s|$)")
    rows: list[list[str]] = []
    text = text.lstrip()
    while found := row.match(text):
        rows.append(cells_of(found[0]))
        text = text[found.end() :].lstrip()
    return rows, text


def _without_rows(text: str) -> str:
    """Return the text up to where the rows of a table begin."""
    text, bar, rest = text.partition(" | ") if not text.startswith("|") else ("", "|", text[1:])
    if "|" not in rest and "…" not in rest:
        return f"{text}{bar}{rest}"
    return f"{text} …" if text and not text.endswith("…") else text


def _without_rows_at_end(text: str) -> str:
    """Return the text behind the rows of a table with which it begins or that are in it."""
    if text.count("|") < 2:
        return text
    rest = text.rpartition("|")[2].strip()
    return f"… {rest}" if rest else ""


def _lines(text: str) -> list[str]:
    """Return the text in lines, a heading being one of its own."""
    return [line.strip() for line in _HEADING.split(text) if line.strip()]
