"""The text of a memory file, before it is stored: its limits, blame, merges, patches and entries.

Sections that a change removes are kept in Trash, with their locks.

Blame is the version of each line, stored with every version as runs `[lines, version]` from the top.
A moved line counts as new, and so do lines that the bounded diff of a very large change can't match
(`beacon_site.text.diff`). A restored version brings its own blame.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from django.utils import timezone

from beacon_site.text.cleaning import clean, shorten
from beacon_site.text.dates import system_zone_name
from beacon_site.text.diff import Merge, edits, merge
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import grouped
from memory.models import FileEntry, MemoryFile, Revision
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached, MemoryRefused
from memory.models.file_format import (
    NOTHING,
    UPDATED,
    Heading,
    SectionText,
    is_fact,
    is_kept_exact,
    line_count,
    line_of,
    lines_of,
    month_of,
    sections_of,
    summary_of,
    summary_span,
    telling,
    with_summary,
)


class NoSuchFile(MemoryRefused):
    """There is no file at this path now. The message lists the existing ones."""

    def __init__(self, path: str, there: Iterable[str]) -> None:
        params = {"path": path, "there": ", ".join(there)}
        super().__init__(_("%(path)s doesn’t exist yet. Existing files: %(there)s.") % params)
        self.path = path


class FileConflict(MemoryRefused):
    """Someone else changed the same lines after the version this write is based on.

    `file` is the current one. `base`, `mine` and `theirs` are the whole texts. `merge` holds the
    merged and the conflicting lines.
    """

    def __init__(self, file: MemoryFile, *, base: str, mine: str, merge: Merge) -> None:
        self.file, self.path, self.version = file, file.path, file.version
        self.base, self.mine, self.theirs, self.merge = base, mine, str(file.content), merge
        super().__init__(
            _(
                "%(path)s was changed by someone else after you read it and is now at version %(version)d. Nothing was saved. Read that version, add your change, and save again."
            )
            % {"path": self.path, "version": self.version}
        )

    def as_json(self) -> dict[str, Any]:
        """Return the conflict and the current text, for API clients."""
        return {
            "error": "conflict",
            "path": self.path,
            "version": self.version,
            "current": self.theirs,
            "message": str(self),
        }


# --- size limits, in bytes of UTF-8 (seed 003, "Facts Size Budget") ---

MAX_FACTS = 15_360  # both fact files together
MAX_EPISODES = 262_144  # one month's file
MAX_FILES = 200  # in one agent's folder
MAX_BYTES = 2_097_152  # of all its files together
MAX_LINE = 8_192  # one line, without its line break


class OverBudget(LimitReached):
    """A file, or both fact files together, would exceed the limit."""

    def __init__(self, message: str, *, have: int, most: int) -> None:
        super().__init__(message)
        self.have = have
        self.most = most


def size_of(text: str) -> int:
    return len(text.encode())


def check_size(path: str, size: int, others: int) -> None:
    """Raise OverBudget if a file of `size` bytes is too large, with `others` bytes of other facts."""
    if not is_fact(path):
        if size > MAX_EPISODES:
            raise _over_month(path, size)
        return
    have = size + others
    if have > MAX_FACTS:
        raise OverBudget(
            _(
                "Together, the fact files would be %(have)s bytes, %(over)s over the limit of %(most)s (%(path)s: %(size)s, the other file: %(others)s). Nothing was saved. Condense them first, then add to them."
            )
            % {
                "have": grouped(have),
                "over": grouped(have - MAX_FACTS),
                "most": grouped(MAX_FACTS),
                "path": path,
                "size": grouped(size),
                "others": grouped(others),
            },
            have=have,
            most=MAX_FACTS,
        )


def _over_month(path: str, size: int) -> OverBudget:
    message = _(
        "%(path)s would be %(have)s bytes, %(over)s over the limit of %(most)s. Nothing was saved. Condense older entries first, then add to it."
    ) % {
        "path": path,
        "have": grouped(size),
        "over": grouped(size - MAX_EPISODES),
        "most": grouped(MAX_EPISODES),
    }
    return OverBudget(message, have=size, most=MAX_EPISODES)


def check_lines(text: str) -> None:
    """Raise LimitReached if a line is too long."""
    if len(text) * 4 <= MAX_LINE:
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) * 4 > MAX_LINE and (size := size_of(line)) > MAX_LINE:
            raise LimitReached(
                _(
                    "Line %(number)s is %(have)s bytes, but a line can be at most %(most)s. Nothing was saved. Split it into several lines."
                )
                % {"number": grouped(number), "have": grouped(size), "most": grouped(MAX_LINE)}
            )


Runs = list[list[int]]


# --- blame ---


class BlamedFile(Protocol):
    """A file, or one version of it, with its blame."""

    content: str
    blame: Runs
    version: int


class BlamedLine(NamedTuple):
    """A line of a file, counted from 1, with the version that wrote it."""

    number: int
    text: str
    version: int


def carried(blame: Sequence[Sequence[int]], old_text: str, new_text: str, version: int) -> Runs:
    """Return the blame of `new_text`, which is version `version` and follows `old_text`."""
    old, new = lines_of(old_text), lines_of(new_text)
    were = _versions(blame, len(old), max(1, version - 1))
    now: list[int] = []
    at = 0
    for a, b, _c, d in edits(old, new):
        now += were[at:a]
        now += [version] * (d - len(now))
        at = b
    now += were[at:]
    return _runs(now)


def lines_blamed(file: BlamedFile) -> list[BlamedLine]:
    lines = lines_of(file.content)
    versions = _versions(file.blame, len(lines), file.version)
    pairs = zip(lines, versions, strict=True)
    return [BlamedLine(number, *pair) for number, pair in enumerate(pairs, start=1)]


def _versions(blame: Sequence[Sequence[int]], count: int, otherwise: int) -> list[int]:
    """Return the version of each of `count` lines, with `otherwise` for lines outside the runs."""
    versions = [version for number, version in blame for _line in range(number)][:count]
    return versions + [otherwise] * (count - len(versions))


def _runs(versions: Iterable[int]) -> Runs:
    return [[len(list(same)), version] for version, same in groupby(versions)]


# --- three-way merges ---


class EarlierVersion(NamedTuple):
    """An earlier text of a file, and the version of each of its lines."""

    content: str
    blame: Runs


def content_at(file: MemoryFile, version: int) -> str | None:
    """Return the file's text of a version, or None if there was no such version."""
    kept = kept_at(file, version)
    return kept.content if kept else None


def kept_at(file: MemoryFile, version: int) -> EarlierVersion | None:
    """Return the file's text and blame of a version, or None if there was no such version."""
    if version == file.version:
        return EarlierVersion(str(file.content), file.blame)
    if not 0 < version < file.version:
        return None
    rows = Revision.objects.filter(record_type=file.record_type(), record_id=file.pk)
    upto = rows.filter(version__lte=version).order_by("-version", "-id")
    # One by one from that version down, usually one step. In a single query, Postgres would unpack
    # the whole text of every revision to see whether it has one.
    for pk in upto.values_list("pk", flat=True).iterator(chunk_size=500):
        after = rows.filter(pk=pk).values_list("after", flat=True).get()
        if "content" in after:
            return EarlierVersion(str(after["content"]), after.get("blame") or [])
    return None


def joined(file: MemoryFile, mine: str, *, seen: int | None, join: bool) -> tuple[str, bool]:
    """Return the text to store, and whether it was merged with later changes by others.

    With `seen` None the current text is overwritten. Raises FileConflict if both changed the same
    lines, if `join` is off, or if `seen` isn't a version of this file (0: it was supposed to be
    new).
    """
    if seen in (None, file.version) or mine == file.content:
        return mine, False
    known = content_at(file, seen or 0)
    if known == file.content:  # the later change isn't to the text, such as a lock
        return mine, False
    base, theirs = known or "", str(file.content)
    both = merge_changes(base, mine, theirs)
    if not join or known is None or both.conflicts:
        raise FileConflict(file, base=base, mine=mine, merge=both)
    return both.text(), True


def merge_changes(base: str, mine: str, theirs: str) -> Merge:
    """Return two changes of `base` merged.

    The summary line never conflicts. If `mine` changed or emptied it, that counts, otherwise the
    one of `theirs`.
    """
    was, written, stands = summary_of(base), summary_of(mine), summary_of(theirs)
    kept = (written or NOTHING) if written != was else stands
    if kept and was and stands:
        base, mine, theirs = (with_summary(text, kept) for text in (base, mine, theirs))
    return merge(base, mine, theirs)


# --- cleaning text ---

_MARK = "\ufeff"


def cleaned(text: str) -> tuple[str, list[str]]:
    """Return the text without what can't be stored, and warnings about what was removed.

    Changed line ends give no warning.
    """
    warnings = []
    if text.startswith(_MARK):
        text = text.removeprefix(_MARK)
        warnings.append(_("A byte order mark at the beginning was removed."))
    text, was_unclean = clean(text.replace("\r\n", "\n").replace("\r", "\n"))
    if was_unclean:
        warnings.append(
            _("Characters that can’t be stored (NUL, control characters) were removed.")
        )
    return text, warnings


# --- appending an entry ---

_TITLES = {"facts/user.md": "User", "facts/memory.md": "Memory"}
_BULLET = re.compile(r"^(?:[-*+]|\d{1,3}[.)])[ \t]")


def new_file(path: str) -> str:
    """Return the text of a new file: its title and an empty summary line."""
    if is_kept_exact(path):
        return ""
    title = _TITLES.get(path) or f"{month_of(path)} Episodes"
    return f"# {title}\n\n{line_of('')}\n"


def first_text(path: str, day: str) -> str:
    """Return the text of a new account's fact file, in seed 003's format."""
    return f"{new_file(path)}\n- Updated: {day}\n"


def with_entry(path: str, text: str, entry: str, zone: str) -> str:
    """Return the text with the entry at its end, after a blank line (R156).

    The `- Updated:` line of a fact file stays the last line and gets today's date.
    """
    entry = entry.strip("\n")
    lines = lines_of(text.rstrip("\n"))
    if not (is_fact(path) and lines and UPDATED.match(lines[-1])):
        stands = text.rstrip("\n")
        return f"{stands}\n\n{entry}\n" if stands.strip() else f"{entry}\n"
    stands = "\n".join(lines[:-1]).rstrip("\n")
    gap = "\n" if _BULLET.match(entry.split("\n")[-1]) else "\n\n"
    day = timezone.now().astimezone(ZoneInfo(system_zone_name(zone) or "UTC")).date().isoformat()
    before = f"{stands}\n\n" if stands.strip() else ""
    return f"{before}{entry}{gap}- Updated: {day}\n"


# --- patching ---

Pair = tuple[str, str]


class PatchRefused(InvalidValue):
    """A pair doesn't match the text. `number` counts from 1, and is 0 if there are no pairs."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message, errors={"patches": [message]})
        self.number = number


def patched(path: str, text: str, patches: Sequence[Pair]) -> str:
    """Return the text with each old text replaced by its new one, which is taken literally.

    Old texts are searched in the original text, never in what another pair inserts.  The file's
    summary line repeats text from below it, so a match there counts only if it is the only one.
    Raises PatchRefused for an old text that is empty, missing, ambiguous or overlaps another.
    """
    if not patches:
        raise PatchRefused(_("There is nothing to patch. Provide pairs of old and new text."), 0)
    spots = [
        (*_spot(path, text, old, number), new, number)
        for number, (old, new) in enumerate(patches, start=1)
    ]
    spots.sort(key=lambda spot: (spot[0], spot[1]))
    parts, at, last = [], 0, 0
    for begin, end, new, number in spots:
        if begin < at:
            raise PatchRefused(
                _(
                    "The old texts of pairs %(first)d and %(second)d overlap in %(path)s. Nothing was changed. Combine the pairs into one."
                )
                % {"first": min(last, number), "second": max(last, number), "path": path},
                number,
            )
        parts += [text[at:begin], new]
        at, last = end, number
    return "".join([*parts, text[at:]])


def _spot(path: str, text: str, old: str, number: int) -> tuple[int, int]:
    """Return where the old text begins and ends.  Raises PatchRefused unless it is found once."""
    params = {"number": number, "old": shorten(old, 80), "path": path}
    if not old:
        raise PatchRefused(_("Pair %(number)d has no old text to search for.") % params, number)
    spots = _positions_of(text, old)
    if not spots:
        raise PatchRefused(
            _(
                "The old text of pair %(number)d (“%(old)s”) isn’t in %(path)s. Nothing was changed. Read the file and use its exact text, including spaces and line breaks."
            )
            % params,
            number,
        )
    if len(spots) > 1:
        raise PatchRefused(
            _(
                "The old text of pair %(number)d (“%(old)s”) occurs more than once in %(path)s. Nothing was changed. Include more of the surrounding text to make it unique."
            )
            % params,
            number,
        )
    return spots[0], spots[0] + len(old)


def _positions_of(text: str, old: str) -> list[int]:
    """Return up to two places where the old text begins; one in the summary line comes last."""
    begin, end = summary_span(text)
    outside: list[int] = []
    inside: list[int] = []
    at = text.find(old)
    while at >= 0 and len(outside) < 2:
        (inside if begin <= at and at + len(old) <= end else outside).append(at)
        at = text.find(old, at + 1)
    return outside or inside[:2]


def format_size(size: int) -> str:
    """Return a size as in the index: 420B, 1.2KB."""
    if size < 1024:
        return f"{size}B"
    return f"{size / 1024:.1f}KB"


# --- removed sections ---

MAX_REMOVED = 50  # sections of one change; if more were removed, they are kept as one

Removed = tuple[
    Heading, str
]  # a removed section: its heading path, and its text with all subsections


def removed_from(before: str, after: str) -> list[Removed]:
    """Return the sections of `before` that are missing in `after`, in order."""
    before, after = _without_summary(before), _without_summary(after)
    if not (gone := _removed_sections(before, after)):
        return []
    left = {one.heading for one in sections_of(after)} | {one.heading for one in telling(before)}
    results: list[list[SectionText]] = []
    for one in sections_of(before):
        if one not in gone and one.heading in left:
            continue
        if results and _is_inside(one, results[-1][-1], results[-1][0]):
            results[-1].append(one)
        else:
            results.append([one])
    kept = [group for group in results if not gone.isdisjoint(group)]
    if len(kept) > MAX_REMOVED:
        return [((), "\n\n".join(_text(group) for group in kept))]
    return [(group[0].heading, _text(group)) for group in kept]


def _is_inside(one: SectionText, last: SectionText, first: SectionText) -> bool:
    """Return True if a section is inside the first one, directly after the last."""
    is_next = one.first_line == last.last_line + 1
    return is_next and first.level > 0 and one.last_line <= first.until


def _removed_sections(before: str, after: str) -> set[SectionText]:
    """Return the sections whose text is gone, neither kept under their heading nor moved."""
    counts = Counter((one.heading, one.text.strip()) for one in telling(after))
    headed = Counter(one.heading for one in telling(after))
    left = []
    for one in telling(
        before
    ):  # equal text first, or the wrong one of two with the same name would go
        if counts[(one.heading, one.text.strip())]:
            counts[(one.heading, one.text.strip())] -= 1
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
    """Return True if at least half of the section's lines are new elsewhere; each counts once."""
    lines = Counter(_comparable(one.text.split("\n")[bool(one.heading) :]))
    there = lines & fresh
    if there.total() * 2 < lines.total():
        return False
    fresh -= there
    return True


def _comparable(lines: Iterable[str]) -> list[str]:
    return [line.strip() for line in lines if line.strip()]


def _text(sections: Sequence[SectionText]) -> str:
    return "\n".join(section.text for section in sections).strip("\n")


def _without_summary(text: str) -> str:
    begin, end = summary_span(text)
    return text if end < 0 else text[:begin] + text[end + 1 :]


# --- restoring and removing again ---


def contains_lines(text: str, words: str) -> bool:
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


def put_in(text: str, one: Removed, before: str) -> str:
    """Return the text with the section restored, after what preceded it in `before`."""
    lines = lines_of(text)
    at = _line_for(text, one, before)
    above, below = lines[:at], lines[at:]
    while above and not above[-1].strip():
        above.pop()
    while below and not below[0].strip():
        below.pop(0)
    parts = ["\n".join(above), one[1], "\n".join(below)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _line_for(text: str, one: Removed, before: str) -> int:
    """Return the line after which it belongs."""
    heading, words = one
    was = sections_of(_without_summary(before))
    found = (n for n, s in enumerate(was) if s.heading == heading and _begins(words, s))
    index = next(found, None)
    if index is None:
        return line_count(text)
    now = sections_of(text)
    for above in reversed(was[:index]):
        same = [s for s in now if s.heading == above.heading]
        if same:
            alike = (s for s in same if s.text.strip() == above.text.strip())
            return next(alike, same[-1]).last_line
    return now[0].last_line if heading and now[:1] and not now[0].heading else 0


def _begins(words: str, section: SectionText) -> bool:
    first = section.text.strip("\n")
    return f"{words}\n".startswith(f"{first}\n")


def follow_removed(file: MemoryFile, before: str, *, by: Actor, why: str, source: str) -> None:
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
    changes = [(entry, {"trashed_at": None}, {"trashed_at": now}, 1) for entry in entries]
    text = why or _("moved to Trash")
    Revision.record_many(changes, by=by, why=text, source=source)


def _entry(file: MemoryFile, one: Removed, now: datetime) -> FileEntry:
    return FileEntry(
        owner_id=file.owner_id,
        file=file,
        path=file.path,
        heading=list(one[0]),
        content=one[1],
        removed_in=file.version,
        source=file.source,
        trust=file.trust,
        sensitivity=file.sensitivity,
        trashed_at=now,
    )
