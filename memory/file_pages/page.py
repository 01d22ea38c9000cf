"""What the pages of memory files show: the tree with its budget, and one file with its sections.

Data flow: rows without their text (what changed on disk is taken in first) -> the last change of
each, in one query -> rows of the tree.  One file: its text -> sections -> safe HTML for each, so
that a section can be led to, and locked, by its heading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.utils.safestring import SafeString
from django.utils.translation import get_language

from memory import origins
from memory.file_texts.paths import is_fact, month_of
from memory.file_texts.sections import anchor_of, sections_of
from memory.files.limits import MOST_EPISODES, MOST_FACTS
from memory.files.reading import Budget, facts_budget, files_of
from memory.models import FileDraft, MemoryFile, MirroredFile, Revision, User
from memory.texts import markdown

LONGEST_KEPT = 4_000  # characters of a section whose HTML a process keeps
MOST_KEPT = 2_000  # of such sections: a month's largest file has some 550


@dataclass(frozen=True, slots=True)
class LastChange:
    """The newest revision of a file in words: who, by way of what, why, when."""

    who: str
    revision: Revision
    via: origins.Origin | None


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file in the tree.  `problem` says why what lies on disk was not taken in."""

    file: MemoryFile
    last: LastChange | None
    problem: str
    has_draft: bool

    @property
    def url(self) -> str:
        """Return the file's page."""
        return self.file.get_absolute_url()

    @property
    def month(self) -> str:
        """Return the month of an episode file (2026-02), empty for a fact file."""
        return month_of(self.file.path)


@dataclass(frozen=True, slots=True)
class Tree:
    """All files of an owner: facts, then episodes, the newest month first."""

    facts: list[FileRow]
    episodes: list[FileRow]
    budget: Budget


def tree_of(user: User) -> Tree:
    """Return the tree: a fixed number of queries however many months there are."""
    files = files_of(user)
    last = last_changes(user, files)
    problems = dict(
        MirroredFile.objects.of(user).exclude(problem="").values_list("path", "problem")
    )
    drafts = set(FileDraft.objects.of(user).values_list("path", flat=True))
    rows = [
        FileRow(file, last.get(file.pk), problems.get(file.path, ""), file.path in drafts)
        for file in files
    ]
    facts = [row for row in rows if is_fact(row.file.path)]
    episodes = [row for row in reversed(rows) if not is_fact(row.file.path)]
    used = sum(row.file.size for row in facts)
    return Tree(facts, episodes, Budget(used, MOST_FACTS))


def last_changes(user: User, files: Sequence[MemoryFile]) -> dict[Any, LastChange]:
    """Return the newest change of each file, by the file's id."""
    revisions = (
        Revision.objects.of(user)
        .filter(record_type=MemoryFile.record_type(), record_id__in=[file.pk for file in files])
        .order_by("record_id", "-id")
        .distinct("record_id")
        .defer("before", "after")
    )
    found = list(revisions)
    named = origins.of(user, {text for one in found for text in (one.actor, one.source)})
    return {
        one.record_id: LastChange(
            named[one.actor].words if one.actor else "",
            one,
            named.get(one.source) if one.source != one.actor else None,
        )
        for one in found
    }


@dataclass(frozen=True, slots=True)
class ShownSection:
    """One section as the page shows it; `anchor` is its id there.

    It is locked by a lock of its own (`locks_itself`), or with the section that it lies in.
    """

    anchor: str
    heading: tuple[str, ...]
    html: SafeString
    is_locked: bool
    locks_itself: bool

    @property
    def title(self) -> str:
        """Return its own heading, empty above the first one."""
        return self.heading[-1] if self.heading else ""


@dataclass(frozen=True, slots=True)
class FilePage:
    """One file: its sections in order, its budget, and what is to be said of it."""

    file: MemoryFile
    sections: list[ShownSection]
    last: LastChange | None
    budget: Budget
    problem: str
    draft: FileDraft | None

    @property
    def is_fact(self) -> bool:
        """Whether the file shares the budget of facts."""
        return is_fact(self.file.path)


def page_of(user: User, file: MemoryFile) -> FilePage:
    """Return what the page of `file` shows."""
    locked = {tuple(heading) for heading in file.section_locks}
    sections = [
        ShownSection(
            anchor_of(one.heading),
            one.heading,
            _html_of(one.text),
            any(one.heading[: len(path)] == path for path in locked),
            one.heading in locked,
        )
        for one in sections_of(file.content)
    ]
    mirrored = MirroredFile.objects.of(user).filter(path=file.path).exclude(problem="").first()
    return FilePage(
        file,
        sections,
        last_changes(user, [file]).get(file.pk),
        budget_of(user, file),
        mirrored.problem if mirrored else "",
        FileDraft.objects.of(user).filter(path=file.path).first(),
    )


def _html_of(text: str) -> SafeString:
    """Return a section's text as HTML; kept, for most sections of a large file do not change."""
    if len(text) > LONGEST_KEPT:
        return markdown.by_direction(markdown.render(text))
    return _kept_html(text, get_language())


@lru_cache(maxsize=MOST_KEPT)
def _kept_html(text: str, _language: str | None) -> SafeString:
    return markdown.by_direction(markdown.render(text))


def budget_of(user: User, file: MemoryFile) -> Budget:
    """Return the budget that a file is under: of both fact files, or its own."""
    return facts_budget(user) if is_fact(file.path) else Budget(file.size, MOST_EPISODES)
