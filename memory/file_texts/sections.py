"""A memory file in sections, each under one heading: what recall finds and what can be locked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.utils.text import slugify

from memory.file_texts.outline import headings, line_count, lines_of
from memory.file_texts.summaries import UPDATED, summary_place

Heading = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SectionText:
    """One section: `heading` is the path of headings down to its own, the file's title first.

    `text` and `last_line` end before the next heading of any level; `until` is the last line
    with all sections inside it.  Lines count from 1.  Text before the first heading is a section
    without one.
    """

    heading: Heading
    title: str
    level: int
    first_line: int
    last_line: int
    until: int
    text: str


def sections_of(text: str) -> list[SectionText]:
    """Return the sections in order; joined they are all lines of the text."""
    marks = headings(text)
    found: list[SectionText] = []
    top = text[: marks[0].begin] if marks else text
    if top.strip():
        end = marks[0].place if marks else line_count(text)
        found.append(SectionText((), "", 0, 1, end, end, top.removesuffix("\n")))
    untils = _untils([(one.place, one.level) for one in marks], line_count(text))
    above: list[tuple[int, str]] = []
    for number, mark in enumerate(marks):
        above = [*(one for one in above if one[0] < mark.level), (mark.level, mark.words)]
        after = marks[number + 1] if number + 1 < len(marks) else None
        body = text[mark.begin : after.begin if after else len(text)].removesuffix("\n")
        last = after.place if after else line_count(text)
        path = tuple(words for _level, words in above)
        found.append(
            SectionText(path, mark.words, mark.level, mark.place + 1, last, untils[number], body)
        )
    return found


def _untils(marks: Sequence[tuple[int, int]], count: int) -> list[int]:
    """Return for each heading the place at which a heading of its level, or a higher, follows."""
    ends = [count] * len(marks)
    open_: list[int] = []
    for number, (place, level) in enumerate(marks):
        while open_ and marks[open_[-1]][1] >= level:
            ends[open_.pop()] = place
        open_.append(number)
    return ends


def locked_text(text: str, heading: Sequence[str]) -> str | None:
    """Return what a lock on the section keeps; None where there is no such section.

    Those are its lines with all sections inside it, without the file's summary line, which each
    save makes anew, and without blank lines at its end.  Of several sections with one heading path
    the lock keeps all.
    """
    lines = lines_of(text)
    summary = summary_place(text)
    kept = [
        "\n".join(
            line
            for place, line in enumerate(lines[one.first_line - 1 : one.until], one.first_line - 1)
            if place != summary
        ).rstrip()
        for one in sections_of(text)
        if one.heading == tuple(heading)
    ]
    return "\0".join(kept) if kept else None


def telling(text: str, *, without: str = "") -> list[SectionText]:
    """Return the sections that say something beyond headings, summary line and date.

    `without` is a summary line made by rule: it repeats what stands below and is no words of its
    own.
    """
    found = []
    for one in sections_of(text):
        lines = one.text.split("\n")
        if without and without in lines:
            lines = [line for line in lines if line != without]
            one = replace(one, text="\n".join(lines).strip("\n"))
        said = lines[1:] if one.heading else lines
        if any(line.strip() and not UPDATED.match(line) for line in said):
            found.append(one)
    return found


def anchor_of(heading: Sequence[str]) -> str:
    """Return the id under which a section stands on its file's page."""
    if not heading:
        return "section-top"
    digest = hashlib.sha256("\0".join(heading).encode()).hexdigest()[:6]
    return "-".join(filter(None, ["section", slugify(heading[-1])[:40].strip("-"), digest]))
