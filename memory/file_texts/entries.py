"""The dated entries of a month's file, and how far each keeps to seed 003's format."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from django.utils.translation import get_language
from django.utils.translation import gettext as _

from memory.file_texts.outline import first_words, headings, line_count

MOST_WORDS = 9  # of an entry's summary: "under ten words", warned and never cut (R148)
_FIELD = re.compile(
    r"^[-*+][ \t]+\**(Summary|Date|Task|Details|Findings|Decision|Context|Lesson)\**[ \t]*"
    r"[:：]\**[ \t]*(.*)$",
    re.IGNORECASE,
)
_EAST_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_KEPT = ("summary", "date", "findings", "decision", "lesson", "context")
_LEVEL = 2  # entries stand under `##`


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: its fields as they stand, empty where there is none, and what is amiss with it.

    Lines count from 1; `last_line` is the last before the next entry.  `task` takes Details too.
    """

    title: str
    summary: str
    date: str
    task: str
    findings: str
    decision: str
    lesson: str
    context: str
    first_line: int
    last_line: int
    problems: tuple[str, ...]

    @property
    def day(self) -> datetime.date | None:
        """Return the date if it is one."""
        return _day(self.date)


class Reading(NamedTuple):
    """What an entry says, without its place: the fields by name, its day, what is amiss."""

    title: str
    said: dict[str, str]
    day: datetime.date | None
    problems: tuple[str, ...]


def entries_of(text: str) -> list[Entry]:
    """Return the entries in the order of the file."""
    return [
        Entry(
            title=one.title,
            task=one.said.get("task", "") or one.said.get("details", ""),
            first_line=first,
            last_line=last,
            problems=one.problems,
            **{name: one.said.get(name, "") for name in _KEPT},
        )
        for one, (_body, first, last) in zip(readings(text), _blocks(text), strict=True)
    ]


def readings(text: str) -> list[Reading]:
    """Return what each entry says; most say what they said, so each is read once."""
    language = get_language()
    return [_read(body, language) for body, _first, _last in _blocks(text)]


def _blocks(text: str) -> list[tuple[str, int, int]]:
    """Return the text of each entry, its heading included, with its first and last line."""
    marks = [mark for mark in headings(text) if mark.level <= _LEVEL]
    if not marks:
        return []
    ends = [(mark.begin, mark.place) for mark in marks[1:]] + [(len(text), line_count(text))]
    return [
        (text[mark.begin : end].rstrip(), mark.place + 1, last)
        for mark, (end, last) in zip(marks, ends, strict=True)
        if mark.level == _LEVEL
    ]


def word_count(text: str) -> int:
    """Count words; two East Asian characters count as one, since no spaces part those."""
    wide = len(_EAST_ASIAN.findall(text))
    return len(_EAST_ASIAN.sub(" ", text).split()) + (wide + 1) // 2


@lru_cache(maxsize=4_096)
def _read(body: str, language: str | None) -> Reading:
    """Read one entry; its problems are told in `language`, so it is kept by that."""
    title = first_words(body)
    said = _fields(body.split("\n")[1:])
    day = _day(said.get("date", ""))
    return Reading(title, said, day, tuple(_problems(title, said, day)))


def _fields(lines: Sequence[str]) -> dict[str, str]:
    """Return the fields by name, each with the indented lines that continue it."""
    said: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        found = _FIELD.match(line)
        if found:
            current = said.setdefault(found[1].lower(), [])
            current.append(found[2])
        elif current is not None and line[:1] in (" ", "\t"):
            current.append(line)
        else:
            current = None
    return {name: " ".join(" ".join(parts).split()) for name, parts in said.items()}


def _problems(title: str, said: dict[str, str], day: datetime.date | None) -> list[str]:
    label = title or _("an entry without a title")
    problems = []
    if not title:
        problems.append(_("An entry has no title behind its “##”."))
    summary = said.get("summary", "")
    if not summary:
        problems.append(_("“%(label)s” has no Summary line.") % {"label": label})
    elif (count := word_count(summary)) > MOST_WORDS:
        problems.append(
            _("The Summary of “%(label)s” has %(have)d words; keep it under ten.")
            % {"label": label, "have": count}
        )
    if not said.get("date"):
        problems.append(_("“%(label)s” has no Date.") % {"label": label})
    elif day is None:
        problems.append(
            _("The Date of “%(label)s” is no day such as 2026-02-26.") % {"label": label}
        )
    if not (said.get("task") or said.get("details")):
        problems.append(_("“%(label)s” does not say its Task.") % {"label": label})
    if not any(said.get(name) for name in ("findings", "decision", "context", "lesson")):
        problems.append(
            _("“%(label)s” has neither Findings, Decision, Context nor Lesson.") % {"label": label}
        )
    return problems


def _day(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text) if len(text) == len("2026-02-26") else None
    except ValueError:
        return None
