"""Where a Markdown text has its headings: the one scan that summaries, sections and entries share.

Only headings with number signs count (`## Tokyo`), as in all files of seed 003, and none inside a
fenced block.  A whole parser would take longer over a large file than a save may, so one pattern
finds headings and fences, and no other line is looked at.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from django.utils.text import slugify
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import clean, cut, plain, shorten, width
from memory.core.errors import InvalidValue

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


# --- The dated entries of a month's file, and how far each keeps to seed 003's format ---

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
        problems.append(_("An entry has no title after “##”."))
    summary = said.get("summary", "")
    if not summary:
        problems.append(_("“%(label)s” has no Summary line.") % {"label": label})
    elif (count := word_count(summary)) > MOST_WORDS:
        problems.append(
            _("The Summary of “%(label)s” has %(have)d words. Keep it under 10.")
            % {"label": label, "have": count}
        )
    if not said.get("date"):
        problems.append(_("“%(label)s” has no Date.") % {"label": label})
    elif day is None:
        problems.append(
            _("The Date of “%(label)s” must be a day such as 2026-02-26.") % {"label": label}
        )
    if not (said.get("task") or said.get("details")):
        problems.append(_("“%(label)s” has no Task.") % {"label": label})
    if not any(said.get(name) for name in ("findings", "decision", "context", "lesson")):
        problems.append(
            _("“%(label)s” needs Findings, Decision, Context or Lesson.") % {"label": label}
        )
    return problems


def _day(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text) if len(text) == len("2026-02-26") else None
    except ValueError:
        return None


# --- paths ---

FACTS = ("facts/user.md", "facts/memory.md")
_MONTH = re.compile(r"episodes/([12][0-9]{3}-(?:0[1-9]|1[0-2]))\.md")


def checked_path(path: object) -> str:
    """Return `path` if it is one of the closed set.  Raises InvalidValue that names the set.

    Compared letter by letter: nothing is normalised, so no other spelling can lead anywhere.
    """
    if isinstance(path, str) and (path in FACTS or _MONTH.fullmatch(path)):
        return path
    problem = _(
        "There is no memory file “%(path)s”. Use facts/user.md, facts/memory.md or one episode file per month, such as episodes/2026-02.md."
    ) % {"path": shorten(clean(str(path)[:400])[0], 80)}
    raise InvalidValue(problem, errors={"path": [problem]})


def is_fact(path: str) -> bool:
    """Whether it is one of the two fact files, which share one budget."""
    return path in FACTS


def month_of(path: str) -> str:
    """Return the month of an episode file (`2026-02`); empty for a fact file."""
    found = _MONTH.fullmatch(path)
    return found[1] if found else ""


def path_of_month(day: date) -> str:
    """Return the episode file of a day's month."""
    return f"episodes/{day.year:04}-{day.month:02}.md"


def place_of(path: str) -> tuple[int, str]:
    """Return what lists of files are sorted by: facts first, as the seed does, then the months."""
    return (FACTS.index(path), "") if path in FACTS else (len(FACTS), path)


# --- The `> Summary:` line of a memory file: found, made by rule, put in its place ---

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


# --- sections ---

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


# --- What is left of an older text of a file when a section that it lost is deleted for good ---

LEAST_LINE = (
    12  # characters of a line that is taken out wherever it stood; a shorter one says little
)
LEAST_PART = 4  # characters of a part of a summary line


@dataclass(frozen=True, slots=True)
class Purged:
    """A section deleted for good: its path of headings, its words, and the text that stands now."""

    heading: tuple[str, ...]
    words: str
    stands: str

    def taken_from(self, text: str) -> str:
        """Return an older text without the section, however it was worded then, as long as it was.

        A line of it that was moved, or stood under another heading, goes too.  What stands now,
        or stood beside it, stays.
        """
        lines = text.split("\n")
        gone = sorted({*self._by_heading(text), *self._by_words(lines)})
        taken = [lines[place] for place in gone]
        for place in gone:
            follows = place - 1 in gone and not is_heading(lines[place])
            lines[place] = "" if follows else _marked(lines[place])
        return self._without_summary("\n".join(lines), taken)

    def summary_without(self, summary: str, taken: Iterable[str] = ()) -> str:
        """Return a summary, or only that it was purged where a part of it says what is gone."""
        said = _said([*self.words.split("\n"), *taken])
        stands = _said(self.stands.split("\n"))
        parts = [one.strip() for one in summary.rstrip("…").split(", ")]
        told = (one for one in parts if len(one) >= LEAST_PART)
        return _word() if any(one in said and one not in stands for one in told) else summary

    def _by_heading(self, text: str) -> Iterable[int]:
        if not self.heading or any(one.heading == self.heading for one in sections_of(self.stands)):
            return
        known = {one.heading for one in sections_of(self.words)}
        for one in sections_of(text):
            if one.heading == self.heading or self._is_inside(one, known):
                yield from range(one.first_line - 1, one.last_line)

    def _is_inside(self, one: SectionText, known: set[tuple[str, ...]]) -> bool:
        """Whether a section stood in this one, and went along with it."""
        behind = one.heading[len(self.heading) - 1 :]
        return one.heading[: len(self.heading)] == self.heading and behind in known

    def _by_words(self, lines: Sequence[str]) -> Iterable[int]:
        words = {line.strip() for line in self.words.split("\n")}
        words -= {line.strip() for line in self.stands.split("\n")}
        for place, line in enumerate(lines):
            if len(line.strip()) >= LEAST_LINE and line.strip() in words:
                yield place

    def _without_summary(self, text: str, taken: Iterable[str]) -> str:
        begin, end = summary_span(text)
        summary = summary_of(text) or ""
        if end < 0 or self.summary_without(summary, taken) == summary:
            return text
        return f"{text[:begin]}{line_of(_word())}{text[end:]}"


def _word() -> str:
    return f"[{_('purged')}]"


def _marked(line: str) -> str:
    signs = line[: len(line) - len(line.lstrip(" #"))] if is_heading(line) else ""
    return f"{signs}{_word()}"


def _said(lines: Iterable[str]) -> str:
    return "\n".join(plain(line) for line in lines)
