"""The `> Summary:` line of a memory file: found, made by rule, put in its place.

Agents see it in the index of files.  Unless a person wrote it, each save generates it by rule,
without a model: from the first bullets of a fact file, from the entries' summaries of a month,
newest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date

from memory.file_texts.entries import readings
from memory.file_texts.outline import headings, is_heading, open_lines
from memory.file_texts.paths import is_fact
from memory.texts.text import cut, plain, shorten, width

LONGEST_RULE = 120  # characters that a summary made by rule has at most, wide ones as two
LONGEST_SUMMARY = 400  # characters that are kept of one that somebody wrote
NOTHING = "nothing yet"
UPDATED = re.compile(r"^[-*+][ \t]+Updated[:：]", re.IGNORECASE)
_SUMMARY = re.compile(r"^ {0,3}>[ \t]*Summary[:：][ \t]*(.*?)[ \t]*$", re.IGNORECASE)
_MAYBE = re.compile(r"summary[:：]", re.IGNORECASE)
_BULLET = re.compile(r"^(?:[-*+]|\d{1,3}[.)])[ \t]+\S")


def summary_place(text: str) -> int | None:
    """Return the place of the file's summary line: before the second heading, outside fences."""
    marks = headings(text)
    head = text[: marks[1].begin] if len(marks) > 1 else text
    if not _MAYBE.search(head):
        return None
    return next((place for place, line in open_lines(head) if _SUMMARY.match(line)), None)


def summary_of(text: str) -> str | None:
    """Return what the summary line says; None where there is no such line."""
    begin, end = summary_span(text)
    found = _SUMMARY.match(text[begin:end]) if end >= 0 else None
    return shorten(found[1], LONGEST_SUMMARY) if found else None


def summary_span(text: str) -> tuple[int, int]:
    """Return where the summary line begins and ends in the text; -1 where there is none."""
    place = summary_place(text)
    if place is None:
        return -1, -1
    lines = text.split("\n", place + 1)
    begin = sum(len(line) + 1 for line in lines[:place])
    return begin, begin + len(lines[place])


def line_of(summary: str) -> str:
    """Return the line that says it."""
    return f"> Summary: {shorten(summary, LONGEST_SUMMARY) or NOTHING}"


def with_summary(text: str, summary: str) -> str:
    """Return the text with this summary line: in its place, else below the title, else on top."""
    return with_line(text, line_of(summary))


def with_line(text: str, line: str) -> str:
    """Return the text with `line` as its summary line, letter by letter."""
    begin, end = summary_span(text)
    if end >= 0:
        return f"{text[:begin]}{line}{text[end:]}"
    if not text.strip():
        return f"{line}\n"
    lines = text.split("\n")
    title = next(n for n, one in enumerate(lines) if one.strip())
    if not is_heading(lines[title]):
        return f"{line}\n\n{text}"
    rest = lines[title + 1 :]
    gap = [] if rest and not rest[0].strip() else [""]
    return "\n".join([*lines[: title + 1], "", line, *gap, *rest])


def by_rule(path: str, text: str) -> str:
    """Return the summary that the text's own words give."""
    parts: Iterable[str] = () if is_fact(path) else _of_entries(text)
    return _joined(parts) or _joined(_of_bullets(text)) or _joined(_of_prose(text)) or NOTHING


def _of_entries(text: str) -> Iterable[str]:
    """Return what the entries say of themselves, the newest day first, of one day the last."""
    entries = list(enumerate(readings(text)))
    entries.sort(key=lambda pair: (pair[1].day or date.min, pair[0]), reverse=True)
    return (plain(one.said.get("summary") or one.title) for _place, one in entries)


def _of_bullets(text: str) -> Iterable[str]:
    for _place, line in open_lines(text):
        if _BULLET.match(line) and not UPDATED.match(line):
            yield plain(line)


def _of_prose(text: str) -> Iterable[str]:
    for _place, line in open_lines(text):
        if not (is_heading(line) or _SUMMARY.match(line) or UPDATED.match(line)):
            yield plain(line)


def _joined(parts: Iterable[str]) -> str:
    """Return as many of the parts as there is room for, the first one in any case."""
    said = ""
    for part in parts:
        longer = f"{said}, {part}" if said and part else said or part
        if width(longer) > LONGEST_RULE:
            return said or f"{cut(part, LONGEST_RULE - 2).rstrip()}…"
        said = longer
    return said
