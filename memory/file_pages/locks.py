"""Locks of a memory file: what agents may do with all of it, and which sections are a person's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.errors import InvalidValue
from memory.file_texts.sections import anchor_of, sections_of
from memory.files.services import lock_section
from memory.models import MemoryFile

PAGE = 200  # sections of a page
Heading = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One section: `under` names the locked section that it lies in, if it does."""

    anchor: str
    heading: Heading
    first_line: int
    until: int
    is_locked: bool
    under: str

    @property
    def title(self) -> str:
        """Return its own heading."""
        return self.heading[-1]

    @property
    def depth(self) -> int:
        """Return how deep it lies, 1 to 4, by which a list indents it."""
        return min(len(self.heading), 4)


@dataclass(frozen=True, slots=True)
class Rows:
    """A part of a file's sections; `later` is the place of the next part, 0 if there is none."""

    rows: list[Row]
    count: int
    locked: int
    begin: int

    @property
    def later(self) -> int:
        """Return where the next part begins, 0 if this is the last."""
        end = self.begin + len(self.rows)
        return end if end < self.count else 0


def sections_to_lock(file: MemoryFile, *, begin: int = 0) -> Rows:
    """Return the file's sections that have a heading, each path of headings once."""
    locked = {tuple(path) for path in file.section_locks}
    found: dict[Heading, Row] = {}
    for one in sections_of(file.content):
        if one.title and one.heading not in found:
            found[one.heading] = Row(
                anchor_of(one.heading),
                one.heading,
                one.first_line,
                one.until,
                one.heading in locked,
                _above(one.heading, locked),
            )
    rows = list(found.values())
    begin = begin if begin < len(rows) else 0
    return Rows(rows[begin : begin + PAGE], len(rows), len(locked), begin)


def _above(heading: Sequence[str], locked: set[Heading]) -> str:
    paths = (tuple(heading[:depth]) for depth in range(1, len(heading)))
    return next((path[-1] for path in paths if path in locked), "")


def set_section(file: MemoryFile, anchor: str, *, by: Actor, locked: bool) -> str:
    """Lock or unlock the section that stands under `anchor`; return its heading.

    Raises InvalidValue where there is no such section any more, and what `lock_section` raises.
    """
    known = [one.heading for one in sections_of(file.content) if one.title]
    known += [tuple(path) for path in file.section_locks]
    heading = next((path for path in known if anchor_of(path) == anchor), None)
    if heading is None:
        raise InvalidValue(
            _("%(path)s has no such section any more: the file was changed meanwhile. Look again.")
            % {"path": file.path}
        )
    lock_section(file, heading, by=by, locked=locked)
    return " › ".join(heading)
