"""Where a Markdown text has its headings: the one scan that summaries, sections and entries share.

Only headings with number signs count (`## Tokyo`), as in all files of seed 003, and none inside a
fenced block.  A whole parser would take longer over a large file than a save may.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_HEADING = re.compile(r"^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")


def lines_of(text: str) -> list[str]:
    """Return the lines without their breaks; a final break begins no further line."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def heading_of(line: str) -> tuple[int, str] | None:
    """Return the level and the words of a heading; None for any other line."""
    found = _HEADING.match(line) if "#" in line[:4] else None
    return (len(found[1]), (found[2] or "").strip()) if found else None


def in_the_open(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield each line outside fenced blocks with its place, counted from 0."""
    fence = ""
    for place, line in enumerate(lines):
        mark = _FENCE.match(line) if line.lstrip(" ")[:1] in ("`", "~") else None
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
        else:
            yield place, line


def headings(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield each heading: its place, level and words."""
    for place, line in in_the_open(lines):
        if found := heading_of(line):
            yield place, *found
