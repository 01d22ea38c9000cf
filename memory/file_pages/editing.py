"""Editing a memory file by hand: the editor's text, its size, and merging two edits.

Data flow: the current file, or a draft -> form -> `memory.files.services.save_file` with the version
that was seen -> stored, or a `FileConflict` -> the merge screen, whose form has the newer version ->
saved, or another conflict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from django.utils.safestring import SafeString

from memory.actors import Actor
from memory.file_texts.entries import entries_of
from memory.file_texts.paths import FACTS, is_fact, path_of_month
from memory.file_texts.sections import sections_of
from memory.files import section_restore
from memory.files.errors import FileConflict
from memory.files.limits import MOST_EPISODES, MOST_FACTS, OverBudget, size_of
from memory.files.reading import Budget, NoSuchFile, read_file
from memory.files.services import Saved, append_to, cleaned
from memory.files.three_way_merge import content_at, put_together
from memory.models import FileEntry, MemoryFile, User
from memory.records import history as record_history
from memory.texts import diff as text_diff
from memory.texts import markdown
from memory.texts import merge as text_merge
from memory.texts.text import one_line

MOST_ROWS = 400  # of a diff on a page


def standing(owner: User, path: str) -> MemoryFile:
    """Return the file at `path`, or an unsaved one of version 0."""
    try:
        file = read_file(owner, path)
    except NoSuchFile:
        return MemoryFile(owner=owner, path=path, version=0)
    file.owner = owner
    return file


@dataclass(frozen=True, slots=True)
class Meter:
    """The size of a text, and the other sizes in the same budget.

    `added` bytes come from the save itself: a summary line, or what others wrote since.
    """

    size: int
    added: int
    others: int
    stored: int
    budget: Budget

    @property
    def change(self) -> int:
        """Return by how many bytes the file would grow."""
        return self.size - self.stored

    @property
    def over(self) -> int:
        """Return how many bytes are too many."""
        return max(0, self.budget.used - self.budget.most)


def meter_of(file: MemoryFile, text: str, refused: OverBudget | None = None) -> Meter:
    """Return the size of `text` in `file`'s place; for a refused save, the size it would have had."""
    typed, others = size_of(cleaned(text).text), 0
    if is_fact(file.path):
        rows = MemoryFile.objects.of(file.owner).live().filter(path__in=FACTS)
        others = sum(rows.exclude(path=file.path).values_list("size", flat=True))
    most = MOST_FACTS if is_fact(file.path) else MOST_EPISODES
    size = typed if refused is None else refused.have - others
    return Meter(size, size - typed, others, file.size, Budget(size + others, most))


@dataclass(frozen=True, slots=True)
class Preview:
    """A preview of a text, with its problems and its diff."""

    sections: list[SafeString]
    problems: tuple[str, ...]
    rows: list[text_diff.Row]
    rows_left: int


def preview_of(file: MemoryFile, text: str) -> Preview:
    """Return the preview of a text before it is saved."""
    text = cleaned(text).text
    problems = () if is_fact(file.path) else (p for one in entries_of(text) for p in one.problems)
    rows = [] if text == file.content else text_diff.folded(text_diff.diff(file.content, text))
    return Preview(
        [markdown.by_direction(markdown.render(one.text)) for one in sections_of(text)],
        tuple(problems)[:10],
        rows[:MOST_ROWS],
        len(rows[MOST_ROWS:]),
    )


@dataclass(frozen=True, slots=True)
class Clash:
    """What the merge screen shows; `number, hunk, chosen` for each place that both changed."""

    writers: str
    mine: str
    base_version: int
    hunks: list[tuple[int, text_merge.Part, str]]
    text: str
    is_first: bool = True
    others: Sequence[tuple[str, str]] = ()


def clash_of(file: MemoryFile, conflict: FileConflict, seen: int) -> Clash:
    """Return the merge screen of a refused save."""
    later = record_history.revisions_of(file).filter(version__gt=seen).defer("before", "after")
    names = dict.fromkeys(record_history.who(file.owner, one.actor) for one in later[:10])
    merge = conflict.merge
    return Clash(", ".join(names), conflict.mine, seen, hunks_of(merge, {}), merge.text())


def composed(
    file: MemoryFile, mine: str, *, seen: int, based: int, choices: Mapping[str, Any]
) -> Clash:
    """Return the merge screen with the sides chosen so far."""
    mine = cleaned(mine).text
    base, theirs = (content_at(file, version) or "" for version in (seen, based))
    merge = put_together(base, mine, theirs)
    chosen = {n: str(choices.get(f"choice-{n}", "")) for n in range(len(merge.conflicts))}
    return Clash("", mine, seen, hunks_of(merge, chosen), merge.text(chosen), is_first=False)


def entry_of(file: MemoryFile, key: str) -> FileEntry | None:
    """Return the section in the trash that a URL names, if it belongs to this file."""
    try:
        pk = UUID(key)
    except ValueError:
        return None
    found = FileEntry.objects.of(file.owner).in_trash().filter(pk=pk, path=file.path).first()
    if found is not None:
        found.owner = file.owner
    return found if file.version else None


def entry_clash(entry: FileEntry, file: MemoryFile) -> Clash:
    """Return the merge screen of a section restored from the trash; it begins with both texts."""
    back = section_restore.returning(entry, file)
    merge = put_together(back.base, back.text, str(file.content))
    both = dict.fromkeys(range(len(merge.conflicts)), "both")
    hunks = hunks_of(merge, both)
    return Clash("", back.text, back.seen, hunks, merge.text(both), is_first=False)


def hunks_of(
    merge: text_merge.Merge, chosen: Mapping[int, str]
) -> list[tuple[int, text_merge.Part, str]]:
    """Return each place that both changed, with its number and the chosen side."""
    return [(n, part, chosen.get(n, "mine")) for n, part in enumerate(merge.conflicts)]


def write_episode(owner: User, fields: Mapping[str, Any], *, by: Actor) -> Saved:
    """Append an entry to its month's file in seed 003's format, once if its form is sent twice.

    Raises what `append_to` raises.
    """
    day: date = fields["date"]
    lines = [f"## {one_line(fields['title'])}", f"- Summary: {one_line(fields['summary'])}"]
    lines.append(f"- Date: {day.isoformat()}")
    for name in ("task", "findings", "decision", "lesson"):
        if said := fields.get(name, ""):
            first, *more = [line.strip() for line in str(said).splitlines() if line.strip()]
            lines += [f"- {name.capitalize()}: {first}", *(f"  {line}" for line in more)]
    return append_to(owner, path_of_month(day), "\n".join(lines), by=by, once=True)
