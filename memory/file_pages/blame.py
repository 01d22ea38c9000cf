"""Blame of a memory file: who wrote each line, when, why and in which run.

Data flow: the file that stands, or one of its older versions -> lines with the version each is
from -> runs of lines that stand together -> the changes that made them, in one query.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from memory import origins
from memory.file_pages.history import named_of, via_of
from memory.file_texts.summaries import summary_place
from memory.files.blame import BlameLine, Runs, lines_blamed
from memory.models import MemoryFile, Revision
from memory.records import history as record_history

PAGE = 1_000  # lines of a page


@dataclass(frozen=True, slots=True)
class Group:
    """Lines that stand together and are from one version, with the change that made them.

    `revision` is None where the change is not known any more.  `is_generated` marks the summary
    line that Beacon generated during a save, whoever saved.
    """

    version: int
    lines: list[BlameLine]
    revision: Revision | None
    who: str
    via: origins.Origin | None
    is_generated: bool = False

    @property
    def before(self) -> int:
        """Return the version before the change, 0 if there was none."""
        return self.version - 1

    @property
    def is_persons(self) -> bool:
        """Whether a person wrote the lines."""
        if self.is_generated:
            return False
        return self.revision is not None and self.revision.actor.startswith("human")


@dataclass(frozen=True, slots=True)
class BlamePage:
    """A part of a file's lines in groups; `version` is that which is looked at."""

    version: int
    groups: list[Group]
    first: int
    last: int
    count: int

    @property
    def earlier(self) -> int:
        """Return a line of the part before, 0 if there is none."""
        return max(1, self.first - PAGE) if self.first > 1 else 0

    @property
    def later(self) -> int:
        """Return a line of the next part, 0 if there is none."""
        return self.last + 1 if self.last < self.count else 0


@dataclass(slots=True)
class _Version:
    """An older version of a file's text with the blame that was kept with it."""

    content: str
    blame: Runs
    version: int


def blame_of(file: MemoryFile, *, version: int = 0, line: int = 1) -> BlamePage:
    """Return the part of the file that holds `line`, in `version` (0 or none such: the newest)."""
    looked_at = _older(file, version) if 0 < version < file.version else None
    lines = lines_blamed(looked_at or file)
    first = (min(max(line, 1), max(1, len(lines))) - 1) // PAGE * PAGE
    shown = lines[first : first + PAGE]
    at = looked_at.version if looked_at else file.version
    groups = _groups(file, shown, _generated_line(file, looked_at or file))
    return BlamePage(at, groups, first + 1, first + len(shown), len(lines))


def _older(file: MemoryFile, version: int) -> _Version | None:
    """Return the file's text as it was, from the last change of the text up to `version`."""
    told = record_history.revisions_of(file).filter(
        version__lte=version, after__has_keys=["content", "blame"]
    )
    found = told.values_list("after__content", "after__blame").first()
    return _Version(found[0], found[1], version) if found else None


def _generated_line(file: MemoryFile, looked_at: MemoryFile | _Version) -> int:
    """Return the number of the summary line if Beacon generated it, else 0."""
    if file.summary_by_at(looked_at.version) != MemoryFile.SummaryBy.BEACON:
        return 0
    place = summary_place(looked_at.content)
    return 0 if place is None else place + 1


def _groups(file: MemoryFile, lines: list[BlameLine], generated: int) -> list[Group]:
    versions = {one.version for one in lines}
    revisions = {
        one.version: one
        for one in record_history.revisions_of(file)
        .filter(version__in=versions)
        .defer("before", "after")
    }
    named = named_of(file, revisions.values())
    groups = []
    keyed = groupby(lines, key=lambda one: (one.version, one.number == generated))
    for (version, is_generated), together in keyed:
        made = revisions.get(version)
        who = named[made.actor].words if made and made.actor else ""
        via = via_of(made, named) if made else None
        groups.append(Group(version, list(together), made, who, via, is_generated))
    return groups
