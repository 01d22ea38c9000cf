"""Removing line breaks inside paragraphs, so that sentences can be found and quoted."""

from __future__ import annotations

import re
from itertools import pairwise

from beacon_site.text.line_formats import has_own_lines

PARAGRAPHS = re.compile(r"\n[ \t]*\n\s*")
# A line with such a beginning isn't joined: list items, headings, quotes, tables, code, and the
# headings, attributes, titles and borders of AsciiDoc, reStructuredText, MediaWiki and Org.
OWN_LINE = re.compile(
    r" {0,3}(?:[-*+•·]\s|\d{1,3}[.)]\s|\#{1,6}\s|>|\||=+$|-{3,}|~~~|\^{3,}|```| {1,3} |\t"
    r"|={1,6}\s+[^\W\d]|\*{2,5}\s|\.{1,2}\s|\[\[[^\]]+\]\]$|\[[^\]]*[=,.%][^\]]*\]$|:\w[\w \-]{0,40}:(?:\s|$)"
    r"|[a-z]+\d?::\S*\[|\{\||[*+.]{4,}$|(?:[*_] ?){3,}$|\+$|\#\+\w|<h[1-6]\b)"
)
UNDERLINE = re.compile(r"([~#'\"*+.:`^_<>])\1{3,}")
ITEM = re.compile(r" {0,8}(?:[-*+•·]|[*.]{2,5}|\d{1,3}[.)])\s")
INDENTED = re.compile(r" {2}|\t")
# The text after a heading, the line under one, or a picture of AsciiDoc isn't part of it.
HEADING = re.compile(
    r"[\#=]{1,6}\s|(?:={3,}|-{3,}|~{3,}|\^{3,})$|<h[1-6]\b.*</h[1-6]>$|[a-z]{2,20}::\S*\[[^\]]*\]$"
)
# Scripts without spaces between words.  Korean is wide too, but has spaces.
WIDE = re.compile(
    "[\u2e80-\u30ff\u3100-\u312f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff9f\U00020000-\U0003ffff]"
)
BROKEN_WIDE = re.compile(rf"(?<={WIDE.pattern})[ \t\r]*\n[ \t]*(?={WIDE.pattern})")
FENCE = re.compile(r"(?:```|~~~)")
# The first line of a table of reStructuredText, whose cells are found by their columns.
TABLE_BORDER = re.compile(r"\s*(?:\+[-=]{2,}(?:\+[-=]{2,})*\+|={2,}(?:\s+={2,})+)$")
# Front matter has keys, lists, comments and their continued lines, but no prose.
FRONT_LINE = re.compile(r"[\w\"'.-]+[ \t]*:(?:\s|$)|[ \t]|-\s|[#\]}]")
MAX_FRONT_LINES = 2_000  # lines
# The line below the head of a Markdown table, whose rows can lack the outer bars.
TABLE_RULE = re.compile(r"(?=[^|]*\|)(?=[^-]*-)[\s|:-]+$")
FIELD = re.compile(r"[A-Z][\w-]{1,30}(?: [A-Z][\w-]{1,30})?:(?:\s|$)")  # "Status: Final"


def join_lines(text: str) -> str:
    """Return running text with one line per paragraph and a blank line between paragraphs.

    Lines are joined without a space if both sides are Chinese or Japanese.
    """
    blocks = (
        _joined([line.strip() for line in block.split("\n")]) for block in PARAGRAPHS.split(text)
    )
    return "\n\n".join(block for block in blocks if block)


def join_wide_lines(text: str) -> str:
    """Return text or markup without the line breaks between two East Asian characters.

    An extractor that turns every line break into a space would put one inside a word.
    """
    return BROKEN_WIDE.sub("", text)


def join_hard_wraps(text: str) -> str:
    """Join hard-wrapped lines of plain text or Markdown; list items, headings and so on keep their lines."""
    blocks: list[str] = []
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        is_underline = not fenced and bool(lines) and _underlines(line.strip(), lines[-1].strip())
        fence = FENCE.match(line.strip()) is not None and not is_underline
        if fenced or fence:
            if fence and not fenced:
                blocks.append(_paragraph(lines))
                lines = [line]
            else:
                lines.append(line)
            fenced = fenced != fence
            if not fenced:
                blocks.append("\n".join(lines))
                lines = []
        elif line.strip():
            lines.append(line.rstrip())
        else:
            blocks.append(_paragraph(lines))
            lines = []
    blocks.append("\n".join(lines) if fenced else _paragraph(lines))
    return "\n\n".join(block for block in blocks if block.strip())


def join_file(text: str) -> str:
    """Like `join_hard_wraps`, for a text file. Data, front matter and LaTeX keep their lines."""
    front, body = split_front_matter(text)
    if not front and has_own_lines(text):
        return text
    return front + join_hard_wraps(body)


def split_front_matter(text: str) -> tuple[str, str]:
    """Return the front matter of a text, with its marks and the blank lines below it, and the rest."""
    if not text.startswith("---"):
        return "", text
    lines = text.split("\n", MAX_FRONT_LINES)
    for number, line in enumerate(lines):
        is_mark = line.rstrip() == "---"
        if number > 1 and is_mark:
            length = sum(map(len, lines[: number + 1])) + number
            rest = text[length:].lstrip()
            return text[: len(text) - len(rest)], rest
        if is_mark if number else not is_mark:
            break
        if number and line and not FRONT_LINE.match(line):
            break
    return "", text


def _paragraph(lines: list[str]) -> str:
    """Join one paragraph's lines, except those that must start a new line."""
    is_wiki_table = any(line.startswith(("{|", "|-")) for line in lines)
    if is_wiki_table or (lines and (TABLE_BORDER.match(lines[0]) or _are_fields(lines))):
        return "\n".join(lines)
    table = _table_in(lines)
    groups: list[list[str]] = []
    for number, line in enumerate(lines):
        is_border = UNDERLINE.fullmatch(line.strip()) is not None
        after_heading = bool(groups) and (
            HEADING.match(groups[-1][-1]) or UNDERLINE.fullmatch(groups[-1][-1].strip())
        )
        # An item's further lines are indented, but aren't code.
        goes_on = bool(groups) and _continues(groups[-1][0], line)
        is_own = number in table or number == table.stop or OWN_LINE.match(line)
        if not groups or after_heading or is_border or (is_own and not goes_on):
            groups.append([line])
        else:
            groups[-1].append(line.strip())
    return "\n".join(_joined(group) for group in groups)


def _table_in(lines: list[str]) -> range:
    """Return the numbers of the lines of a Markdown table. They are empty if there is none."""
    rules = (n for n, line in enumerate(lines) if n and TABLE_RULE.match(line))
    start = next((n - 1 for n in rules if "|" in lines[n - 1]), len(lines))
    end = next((n for n in range(start, len(lines)) if "|" not in lines[n]), len(lines))
    return range(start, end)


def _underlines(line: str, above: str) -> bool:
    """Return True if a line of one mark makes the line above it a heading of reStructuredText.

    Three tildes begin code.
    """
    return UNDERLINE.fullmatch(line) is not None and 10 * len(line) >= 7 * len(above)


def _are_fields(lines: list[str]) -> bool:
    """Whether each line is a field, as in the head of an email or a standard, or continues one."""
    named = [FIELD.match(line) is not None for line in lines]
    return sum(named) > 1 and all(
        is_named or (place and INDENTED.match(line))
        for place, (is_named, line) in enumerate(zip(named, lines, strict=True))
    )


def _continues(item: str, line: str) -> bool:
    begins = ITEM.match(item) is not None and ITEM.match(line) is None
    return begins and INDENTED.match(line) is not None


def _joined(lines: list[str]) -> str:
    lines = [re.sub(r"(?<=\S)[^\S\n]+", " ", line).rstrip() for line in lines]
    lines = [line for line in lines if line]
    text = "".join(
        before + ("" if _wide(before[-1]) and _wide(after[0]) else " ")
        for before, after in pairwise(lines)
    )
    return text + lines[-1] if lines else ""


def _wide(char: str) -> bool:
    return WIDE.match(char) is not None
