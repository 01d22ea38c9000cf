"""Where a Markdown text has its headings: the one scan that summaries, sections and entries share.

Only headings with number signs count (`## Tokyo`), as in all files of seed 003, and none inside a
fenced block.  A whole parser would take longer over a large file than a save may, so one pattern
finds headings and fences, and no other line is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_MARK = re.compile(
    r"^ {0,3}(?:(?P<signs>#{1,6})(?:[ \t]+(?P<words>[^\n]*?))??(?:[ \t]+#+)?[ \t]*$"
    r"|(?P<fence>`{3,}|~{3,})(?P<behind>[^\n]*)$)",
    re.MULTILINE,
)


class Mark(NamedTuple):
    """A heading: where its line begins and ends in the text, its place among the lines, from 0."""

    begin: int
    end: int
    place: int
    level: int
    words: str


def lines_of(text: str) -> list[str]:
    """Return the lines without their breaks; a final break begins no further line."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def line_count(text: str) -> int:
    """Return how many lines `lines_of` gives."""
    return text.count("\n") + (0 if not text or text.endswith("\n") else 1)


@lru_cache(maxsize=8)
def headings(text: str) -> tuple[Mark, ...]:
    """Return each heading outside fenced blocks; one save asks for those of a text several times."""
    return tuple(_headings(text))


def _headings(text: str) -> Iterator[Mark]:
    fence, at, place = "", 0, 0
    for found in _MARK.finditer(text):
        if signs := found["signs"]:
            if not fence:
                place += text.count("\n", at, found.start())
                at = found.start()
                words = (found["words"] or "").strip()
                yield Mark(at, found.end(), place, len(signs), words)
            continue
        fence = _fence_behind(fence, found["fence"], found["behind"])


def open_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line outside fenced blocks with its place, counted from 0."""
    fence = ""
    for place, line in enumerate(text.split("\n")):
        found = _MARK.match(line) if line.lstrip(" ")[:1] in ("`", "~") else None
        was, fence = (
            fence,
            _fence_behind(fence, found["fence"], found["behind"]) if found else fence,
        )
        if not was and not fence:
            yield place, line


def is_heading(line: str) -> bool:
    """Whether a line is a heading."""
    found = _MARK.match(line) if "#" in line[:4] else None
    return found is not None and found["signs"] is not None


def first_words(text: str) -> str:
    """Return the words of the heading with which a text begins; empty where it begins with none."""
    found = _MARK.match(text)
    return (found["words"] or "").strip() if found else ""


def _fence_behind(fence: str, mark: str, behind: str) -> str:
    """Return the fence that is open after a line with three or more fence signs."""
    if fence:
        return "" if mark.startswith(fence) and not behind.strip() else fence
    return "" if mark[0] == "`" and "`" in behind else mark
