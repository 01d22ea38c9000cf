"""What reStructuredText adds to the lines of a page: comments, indexes, list tables and CSV tables.

Pure functions. A directive that isn't named here keeps its content.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from beacon_site.text.cleaning import one_line
from beacon_site.text.tables import csv_rows

Row = tuple[list[str], str]  # the cells, and the lines they come from

_IS_RST = re.compile(r"^\.\. (?:_[^\n:]+:|[a-z][\w:-]*::)", re.MULTILINE)
_DIRECTIVE = re.compile(r"([ ]*)\.\. ([a-z][\w:-]*)::[ ]*(.*)$")
_COMMENT = re.compile(r"([ ]*)\.\.(?:[ ]+(?!_|\[|\||[a-z][\w:-]*::|__ )\S.*)?$")
_OPTION = re.compile(r"[ ]*:([\w-]+):[ ]*(.*)$")
_BULLET = re.compile(r"([ ]*)([*+-])(?:[ ]+(.*))?$")
# What they contain isn't text: names of other pages, code, pictures, markup for one output.
_WITHOUT_TEXT = frozenset(
    [
        "toctree", "contents", "image", "figure", "raw", "include", "literalinclude", "code",
        "code-block", "sourcecode", "index", "meta", "highlight", "graphviz", "mermaid", "autosummary",
    ]
)  # fmt: skip


def without_comments(lines: list[str]) -> list[str]:
    """Return the lines without comments, indexes and code, if they are reStructuredText."""
    if not _IS_RST.search("\n".join(lines)):
        return lines
    kept: list[str] = []
    place = 0
    while place < len(lines):
        line = lines[place]
        directive = _DIRECTIVE.match(line)
        left_out = (
            directive if directive and directive[2] in _WITHOUT_TEXT else _COMMENT.match(line)
        )
        if left_out:
            kept.append("")
            place = _end_of_block(lines, place, len(left_out[1]))
        else:
            kept.append(line)
            place += 1
    return kept


def read_table(lines: Sequence[str], place: int) -> tuple[list[str], list[Row], int]:
    """Return the header, the rows and the end of a list table or CSV table that begins at `place`.

    The end is 0 if no such table begins there.
    """
    match = _DIRECTIVE.match(lines[place])
    if match is None or match[2] not in ("list-table", "csv-table"):
        return [], [], 0
    end = _end_of_block(lines, place, len(match[1]))
    options: dict[str, str] = {}
    place += 1
    while place < end and (option := _OPTION.match(lines[place])):
        options[option[1]] = option[2]
        place += 1
    body = lines[place:end]
    rows = _listed_rows(body) if match[2] == "list-table" else csv_rows(body)
    if named := options.get("header"):
        return [cell for cells, _raw in csv_rows([named]) for cell in cells], rows, end
    return (rows[0][0], rows[1:], end) if rows else ([], [], end)


def _end_of_block(lines: Sequence[str], place: int, indent: int) -> int:
    """Return the place after the lines that are indented more than the line at `place`."""
    end = place + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > indent):
        end += 1
    return end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _listed_rows(lines: Sequence[str]) -> list[Row]:
    """Return the rows of a list of lists."""
    outer = next((len(found[1]) for line in lines if (found := _BULLET.match(line))), None)
    rows: list[tuple[list[str], list[str]]] = []
    inner = 0
    for line in filter(str.strip, lines):
        found = _BULLET.match(line)
        if found and len(found[1]) == outer:
            inner = len(line) - len(found[3] or "")
            rows.append(([], []))
            found = _BULLET.match(found[3] or "")
        elif found and len(found[1]) != inner:
            found = None
        if not rows:
            continue
        cells, raw = rows[-1]
        raw.append(line.strip())
        if found:
            cells.append(found[3] or "")
        elif cells:
            cells[-1] = f"{cells[-1]}\n{line.strip()}"
    return [(list(map(_cell, cells)), " ".join(raw)) for cells, raw in rows if cells]


def _cell(text: str) -> str:
    """Return a cell's lines as one. Lines that begin with a bar are separate statements."""
    lines = text.split("\n")
    parts = [line.removeprefix("|").strip() for line in lines if line not in ("", "|")]
    is_separate = any(line.startswith("|") for line in lines)
    return one_line(("; " if is_separate else " ").join(parts))
