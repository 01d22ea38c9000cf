"""The dated entries of a month's file, and how far each keeps to seed 003's format."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from memory.files.outline import headings, lines_of
from memory.text import one_line

MOST_WORDS = 9  # of an entry's summary: "under ten words", warned and never cut (R148)
_FIELD = re.compile(
    r"^[-*+][ \t]+\**(Summary|Date|Task|Details|Findings|Decision|Context|Lesson)\**[ \t]*"
    r"[:：]\**[ \t]*(.*)$",
    re.IGNORECASE,
)
_EAST_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
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


def entries_of(text: str) -> list[Entry]:
    """Return the entries in the order of the file."""
    lines = lines_of(text)
    marks = [one for one in headings(lines) if one[1] <= _LEVEL]
    ends = [*(place for place, _level, _title in marks[1:]), len(lines)][: len(marks)]
    return [
        _entry(title, lines[place + 1 : end], place + 1, end)
        for (place, level, title), end in zip(marks, ends, strict=True)
        if level == _LEVEL
    ]


def word_count(text: str) -> int:
    """Count words; two East Asian characters count as one, since no spaces part those."""
    wide = len(_EAST_ASIAN.findall(text))
    return len(_EAST_ASIAN.sub(" ", text).split()) + (wide + 1) // 2


def _entry(title: str, lines: Sequence[str], first: int, last: int) -> Entry:
    said = _fields(lines)
    task = said.get("task", "") or said.get("details", "")
    names = ("summary", "date", "findings", "decision", "lesson", "context")
    kept = {name: said.get(name, "") for name in names}
    problems = tuple(_problems(title, kept | {"task": task}))
    return Entry(
        title=title, task=task, first_line=first, last_line=last, problems=problems, **kept
    )


def _fields(lines: Sequence[str]) -> dict[str, str]:
    """Return the fields by name, each with the indented lines that go on behind it."""
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
    return {name: one_line(" ".join(parts)) for name, parts in said.items()}


def _problems(title: str, said: dict[str, str]) -> list[str]:
    label = title or _("an entry without a title")
    problems = []
    if not title:
        problems.append(_("An entry has no title behind its “##”."))
    if not said["summary"]:
        problems.append(_("“%(label)s” has no Summary line.") % {"label": label})
    elif (count := word_count(said["summary"])) > MOST_WORDS:
        problems.append(
            _("The Summary of “%(label)s” has %(have)d words; keep it under ten.")
            % {"label": label, "have": count}
        )
    if not said["date"]:
        problems.append(_("“%(label)s” has no Date.") % {"label": label})
    elif _day(said["date"]) is None:
        problems.append(
            _("The Date of “%(label)s” is no day such as 2026-02-26.") % {"label": label}
        )
    if not said["task"]:
        problems.append(_("“%(label)s” does not say its Task.") % {"label": label})
    if not any(said[name] for name in ("findings", "decision", "context", "lesson")):
        problems.append(
            _("“%(label)s” has neither Findings, Decision, Context nor Lesson.") % {"label": label}
        )
    return problems


def _day(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text) if len(text) == len("2026-02-26") else None
    except ValueError:
        return None
