"""Removing line breaks inside paragraphs, so that sentences can be found and quoted."""

from __future__ import annotations

import re
from itertools import pairwise

PARAGRAPHS = re.compile(r"\n[ \t]*\n\s*")
# A line with such a beginning isn't joined: list items, headings, quotes, tables, code.
OWN_LINE = re.compile(
    r" {0,3}(?:[-*+•·]\s|\d{1,3}[.)]\s|\#{1,6}\s|>|\||=+$|-{3,}|~~~|\^{3,}|```| {1,3} |\t)"
)
ITEM = re.compile(r" {0,8}(?:[-*+•·]|\d{1,3}[.)])\s")
INDENTED = re.compile(r" {2}|\t")
# The text after a heading, or after the line under one, isn't part of it.
HEADING = re.compile(r"\#{1,6}\s|(?:={3,}|-{3,}|~{3,}|\^{3,})$")
# Scripts without spaces between words.  Korean is wide too, but has spaces.
WIDE = re.compile(
    "[\u2e80-\u30ff\u3100-\u312f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uff9f\U00020000-\U0003ffff]"
)
BROKEN_WIDE = re.compile(rf"(?<={WIDE.pattern})[ \t\r]*\n[ \t]*(?={WIDE.pattern})")
FENCE = re.compile(r"(?:```|~~~)")


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
        fence = FENCE.match(line.strip()) is not None
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


def _paragraph(lines: list[str]) -> str:
    """Join one paragraph's lines, except those that must start a new line."""
    groups: list[list[str]] = []
    for line in lines:
        after_heading = bool(groups) and HEADING.match(groups[-1][-1]) is not None
        # An item's further lines are indented, but aren't code.
        goes_on = bool(groups) and _continues(groups[-1][0], line)
        if not groups or after_heading or (OWN_LINE.match(line) and not goes_on):
            groups.append([line])
        else:
            groups[-1].append(line.strip())
    return "\n".join(_joined(group) for group in groups)


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
