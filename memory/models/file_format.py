"""The format of memory files (seed 003): headings, entries, paths, summary lines and sections.

One scan finds the headings for all of them. Only ATX headings (`## Tokyo`) outside fenced blocks
count. A full Markdown parser would be too slow for a save, so a single pattern finds headings and
fences.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from typing import Any, NamedTuple

from django.utils.text import slugify
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from beacon_site.text import contradictions
from beacon_site.text.cleaning import clean, cut, plain, shorten, width
from memory.models.errors import InvalidValue

_MARK = re.compile(
    r"^ {0,3}(?:(?P<signs>#{1,6})(?:[ \t]+(?P<words>[^\n]*?))??(?:[ \t]+#+)?[ \t]*$"
    r"|(?P<fence>`{3,}|~{3,})(?P<behind>[^\n]*)$)",
    re.MULTILINE,
)

# What agents write above a memory: `name: …` and `description: …` between two lines of hyphens.
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.{0,5000}?\n)?---[ \t]*(?:\n|\Z)", re.DOTALL)
_DESCRIPTION = re.compile(r"^description:[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)


class HeadingLine(NamedTuple):
    """A heading: where its line begins and ends in the text, and its line number, from 0."""

    begin: int
    end: int
    place: int
    level: int
    words: str


def lines_of(text: str) -> list[str]:
    """Return the lines without their line breaks. A final break doesn't start another line."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def line_count(text: str) -> int:
    return text.count("\n") + (0 if not text or text.endswith("\n") else 1)


@lru_cache(maxsize=8)
def headings(text: str) -> tuple[HeadingLine, ...]:
    """Return the headings outside fenced blocks, cached because a save needs them several times."""
    return tuple(_headings(text))


def _headings(text: str) -> Iterator[HeadingLine]:
    fence, at, place = "", 0, 0
    for match in _MARK.finditer(text):
        if signs := match["signs"]:
            if not fence:
                place += text.count("\n", at, match.start())
                at = match.start()
                words = (match["words"] or "").strip()
                yield HeadingLine(at, match.end(), place, len(signs), words)
            continue
        fence = _fence_behind(fence, match["fence"], match["behind"])


def open_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line outside fenced blocks with its number, counted from 0."""
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
    found = _MARK.match(line) if "#" in line[:4] else None
    return found is not None and found["signs"] is not None


def first_words(text: str) -> str:
    """Return the text of the heading at the beginning, or "" if the text doesn't start with one."""
    match = _MARK.match(text)
    return (match["words"] or "").strip() if match else ""


def _fence_behind(fence: str, mark: str, behind: str) -> str:
    """Return the fence that is open after a line with three or more fence characters."""
    if fence:
        return "" if mark.startswith(fence) and not behind.strip() else fence
    return "" if mark[0] == "`" and "`" in behind else mark


# --- dated entries of a month's file ---

MAX_WORDS = 9  # words in an entry's summary: "under ten words" is a warning, nothing is cut (R148)
_FIELD = re.compile(
    r"^[-*+][ \t]+\**(Summary|Date|Task|Details|Findings|Decision|Context|Lesson)\**[ \t]*"
    r"[:：]\**[ \t]*(.*)$",
    re.IGNORECASE,
)
_EAST_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_KEPT = ("summary", "date", "findings", "decision", "lesson", "context")
_LEVEL = 2  # entries have `##` headings


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry: its fields, empty if missing, and its problems.

    Lines count from 1. `last_line` is the last line before the next entry. `task` also accepts
    Details.
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
    short_problems: tuple[str, ...]  # below its title, which they don't repeat

    @property
    def day(self) -> datetime.date | None:
        return _day(self.date)


class ParsedEntry(NamedTuple):
    """What an entry says, without its position: fields by name, date and problems."""

    title: str
    said: dict[str, str]
    day: datetime.date | None
    problems: tuple[str, ...]
    short_problems: tuple[str, ...]


def entries_of(text: str) -> list[Entry]:
    """Return the entries in the order of the file."""
    return [
        Entry(
            title=one.title,
            task=one.said.get("task", "") or one.said.get("details", ""),
            first_line=first,
            last_line=last,
            problems=one.problems,
            short_problems=one.short_problems,
            **{name: one.said.get(name, "") for name in _KEPT},
        )
        for one, (_body, first, last) in zip(readings(text), _blocks(text), strict=True)
    ]


def readings(text: str) -> list[ParsedEntry]:
    """Return what each entry says. Results are cached because most entries don't change."""
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
    """Count words. Two East Asian characters count as one word because they aren't separated by
    spaces.
    """
    wide = len(_EAST_ASIAN.findall(text))
    return len(_EAST_ASIAN.sub(" ", text).split()) + (wide + 1) // 2


@lru_cache(maxsize=4_096)
def _read(body: str, language: str | None) -> ParsedEntry:
    """Read one entry. The cache key includes `language` because problems are translated."""
    title = first_words(body)
    said = _fields(body.split("\n")[1:])
    day = _day(said.get("date", ""))
    found = _problems(title, said, day)
    return ParsedEntry(
        title, said, day, tuple(named for named, _short in found), tuple(one[1] for one in found)
    )


def _fields(lines: Sequence[str]) -> dict[str, str]:
    """Return the fields by name, each with its indented continuation lines."""
    groups: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        match = _FIELD.match(line)
        if match:
            current = groups.setdefault(match[1].lower(), [])
            current.append(match[2])
        elif current is not None and line[:1] in (" ", "\t"):
            current.append(line)
        else:
            current = None
    return {name: " ".join(" ".join(parts).split()) for name, parts in groups.items()}


def _problems(
    title: str, values: dict[str, str], day: datetime.date | None
) -> list[tuple[str, str]]:
    """Return what isn't as it should be: in a sentence with the entry's title, and without it."""
    params: dict[str, Any] = {"label": title or _("an entry without a title")}
    found = []
    if not title:
        found.append((_("An entry has no title after “##”."), _("No title after “##”")))
    summary = values.get("summary", "")
    if not summary:
        found.append((_("“%(label)s” has no Summary line."), _("No Summary line")))
    elif (count := word_count(summary)) > MAX_WORDS:
        params["have"] = count
        found.append(
            (
                _("The Summary of “%(label)s” has %(have)d words. Keep it under 10 words."),
                _("The Summary has %(have)d words. Keep it under 10 words."),
            )
        )
    if not values.get("date"):
        found.append((_("“%(label)s” has no Date line."), _("No Date line")))
    elif day is None:
        found.append(
            (
                _("The “Date” field of “%(label)s” must contain a date such as 2026-02-26."),
                _("The “Date” field must contain a date such as 2026-02-26."),
            )
        )
    if not (values.get("task") or values.get("details")):
        found.append((_("“%(label)s” has no Task line."), _("No Task line")))
    if not any(values.get(name) for name in ("findings", "decision", "context", "lesson")):
        found.append(
            (
                _(
                    "“%(label)s” needs at least one of these: Findings, Decision, Context or Lesson."
                ),
                _("Add at least one of these: Findings, Decision, Context or Lesson."),
            )
        )
    return [(named % params, short % params) for named, short in found]


def _day(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text) if len(text) == len("2026-02-26") else None
    except ValueError:
        return None


# --- paths ---

FACTS = ("facts/user.md", "facts/memory.md")
_MONTH = re.compile(r"episodes/([12][0-9]{3}-(?:0[1-9]|1[0-2]))\.md")


def checked_path(path: object) -> str:
    """Return `path` if it is a valid memory file path. Raises InvalidValue with the valid paths.

    Paths are compared exactly and never normalized, so no other spelling can lead elsewhere.
    """
    if isinstance(path, str) and (path in FACTS or _MONTH.fullmatch(path) or is_kept_exact(path)):
        return path
    problem = _(
        "There is no memory file “%(path)s”. Use facts/user.md, facts/memory.md or one episode file per month, such as episodes/2026-02.md."
    ) % {"path": shorten(clean(str(path)[:400])[0], 80)}
    raise InvalidValue(problem, errors={"path": [problem]})


def is_fact(path: str) -> bool:
    """Return True if this is one of the two fact files, which share a size limit."""
    return path in FACTS


def month_of(path: str) -> str:
    """Return the month of an episode file (`2026-02`), or "" for another file."""
    match = _MONTH.fullmatch(path)
    return match[1] if match else ""


# An agent's own files: agents/<folder>/<path>, as the `memory` tool creates them.
AGENTS = "agents/"
MAX_PATH_LENGTH = 400  # characters
MAX_NAME_LENGTH = 80  # characters of a file's or folder's name
DEEPEST = 6  # names in a path, without agents/<folder>/
_PUNCTUATION = frozenset(" _.-+,()")
_FILE_NAME = re.compile(r".+\.[A-Za-z0-9]{1,10}")
_HASHED = re.compile(r"-[0-9a-f]{8}\Z")
# Letters and marks that show nothing, so that two names look the same.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0"
    "\U00016fe4\U000e0100-\U000e01ef]"
)


def agent_of(path: str) -> str:
    """Return the folder of an agent's own file (`claude` for agents/claude/notes.md), or ""."""
    first, _slash, rest = path.partition("/")
    if f"{first}/" != AGENTS or len(path) > MAX_PATH_LENGTH:
        return ""
    folder, *names = rest.split("/")
    is_valid = 1 <= len(names) <= DEEPEST and all(map(is_name, (folder, *names)))
    return folder if is_valid and _FILE_NAME.fullmatch(names[-1]) else ""


# A file of a mounted folder (BEACON_AGENT_DIRS): folders/<name>/<path in that folder>.
MOUNTED = "folders/"
DEEPEST_MOUNTED = 12  # names in a path, without folders/<name>/
MOUNTED_SUFFIXES = (".md", ".mdc", ".markdown", ".txt")
_MOUNTED_PUNCTUATION = _PUNCTUATION | frozenset("~@&'!#%=;[]{}$^`")


def mounted_of(path: str) -> str:
    """Return the name of the mounted folder that the file is in, or ""."""
    first, _slash, rest = path.partition("/")
    if f"{first}/" != MOUNTED or len(path) > MAX_PATH_LENGTH:
        return ""
    folder, *names = rest.split("/")
    is_valid = 1 <= len(names) <= DEEPEST_MOUNTED and is_name(folder)
    if not is_valid or not all(map(is_mounted_name, names)):
        return ""
    return folder if names[-1].lower().endswith(MOUNTED_SUFFIXES) else ""


def is_mounted_name(name: str) -> bool:
    """Return True if a file or folder on disk can be shown under its own name.

    Nothing invisible or unprintable, and nothing that a path gives another meaning, so two names
    that look the same can't be two files.
    """
    if not 0 < len(name) <= 255 or name in {".", ".."} or _INVISIBLE.search(name):
        return False
    if name != unicodedata.normalize("NFC", name) or name != name.strip():
        return False
    return all(unicodedata.category(one)[0] in "LMN" or one in _MOUNTED_PUNCTUATION for one in name)


def is_kept_exact(path: str) -> bool:
    """Return True if the file's text is stored exactly, without a summary line of Beacon's."""
    return bool(agent_of(path) or mounted_of(path))


def is_name(name: str) -> bool:
    """Return True if a file or folder of an agent can have this name.

    Letters, digits and simple punctuation: nothing hidden, encoded, invisible or spelled in two
    ways. A name such as `..` can't occur, since it must begin with a letter or a digit.
    """
    if not 0 < len(name) <= MAX_NAME_LENGTH or name != unicodedata.normalize("NFC", name):
        return False
    if _INVISIBLE.search(name):
        return False
    kinds = [unicodedata.category(one)[0] for one in name]
    is_plain = all(
        kind in "LMN" or one in _PUNCTUATION for kind, one in zip(kinds, name, strict=True)
    )
    return is_plain and (kinds[0] in "LN" or name[0] == "_") and name[-1] not in " ."


def folder_of(agent: str) -> str:
    """Return the name of an agent's folder. Two agents never share one: a name that is changed to
    fit, or that ends like a hash, gets a hash.
    """
    slug = slugify(agent)[:60].strip("-_")
    if slug == agent and not _HASHED.search(slug):
        return slug
    return f"{slug or 'agent'}-{hashlib.sha256(agent.encode(errors='replace')).hexdigest()[:8]}"


def path_of_month(day: date) -> str:
    """Return the episode file of a day's month."""
    return f"episodes/{day.year:04}-{day.month:02}.md"


def place_of(path: str) -> tuple[int, str]:
    """Return the sort key for lists of files: facts first, as in the seed, then the months."""
    return (FACTS.index(path), "") if path in FACTS else (len(FACTS), path)


# --- the `> Summary:` line ---

MAX_RULE_LENGTH = 120  # characters in a generated summary; wide characters count as two
MAX_SUMMARY_LENGTH = 400  # characters kept of a summary that a person or agent wrote
NOTHING = "nothing yet"
UPDATED = re.compile(r"^[-*+][ \t]+Updated[:：]", re.IGNORECASE)
_SUMMARY = re.compile(r"^ {0,3}>[ \t]*Summary[:：][ \t]*(.*?)[ \t]*$", re.IGNORECASE)
_MAYBE = re.compile(r"summary[:：]", re.IGNORECASE)
_BULLET = re.compile(r"^(?:[-*+]|\d{1,3}[.)])[ \t]+\S")


def summary_place(text: str) -> int | None:
    """Return the position of the summary line: before the second heading, outside fences."""
    marks = headings(text)
    head = text[: marks[1].begin] if len(marks) > 1 else text
    if not _MAYBE.search(head):
        return None
    return next((place for place, line in open_lines(head) if _SUMMARY.match(line)), None)


def summary_of(text: str) -> str | None:
    """Return the text of the summary line, or None if there is no such line."""
    begin, end = summary_span(text)
    found = _SUMMARY.match(text[begin:end]) if end >= 0 else None
    return shorten(found[1], MAX_SUMMARY_LENGTH) if found else None


def summary_span(text: str) -> tuple[int, int]:
    """Return where the summary line begins and ends in the text, or -1 if there is none."""
    place = summary_place(text)
    if place is None:
        return -1, -1
    lines = text.split("\n", place + 1)
    begin = sum(len(line) + 1 for line in lines[:place])
    return begin, begin + len(lines[place])


def line_of(summary: str) -> str:
    return f"> Summary: {shorten(summary, MAX_SUMMARY_LENGTH) or NOTHING}"


def with_summary(text: str, summary: str) -> str:
    """Return the text with this summary line: in its place, else below the title, else at the top."""
    return with_line(text, line_of(summary))


def with_line(text: str, line: str) -> str:
    """Return the text with `line`, unchanged, as its summary line."""
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
    """Return a summary generated from the text's own words."""
    parts: Iterable[str] = () if is_fact(path) else _of_entries(text)
    return _joined(parts) or _joined(_of_bullets(text)) or _joined(_of_prose(text)) or NOTHING


def summary_of_exact(path: str, text: str) -> str:
    """Return the summary of a text that is stored exactly: its own description, or one by rule."""
    front = _FRONT_MATTER.match(text)
    if front is None:
        return by_rule(path, text)
    match = _DESCRIPTION.search(front[1] or "")
    return (
        shorten(match[1].strip("\"'"), MAX_RULE_LENGTH)
        if match
        else by_rule(path, text[front.end() :])
    )


def _of_entries(text: str) -> Iterable[str]:
    """Return the entries' own summaries, newest date first, and the last entry of a date first."""
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
    """Return as many parts as fit, and always the first one."""
    text = ""
    for part in parts:
        between = " " if text.endswith((".", "!", "?", "…", "。")) else ", "
        longer = f"{text}{between}{part}" if text and part else text or part
        if width(longer) > MAX_RULE_LENGTH:
            return text or f"{cut(part, MAX_RULE_LENGTH - 2).rstrip()}…"
        text = longer
    return text


# --- sections ---

Heading = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SectionText:
    """A section: `heading` is its heading path, starting with the file's title.

    `text` and `last_line` end before the next heading of any level. `until` is the last line of its
    last subsection. Lines count from 1. Text before the first heading is a section without a
    heading.
    """

    heading: Heading
    title: str
    level: int
    first_line: int
    last_line: int
    until: int
    text: str


def sections_of(text: str) -> list[SectionText]:
    """Return the sections in order. Joined, they contain all lines of the text."""
    marks = headings(text)
    results: list[SectionText] = []
    top = text[: marks[0].begin] if marks else text
    if top.strip():
        end = marks[0].place if marks else line_count(text)
        results.append(SectionText((), "", 0, 1, end, end, top.removesuffix("\n")))
    untils = _untils([(one.place, one.level) for one in marks], line_count(text))
    above: list[tuple[int, str]] = []
    for number, mark in enumerate(marks):
        above = [*(one for one in above if one[0] < mark.level), (mark.level, mark.words)]
        after = marks[number + 1] if number + 1 < len(marks) else None
        body = text[mark.begin : after.begin if after else len(text)].removesuffix("\n")
        last = after.place if after else line_count(text)
        path = tuple(words for _level, words in above)
        results.append(
            SectionText(path, mark.words, mark.level, mark.place + 1, last, untils[number], body)
        )
    return results


def _untils(marks: Sequence[tuple[int, int]], count: int) -> list[int]:
    """For each heading, return the line of the next heading of the same or a higher level."""
    ends = [count] * len(marks)
    open_: list[int] = []
    for number, (place, level) in enumerate(marks):
        while open_ and marks[open_[-1]][1] >= level:
            ends[open_.pop()] = place
        open_.append(number)
    return ends


def locked_text(text: str, heading: Sequence[str]) -> str | None:
    """Return the text that a lock on the section protects, or None if there is no such section.

    This is the section with its subsections, without trailing blank lines and without the summary
    line, which every save regenerates. If several sections have the same heading path, the lock
    protects all of them.
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
    """Return the sections that contain more than headings, the summary line and a date.

    `without` is a generated summary line. It only repeats text from below.
    """
    results = []
    for one in sections_of(text):
        lines = one.text.split("\n")
        if without and without in lines:
            lines = [line for line in lines if line != without]
            one = replace(one, text="\n".join(lines).strip("\n"))
        texts = lines[1:] if one.heading else lines
        if any(line.strip() and not UPDATED.match(line) for line in texts):
            results.append(one)
    return results


def anchor_of(heading: Sequence[str]) -> str:
    """Return the section's ID on its file's page."""
    if not heading:
        return "section-top"
    digest = hashlib.sha256("\0".join(heading).encode()).hexdigest()[:6]
    return "-".join(filter(None, ["section", slugify(heading[-1])[:40].strip("-"), digest]))


# --- removing a purged section from older texts ---

PURGED = "[purged]"  # in every language, because files keep it and messages quote it
MIN_LINE = 12  # characters; a line this long is removed wherever it occurs
MIN_PART = 4  # characters in a part of a summary line


@dataclass(frozen=True, slots=True)
class PurgedSection:
    """A purged section: its heading path, its text, and the file's current text."""

    heading: tuple[str, ...]
    words: str
    stands: str

    def without_section(self, text: str) -> str:
        """Return an older text without the section, even if it had other wording at that time.

        Lines that were moved or were under another heading are also removed. Text that is still in
        the file, or was outside the section, is kept.
        """
        lines = text.split("\n")
        gone = sorted({*self._by_heading(text), *self._by_words(lines)})
        taken = [lines[place] for place in gone]
        for place in gone:
            follows = place - 1 in gone and not is_heading(lines[place])
            lines[place] = "" if follows else _marked(lines[place])
        return self._without_summary("\n".join(lines), taken)

    def summary_without(self, summary: str, taken: Iterable[str] = ()) -> str:
        """Return the summary, or a placeholder if part of it repeats the purged text."""
        text = _comparable([*self.words.split("\n"), *taken])
        stands = _comparable(self.stands.split("\n"))
        parts = [one.strip() for one in summary.rstrip("…").split(", ")]
        told = (part for part in parts if len(part) >= MIN_PART)
        return PURGED if any(one in text and one not in stands for one in told) else summary

    def _by_heading(self, text: str) -> Iterable[int]:
        if not self.heading or any(one.heading == self.heading for one in sections_of(self.stands)):
            return
        known = {one.heading for one in sections_of(self.words)}
        for one in sections_of(text):
            if one.heading == self.heading or self._is_inside(one, known):
                yield from range(one.first_line - 1, one.last_line)

    def _is_inside(self, one: SectionText, known: set[tuple[str, ...]]) -> bool:
        behind = one.heading[len(self.heading) - 1 :]
        return one.heading[: len(self.heading)] == self.heading and behind in known

    def _by_words(self, lines: Sequence[str]) -> Iterable[int]:
        words = {line.strip() for line in self.words.split("\n")}
        words -= {line.strip() for line in self.stands.split("\n")}
        for place, line in enumerate(lines):
            if len(line.strip()) >= MIN_LINE and line.strip() in words:
                yield place

    def _without_summary(self, text: str, taken: Iterable[str]) -> str:
        begin, end = summary_span(text)
        summary = summary_of(text) or ""
        if end < 0 or self.summary_without(summary, taken) == summary:
            return text
        return f"{text[:begin]}{line_of(PURGED)}{text[end:]}"


def _marked(line: str) -> str:
    signs = line[: len(line) - len(line.lstrip(" #"))] if is_heading(line) else ""
    return f"{signs}{PURGED}"


def _comparable(lines: Iterable[str]) -> str:
    return "\n".join(plain(line) for line in lines)


# --- statements ---

# A table's row, a quote, an import of another file, or a line that only leads to another file.
_NO_STATEMENT = re.compile(
    r"^\s*(?:\||>|@\S+\s*$|<!--)|^\s*(?:[-*+]\s+)?\[[^]\n]*\]\([^)\n]*\.mdc?\)"
)


class Statement(NamedTuple):
    """A statement of a file, and the position of its line, counted from 0.

    A conflict names it by its digest, so that no second copy of the text is stored.
    """

    text: str
    place: int

    @property
    def digest(self) -> str:
        return digest_of(self.text)


def digest_of(statement: str) -> str:
    return hashlib.sha256(statement.encode()).hexdigest()[:16]


@lru_cache(maxsize=16)  # a page or a save asks for the same files several times
def statements_of(text: str) -> tuple[Statement, ...]:
    """Return a file's statements, without front matter, code, tables, quotes and the summary line."""
    front, summary = _FRONT_MATTER.match(text), summary_place(text)
    start = text.count("\n", 0, front.end()) if front else 0
    return tuple(
        Statement(one, place)
        for place, line in open_lines(text)
        if place >= start and place != summary and not _NO_STATEMENT.match(line)
        for one in contradictions.statements(line)
    )


def statements_found(text: str, digests: Iterable[str]) -> list[Statement]:
    """Return the statements with these digests that the text still has, each once."""
    remaining = set(digests)
    found: dict[str, Statement] = {}
    for one in statements_of(text):
        if one.digest in remaining:
            found.setdefault(one.digest, one)
    return sorted(found.values(), key=lambda one: one.place)
