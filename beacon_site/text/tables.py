"""Tables with cells that span rows or columns, tables in HTML, and CSV. Pure functions."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser

from beacon_site.text.cleaning import one_line
from beacon_site.text.line_formats import MIN_LINES, csv_separator, has_one_row

MAX_SPANNED = 200  # rows or columns
MAX_COLUMNS = 500
MAX_ADDED_CELLS = 3_000  # of a table, for cells that span several columns or rows
MAX_COPY_LENGTH = 400  # characters of an added cell
MAX_GROWN = 1_000_000  # characters that added cells may make a page longer
MAX_TABLE_LENGTH = 200_000  # characters

# A tag of a table, or code, in which tags are text.
_EDGE = re.compile(
    r"<(/?)table\b[^<>]{0,2000}>|^[ \t]{0,8}(```|~~~).*?^[ \t]*\2|(`{1,2})[^`\n]{1,120}\3",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
# `{rowspan=2}`, `#{rowspan=2}` or `{: colspan="2"}` after a cell's text, or `rowspan="2"` before it.
_ATTRIBUTES = re.compile(r"\s{0,20}#?\{:?\s{0,20}((?:row|col)span\s{0,20}=[^{}]{1,60})\}")
_SPAN = re.compile(r"(row|col)span\s*=\s*[\"']?(\d{1,3})", re.IGNORECASE)
_ABOVE = "^^"  # the cell continues the one above


@dataclass(frozen=True)
class Cell:
    """A cell's text, and the rows and columns that it spans."""

    text: str
    rows: int = 1
    columns: int = 1


Row = tuple[Sequence[Cell], str]  # the cells, and the lines they come from


def cell(text: str, attributes: str = "") -> Cell:
    """Return a cell, with the spans from its attributes or from those in its text."""
    if "{" in text and (match := _ATTRIBUTES.search(text)):
        text, attributes = text[: match.start()] + text[match.end() :], match[1]
    spans = {name.lower(): int(number) for name, number in _SPAN.findall(attributes)}
    rows, columns = (min(max(spans.get(name, 1), 1), MAX_SPANNED) for name in ("row", "col"))
    return Cell(text.strip(), rows, columns)


def grid(
    rows: Sequence[Sequence[Cell]], most: int = MAX_ADDED_CELLS
) -> Iterator[list[tuple[Cell, int, bool]]]:
    """Yield what is in each column of each row: the cell, how many columns right of its first one,
    and whether it began in a row above.

    At most `most` places are added. Cells after that only have their own place.
    """
    above: dict[int, tuple[Cell, int, int]] = {}  # by column; the last is in how many more rows
    for number, cells in enumerate(rows):
        row: list[tuple[Cell, int, bool]] = []
        waiting = iter(cells)
        while True:
            if len(row) in above:
                each, right, rest = above.pop(len(row))
                if rest > 1:
                    above[len(row)] = each, right, rest - 1
                row.append((each, right, True))
                continue
            if (own := next(waiting, None)) is None:
                break
            columns = min(own.columns, MAX_COLUMNS - len(row), 1 + most)
            if columns < 1:
                continue
            lines = min(own.rows, len(rows) - number, (1 + most) // columns)
            most -= columns * lines - 1
            for right in range(columns):
                if lines > 1:
                    above[len(row)] = own, right, lines - 1
                row.append((own, right, False))
        yield row


def spread(
    rows: Sequence[Row], most: int = MAX_ADDED_CELLS, *, is_head: bool = False
) -> list[tuple[list[str], str]]:
    """Return rows in which each spanned place has the text of its cell.

    A cell that is a whole row below the head is its title, so it's only in the first column.
    """
    results: list[tuple[list[str], str]] = []
    filled = grid([cells for cells, _quote in rows], most)
    for (cells, quote), row in zip(rows, filled, strict=True):
        if not cells:
            continue
        first, _right, is_below = row[0]
        is_title = (
            not is_head
            and len(cells) == 1
            and first.columns > 2
            and first.rows == 1
            and not is_below
        )
        texts: list[str] = []
        for each, right, is_below in row:
            text = each.text
            if text == _ABOVE and results and len(texts) < len(results[-1][0]):
                text = results[-1][0][len(texts)]
            elif right or is_below:
                text = "" if is_title and right else text[:MAX_COPY_LENGTH]
            texts.append(text)
        results.append((texts, quote))
    return results


def flow(cells: Sequence[tuple[Cell, str]], columns: int) -> list[Row]:
    """Return cells, each with its line, as rows with so many columns."""
    results: list[Row] = []
    occupied: Counter[int] = Counter()  # columns of a row that cells above it span
    row: list[Cell] = []
    quotes: dict[str, None] = {}
    used = 0
    left = MAX_ADDED_CELLS
    for number, (each, quote) in enumerate(cells, start=1):
        while not row and occupied[len(results)] >= columns and columns:
            results.append(([], ""))  # all its cells are in the row above
        each = replace(each, rows=min(each.rows, 1 + left // max(each.columns, 1)))
        left -= (each.rows - 1) * each.columns
        row.append(each)
        quotes[quote] = None
        used += each.columns
        for below in range(1, each.rows):
            occupied[len(results) + below] += each.columns
        while row and (used + occupied[len(results)] >= columns or number == len(cells)):
            results.append((row, " ".join(filter(None, quotes))))
            row, quotes, used = [], {}, 0
    return results


def read_csv(text: str) -> list[tuple[list[str], str]]:
    """Return the rows of a CSV file with their lines, or nothing if a text isn't one."""
    mark = csv_separator(text)
    if not mark:
        return []
    rows = csv_rows(text.lstrip("\ufeff").split("\n"), mark)
    fitting = sum(len(cells) == len(rows[0][0]) for cells, _quote in rows)
    is_enough = len(rows) >= MIN_LINES or has_one_row(text, mark)
    is_table = is_enough and fitting >= 0.9 * len(rows) and len(rows[0][0]) > 1
    return rows if is_table and all(rows[0][0]) else []


def csv_rows(lines: Sequence[str], mark: str = ",") -> list[tuple[list[str], str]]:
    """Return the cells of lines of CSV. A cell in quotes can have line breaks."""
    results: list[tuple[list[str], str]] = []
    whole = (f"{line}\n" for line in lines)  # a cell keeps its line breaks
    reader = csv.reader(whole, delimiter=mark, skipinitialspace=True)
    begun = 0
    try:
        for row in reader:
            quote = one_line(" ".join(lines[begun : reader.line_num]))
            begun = reader.line_num
            if quote:
                results.append(([one_line(cell) for cell in row], quote))
    except csv.Error:  # such as a cell that is too long
        return []
    return results


def with_pipes(text: str) -> str:
    """Return a text in which each outermost HTML table is rows with bars."""
    parts: list[str] = []
    end = grown = 0
    for start, until in _outermost(text):
        if until - start > MAX_TABLE_LENGTH:
            continue
        most = MAX_ADDED_CELLS if grown < MAX_GROWN else 0
        table = _with_bars(text[start:until], most)
        grown += max(len(table) - (until - start), 0)
        parts += [text[end:start], table]
        end = until
    return "".join([*parts, text[end:]])


def _outermost(text: str) -> list[tuple[int, int]]:
    """Return where each HTML table that isn't in another one begins and ends.

    A tag without an end, such as one in an example, doesn't count, so it hides no table after it.
    """
    begun: list[int] = []
    results: list[tuple[int, int]] = []
    for edge in _EDGE.finditer(text):
        if edge[1] is None:  # code
            continue
        if not edge[1]:
            begun.append(edge.start())
        elif begun:
            start = begun.pop()
            while results and results[-1][0] > start:
                results.pop()
            results.append((start, edge.end()))
    return results


def _with_bars(table: str, most: int) -> str:
    reader = _HtmlTable()
    reader.feed(table)
    reader.close()
    heads, rows = reader.parts()
    pairs = spread([(row, "") for row in rows], most)
    if max((len(cells) for cells, _quote in pairs), default=0) < 2:  # only sets text
        return "\n\n".join(["", *(" ".join(cells) for cells, _quote in pairs), ""])
    lines = [f"| {' | '.join(cells)} |" for cells, _quote in pairs]
    if heads:
        named = spread([(row, "") for row in heads], most, is_head=True)
        names = column_names([cells for cells, _quote in named])
        lines = [f"| {' | '.join(names)} |", "|" + " --- |" * len(names), *lines]
    caption = [reader.caption] if reader.caption else []
    return "\n\n".join(["", *caption, "\n".join(lines), ""])


def column_names(heads: Sequence[Sequence[str]]) -> list[str]:
    """Return one name for each column from all rows of a header: "2027", "Price" is "2027 Price"."""
    width = max(map(len, heads))
    columns = [[head[n] for head in heads if n < len(head)] for n in range(width)]
    return [" ".join(dict.fromkeys(filter(None, column))) for column in columns]


@dataclass
class _Open:
    """A row that is being read."""

    cells: list[Cell] = field(default_factory=list)
    is_head: bool = True


class _HtmlTable(HTMLParser):
    """The rows of one HTML table. A table in a cell is text of that cell."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[_Open] = []
        self.caption = ""
        self._depth = 0
        self._said: list[str] | None = None  # the text of the open cell or caption
        self._attributes = ""
        self._is_caption = False
        self._in_head = False

    def parts(self) -> tuple[list[list[Cell]], list[list[Cell]]]:
        """Return the rows of the header and those below it."""
        rows = [row for row in self.rows if row.cells]
        heads = next((n for n, row in enumerate(rows) if not row.is_head), len(rows))
        heads = heads if heads < len(rows) else 0
        return [row.cells for row in rows[:heads]], [row.cells for row in rows[heads:]]

    def parse_html_declaration(self, i: int) -> int:
        """Skip `<![`. The standard library fails at a word after it that it doesn't know."""
        if not self.rawdata.startswith("<![", i):
            return super().parse_html_declaration(i)
        end = self.rawdata.find(">", i)
        return end + 1 if end >= 0 else -1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._depth += 1
        if self._depth > 1:
            self._add("; " if tag in ("tr", "li") else " ")
        elif tag == "tr":
            self._close()
            self.rows.append(_Open())
        elif tag == "thead":
            self._in_head = True
        elif tag in ("td", "th", "caption"):
            self._close()
            if tag != "caption":
                if not self.rows:
                    self.rows.append(_Open())
                self.rows[-1].is_head &= tag == "th" or self._in_head
            self._said = []
            self._attributes = " ".join(f'{name}="{value}"' for name, value in attrs)
            self._is_caption = tag == "caption"
        elif tag != "a":
            self._add("; " if tag == "li" else " ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._depth -= 1
        if self._depth > 1 or (tag == "table" and self._depth):
            self._add(" ")
        elif tag in ("td", "th", "tr", "table", "caption"):
            self._close()
        elif tag == "thead":
            self._in_head = False

    def handle_data(self, data: str) -> None:
        self._add(data)

    def _add(self, text: str) -> None:
        if self._said is not None:
            self._said.append(text)

    def _close(self) -> None:
        if self._said is None:
            return
        text = one_line("".join(self._said)).replace("|", "/").strip("; ")
        if self._is_caption:
            self.caption = text
        else:
            self.rows[-1].cells.append(cell(text, self._attributes))
        self._said = None
