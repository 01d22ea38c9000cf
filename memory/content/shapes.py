"""What a text is, by its shape alone, and what its short form shows: search results, JSON, tables."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.models import ContentItem
from memory.texts.text import one_line, shorten

READ_BY_MODEL = 5_000  # characters that a model is shown to make a text short (R130)
LOOKED_AT = 65_536  # characters in which the columns of a table are found
MOST_HITS, LONGEST_HIT = 8, 140
MOST_COLUMNS, LONGEST_COLUMN = 30, 40
LONGEST_SHAPE = 600
ROWS_SHOWN, LONGEST_ROW = 1, 160
_LEAST_ROWS = 3  # lines of one shape that make a table
_DEEPEST = 3
_ENTRY = re.compile(r"^(?:\[?p?\d{1,4}[\].:)]+|[-*•])\s+\S")
_RULE = re.compile(r"^\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*$")


@dataclass(frozen=True, slots=True)
class Short:
    """A short form before it is framed: what the item is, what is shown, of how much."""

    about: str
    text: str
    shown: str


# --- search results -------------------------------------------------------------------------------


def is_search(item: ContentItem) -> bool:
    """Whether the item is what a search returned, and its hits can be told apart."""
    return "search" in item.action.casefold() and bool(hits_of(item.content))


def search_results(item: ContentItem) -> Short:
    """Return the first hits by their titles, and how many there are."""
    hits = hits_of(item.content)
    told = {"shown": f"{min(len(hits), MOST_HITS):,}", "of": f"{len(hits):,}"}
    return Short(
        _("search results"),
        "\n".join(shorten(hit, LONGEST_HIT) for hit in hits[:MOST_HITS]),
        _("%(shown)s of %(of)s hits are shown, by their titles; %(size)s characters in all.")
        % (told | {"size": f"{item.size:,}"}),
    )


def hits_of(text: str) -> list[str]:
    """Return the hits of a list, a line each: numbered or marked lines, or JSON with titles."""
    rows = _loaded(text)
    if isinstance(rows, dict):
        rows = next((value for value in rows.values() if isinstance(value, list)), None)
    if isinstance(rows, list):
        told = [
            " — ".join(str(row[key]) for key in ("title", "url") if row.get(key))
            for row in rows
            if isinstance(row, dict)
        ]
        return [one_line(hit) for hit in told if hit]
    return [one_line(line) for line in text.split("\n") if _ENTRY.match(line)]


# --- JSON -----------------------------------------------------------------------------------------


def is_json(item: ContentItem) -> bool:
    """Whether the content looks like a JSON object or list."""
    return _looks_like_json(item.content)


def json_shape(item: ContentItem) -> Short:
    """Return the keys, and how long lists and texts are, without the values."""
    value = _loaded(item.content)
    if value is None:
        raise ValueError("the content is no JSON")
    shape = _shape(value, 0)
    told = {"size": f"{item.size:,}"}
    return Short(
        _("JSON"),
        shorten(shape, LONGEST_SHAPE),
        _("Its shape is shown, and 0 of %(size)s characters of its values.") % told,
    )


def _looks_like_json(text: str) -> bool:
    begins, ends = text[:64].lstrip()[:1], text[-64:].rstrip()[-1:]
    return f"{begins}{ends}" in ("{}", "[]")


def _loaded(text: str) -> Any:
    if not _looks_like_json(text):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _shape(value: Any, depth: int) -> str:
    if isinstance(value, dict):
        if depth >= _DEEPEST:
            return ngettext("%(n)d key", "%(n)d keys", len(value)) % {"n": len(value)}
        inside = ", ".join(
            f"{shorten(key, LONGEST_COLUMN)}: {_shape(one, depth + 1)}"
            for key, one in islice(value.items(), MOST_COLUMNS)
        )
        more = ", …" if len(value) > MOST_COLUMNS else ""
        return "{" + inside + more + "}"
    if isinstance(value, list):
        number = ngettext("list of %(n)s", "list of %(n)s", len(value)) % {"n": f"{len(value):,}"}
        return f"{number} × {_shape(value[0], depth + 1)}" if value else number
    if isinstance(value, str):
        return _("text of %(n)s") % {"n": f"{len(value):,}"}
    return {bool: _("yes or no"), type(None): _("nothing")}.get(type(value), _("number"))


# --- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Table:
    columns: Sequence[str]
    first: Sequence[str]  # rows as they stand
    rows: int


def is_table(item: ContentItem) -> bool:
    """Whether the content is a table: Markdown, or comma, tab or semicolon separated."""
    return _table(item.content) is not None


def table_shape(item: ContentItem) -> Short:
    """Return the names of the columns, the first row, and how many rows there are."""
    table = _table(item.content)
    if table is None:
        raise ValueError("the content is no table")
    names = [shorten(name, LONGEST_COLUMN) or "-" for name in table.columns]
    listed = ", ".join(names[:MOST_COLUMNS]) + (", …" if len(names) > MOST_COLUMNS else "")
    first = [shorten(row, LONGEST_ROW) for row in table.first]
    told = {"shown": len(first), "of": f"{table.rows:,}", "size": f"{item.size:,}"}
    return Short(
        _("table"),
        "\n".join([_("Columns: %(names)s") % {"names": listed}, *first]),
        _("%(shown)d of %(of)s rows shown; %(size)s characters in all.") % told,
    )


def _table(text: str) -> _Table | None:
    lines = [line for line in text[:LOOKED_AT].split("\n") if line.strip()]
    if len(lines) < _LEAST_ROWS:
        return None
    if "|" in lines[0] and _RULE.match(lines[1]):
        rows = sum(line.lstrip().startswith("|") or "|" in line for line in text.split("\n")) - 2
        return _Table(_cells(lines[0]), lines[2 : 2 + ROWS_SHOWN], rows)
    for mark in ("\t", ",", ";"):
        parsed = _parsed(lines, mark)
        if parsed is not None:
            rows = sum(1 for line in text.split("\n") if line.strip()) - 1
            return _Table(parsed, lines[1 : 1 + ROWS_SHOWN], rows)
    return None


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _parsed(lines: Iterable[str], mark: str) -> list[str] | None:
    """Return the header if the first lines have the same number of cells, and of short names."""
    some = list(islice(lines, 12))
    try:
        rows = list(csv.reader(some, delimiter=mark))
    except csv.Error:
        return None
    wide = {len(row) for row in rows}
    if len(rows) < _LEAST_ROWS or len(wide) != 1 or wide <= {0, 1}:
        return None
    header = [cell.strip() for cell in rows[0]]
    is_header = all(0 < len(cell) <= LONGEST_COLUMN for cell in header)
    return header if is_header and not header[-1].endswith((".", "!", "?")) else None
