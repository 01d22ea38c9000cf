"""Recognizing files in which each line break counts: data files and LaTeX.

Their lines must not be joined into paragraphs. Looks only at the text, because servers often send
such files as plain text. The cost is linear, because any page can be asked about. Pure functions.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable

MAX_NAME_LENGTH = 60  # characters of a column's name
MIN_LINES = 3  # of a CSV file, unless no space follows the separators
LOOKED_AT = 200  # lines of a possible CSV file
BEGINNING = 40_000  # characters of a possible YAML or TOML file

_LATEX = re.compile(
    r"^[ \t]*\\(?:(?:part|chapter|(?:sub){0,2}section|(?:sub)?paragraph)\*?[\[{]"
    r"|documentclass\b|usepackage\b|item\b|newcommand\b"
    r"|(?:begin|end)\{(?:document|itemize|enumerate|description|tabular))",
    re.MULTILINE,
)
_LATEX_COMMAND = re.compile(r"^[ \t]*\\[a-zA-Z]{2,}[\[{]", re.MULTILINE)
_LINE = re.compile(r"^[ \t]*\S", re.MULTILINE)
_MARKDOWN = re.compile(r"^(?:#{1,6} |```|~~~)", re.MULTILINE)
_MARKDOWN_BLOCK = re.compile(r"^(?:#{1,6}|[-*>]) ", re.MULTILINE)
_YAML_LINE = re.compile(r"\s*(?:#|---|(?:- +)?[\w\"'][\w .\"'\-/]{0,60}:(?:\s|$)|- \S)")
_YAML_KEY = re.compile(r"\s*(?:- +)?[\w\"'][\w.\"'\-/]{0,60}:(?:\s|$)")
_TOP_KEY = re.compile(r"[\w\"'][\w.\"'-]{0,60}:(?:\s|$)")
_BLOCK_SCALAR = re.compile(r"(?::|-)[ \t]+[|>][+\-\d]{0,2}[ \t]*$")
_TOML_TABLE = re.compile(r"\[\[?[\w.\"' -]{1,200}\]\]?[ \t]*(?:#.*)?$")
_TOML_VALUE = re.compile(r"[ \t]*\{?[ \t]*[\w\"'][\w.\"'-]{0,100}[ \t]*=")
_TOML_OTHER = re.compile(r"[ \t]*[\[\]{}#\"'\d+-]")  # comments, and lines of a list
_TOML_TEXT = re.compile(r"\"\"\".*?\"\"\"|'''.*?'''", re.DOTALL)


def has_own_lines(text: str) -> bool:
    """Return True if a text is LaTeX, CSV, TOML, YAML or iCalendar."""
    return (
        is_calendar(text)
        or is_latex(text)
        or is_toml(text)
        or is_yaml(text.expandtabs(4))
        or is_csv(text)
    )


def is_calendar(text: str) -> bool:
    return text[:1_000].lstrip("\ufeff \n").startswith("BEGIN:VCALENDAR")


def is_latex(text: str) -> bool:
    """Whether most lines with structure are LaTeX's. A Markdown page can have some as an example."""
    found, lines = len(_LATEX.findall(text)), len(_LINE.findall(text))
    is_structured = found > 2 and found > 2 * len(_MARKDOWN.findall(text))
    return is_structured or (lines > 2 and 2 * len(_LATEX_COMMAND.findall(text)) > lines)


def is_toml(text: str) -> bool:
    """Return True if nearly all lines look like TOML, with values below the name of a table.

    It isn't parsed, because that can take much memory.
    """
    text = _TOML_TEXT.sub('""', text[:BEGINNING])
    lines = [line for line in text.split("\n") if line.strip()]
    tables = sum(bool(_TOML_TABLE.match(line)) for line in lines)
    named = sum(bool(_TOML_VALUE.match(line)) for line in lines)
    others = sum(bool(_TOML_OTHER.match(line)) and not _TOML_VALUE.match(line) for line in lines)
    return tables > 0 and named >= 0.2 * len(lines) and named + others >= 0.9 * len(lines)


def is_yaml(text: str) -> bool:
    """Return True if nearly all lines are YAML keys, items or comments, some of them nested.

    A Markdown page that consists of nested lists has items and headings, but few keys. A file of a few
    lines needs only one nested line if it has nothing but YAML.
    """
    lines = _without_long_values(text[:BEGINNING].split("\n"))
    keys = sum(bool(_YAML_LINE.match(line)) for line in lines)
    nested = sum(line.startswith("  ") and bool(_YAML_LINE.match(line)) for line in lines)
    named = sum(bool(_YAML_KEY.match(line)) for line in lines)
    is_short_file = len(lines) > 3 and keys == len(lines) and nested and 2 * named >= len(lines)
    return bool(is_short_file) or (
        len(lines) > 5
        and keys >= 0.9 * len(lines)
        and nested >= 0.2 * len(lines)
        and named >= 0.2 * len(lines)
    )


def _without_long_values(lines: Iterable[str]) -> list[str]:
    """Return the lines of YAML that aren't blank or continue a value.

    Indented lines continue the value above if it is a block such as "text: >", or if the file
    begins with a key.
    """
    kept: list[str] = []
    begun: int | None = None  # indentation of the line that began a text
    begins_with_key: bool | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if not line.strip() or (begun is not None and indent > begun):
            continue
        is_continued = begins_with_key and not _YAML_LINE.match(line)
        if is_continued and indent > len(kept[-1]) - len(kept[-1].lstrip()):
            continue
        begun = indent if _BLOCK_SCALAR.search(line) else None
        if begins_with_key is None and not line.startswith(("#", "---")):
            begins_with_key = bool(_TOP_KEY.match(line))
        kept.append(line)
    return kept


def is_csv(text: str) -> bool:
    """Return True if the first lines name columns and have nearly always as many cells."""
    mark = csv_separator(text)
    if not mark:
        return False
    lines = text.lstrip("\ufeff\n").split("\n", LOOKED_AT)[:LOOKED_AT]
    try:
        rows = list(csv.reader(lines, delimiter=mark, skipinitialspace=True))
    except csv.Error:  # such as a cell that is too long
        return False
    sizes = list(filter(None, map(len, rows)))
    fitting = sizes.count(len(rows[0]))
    is_enough = len(sizes) >= MIN_LINES or has_one_row(text, mark)
    return is_enough and fitting >= 0.9 * len(sizes) and all(rows[0])


def has_one_row(text: str, mark: str) -> bool:
    """Return True if two lines can be the head and only row of a CSV file, not prose."""
    lines = text.strip("\ufeff\n").split("\n", 2)
    return len(lines) == 2 and all(mark in line and f"{mark} " not in line for line in lines)


def csv_separator(text: str) -> str:
    """Return what separates the cells of a CSV file, or "" if its first line can't name columns."""
    first = text.lstrip("\ufeff\n").partition("\n")[0]
    mark = max(",;\t", key=first.count)
    names = first.split(mark)
    are_names = all(len(name) <= MAX_NAME_LENGTH and name[-1:] != "." for name in names)
    return mark if len(names) > 1 and are_names and not _MARKDOWN_BLOCK.search(text) else ""
