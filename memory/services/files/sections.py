"""Sections removed from a file: kept in Trash, with their locks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from beacon_site.text.messages import gettext as _
from memory.models import FileEntry, MemoryFile, Revision
from memory.models.actors import Actor
from memory.models.file_format import (
    Heading,
    SectionText,
    line_count,
    lines_of,
    sections_of,
    summary_span,
    telling,
)
from memory.models.history import Change

MOST = 50  # sections of one change; if more were removed, they are kept as one


@dataclass(frozen=True, slots=True)
class RemovedSection:
    """A removed section: its heading path, and its text with all subsections."""

    heading: Heading
    text: str


def removed_from(before: str, after: str) -> list[RemovedSection]:
    """Return the sections of `before` that are missing in `after`, in order."""
    before, after = _without_summary(before), _without_summary(after)
    if not (gone := _gone(before, after)):
        return []
    left = {one.heading for one in sections_of(after)} | {one.heading for one in telling(before)}
    found: list[list[SectionText]] = []
    for one in sections_of(before):
        if one not in gone and one.heading in left:
            continue
        if found and _is_inside(one, found[-1][-1], found[-1][0]):
            found[-1].append(one)
        else:
            found.append([one])
    kept = [group for group in found if not gone.isdisjoint(group)]
    if len(kept) > MOST:
        return [RemovedSection((), "\n\n".join(_text(group) for group in kept))]
    return [RemovedSection(group[0].heading, _text(group)) for group in kept]


def _is_inside(one: SectionText, last: SectionText, first: SectionText) -> bool:
    """Whether a section is inside the first one, directly after the last."""
    is_next = one.first_line == last.last_line + 1
    return is_next and first.level > 0 and one.last_line <= first.until


def _gone(before: str, after: str) -> set[SectionText]:
    """Return the sections whose text is gone, neither kept under their heading nor moved."""
    told = Counter((one.heading, one.text.strip()) for one in telling(after))
    headed = Counter(one.heading for one in telling(after))
    left = []
    for one in telling(
        before
    ):  # equal text first, or the wrong one of two with the same name would go
        if told[(one.heading, one.text.strip())]:
            told[(one.heading, one.text.strip())] -= 1
            headed[one.heading] -= 1
        else:
            left.append(one)
    gone = []
    for one in left:
        if headed[one.heading] > 0:
            headed[one.heading] -= 1
        else:
            gone.append(one)
    kept = Counter(_comparable(lines_of(before)))
    for one in gone:
        kept -= Counter(_comparable(one.text.split("\n")))
    fresh = Counter(_comparable(lines_of(after))) - kept
    return {one for one in gone if not _moved(one, fresh)}


def _moved(one: SectionText, fresh: Counter[str]) -> bool:
    """Whether at least half of the section's lines are new elsewhere; each counts once."""
    lines = Counter(_comparable(one.text.split("\n")[bool(one.heading) :]))
    there = lines & fresh
    if there.total() * 2 < lines.total():
        return False
    fresh -= there
    return True


def _comparable(lines: Iterable[str]) -> list[str]:
    return [line.strip() for line in lines if line.strip()]


def _text(sections: Sequence[SectionText]) -> str:
    return "\n".join(one.text for one in sections).strip("\n")


def _without_summary(text: str) -> str:
    begin, end = summary_span(text)
    return text if end < 0 else text[:begin] + text[end + 1 :]


# --- restoring and removing again ---


def contains_lines(text: str, words: str) -> bool:
    """Whether the text contains these consecutive lines."""
    return _place_of(text, words) is not None


def without_lines(text: str, words: str) -> str | None:
    """Return the text without these lines, or None if it doesn't contain them."""
    begin = _place_of(text, words)
    if begin is None:
        return None
    rest = text[begin + len(words) :].lstrip("\n")
    head = text[:begin].rstrip("\n")
    return "\n\n".join(filter(None, [head, rest])) if rest else (head and f"{head}\n")


def _place_of(text: str, words: str) -> int | None:
    begin = f"\n{text}\n".find(f"\n{words}\n")
    return begin if begin >= 0 else None


def put_in(text: str, one: RemovedSection, before: str) -> str:
    """Return the text with the section restored, after what preceded it in `before`."""
    lines = lines_of(text)
    at = _line_for(text, one, before)
    above, below = lines[:at], lines[at:]
    while above and not above[-1].strip():
        above.pop()
    while below and not below[0].strip():
        below.pop(0)
    parts = ["\n".join(above), one.text, "\n".join(below)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _line_for(text: str, one: RemovedSection, before: str) -> int:
    """Return the line after which it belongs."""
    was = sections_of(_without_summary(before))
    found = (n for n, s in enumerate(was) if s.heading == one.heading and _begins(one, s))
    index = next(found, None)
    if index is None:
        return line_count(text)
    now = sections_of(text)
    for above in reversed(was[:index]):
        same = [s for s in now if s.heading == above.heading]
        if same:
            alike = (s for s in same if s.text.strip() == above.text.strip())
            return next(alike, same[-1]).last_line
    return now[0].last_line if one.heading and now[:1] and not now[0].heading else 0


def _begins(one: RemovedSection, section: SectionText) -> bool:
    words = section.text.strip("\n")
    return f"{one.text}\n".startswith(f"{words}\n")


def follow(file: MemoryFile, before: str, *, by: Actor, why: str, source: str) -> None:
    """Move sections removed since `before` to Trash, and take out those that are in the file again.

    Called in the transaction that saved the file, with its row locked.
    """
    after = str(file.content)
    for entry in FileEntry.objects.filter(file=file).in_trash():
        if entry.content and contains_lines(after, entry.content):
            entry.owner = file.owner
            entry.restore(by=by)
    gone = removed_from(before, after)
    if not gone:
        return
    now = timezone.now()
    entries = [_entry(file, one, now) for one in gone]
    FileEntry.objects.bulk_create(entries)
    changes = [Change(entry, {"trashed_at": None}, {"trashed_at": now}, 1) for entry in entries]
    said = why or _("moved to Trash")
    Revision.record_many(changes, by=by, why=said, source=source)


def _entry(file: MemoryFile, one: RemovedSection, now: datetime) -> FileEntry:
    return FileEntry(
        owner_id=file.owner_id,
        file=file,
        path=file.path,
        heading=list(one.heading),
        content=one.text,
        removed_in=file.version,
        source=file.source,
        trust=file.trust,
        sensitivity=file.sensitivity,
        trashed_at=now,
    )
