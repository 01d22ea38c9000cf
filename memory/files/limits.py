"""Size limits of memory files, and the errors of saving them, which say what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext as _

from beacon_site.text.merge import Merge
from memory.core.errors import LimitReached, MemoryRefused
from memory.core.file_format import is_fact


class NoSuchFile(MemoryRefused):
    """There is no file at this path now. The message lists the existing ones."""

    def __init__(self, path: str, there: Iterable[str]) -> None:
        told = {"path": path, "there": ", ".join(there)}
        super().__init__(_("%(path)s doesn’t exist yet. Existing files: %(there)s.") % told)
        self.path = path


class FileConflict(MemoryRefused):
    """Someone else changed the same lines after the version this write is based on.

    `base`, `mine` and `theirs` are the whole texts. `merge` holds the merged and the conflicting
    lines.
    """

    def __init__(
        self, path: str, *, version: int, base: str, mine: str, theirs: str, merge: Merge
    ) -> None:
        super().__init__(
            _(
                "%(path)s was changed by someone else after you read it and is now at version %(version)d. Nothing was saved. Read that version, add your change, and save again."
            )
            % {"path": path, "version": version}
        )
        self.path, self.version = path, version
        self.base, self.mine, self.theirs, self.merge = base, mine, theirs, merge

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

MOST_FACTS = 15_360  # both fact files together
MOST_EPISODES = 262_144  # one month's file
MOST_FILES = 200  # in one agent's folder
MOST_BYTES = 2_097_152  # of all its files together
MOST_LINE = 8_192  # one line, without its line break


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
        if size > MOST_EPISODES:
            raise _over_month(path, size)
        return
    have = size + others
    if have > MOST_FACTS:
        raise OverBudget(
            _(
                "Together, the fact files would be %(have)s bytes, %(over)s over the limit of %(most)s (%(path)s: %(size)s, the other file: %(others)s). Nothing was saved. Condense them first, then add to them."
            )
            % {
                "have": f"{have:,}",
                "over": f"{have - MOST_FACTS:,}",
                "most": f"{MOST_FACTS:,}",
                "path": path,
                "size": f"{size:,}",
                "others": f"{others:,}",
            },
            have=have,
            most=MOST_FACTS,
        )


def _over_month(path: str, size: int) -> OverBudget:
    message = _(
        "%(path)s would be %(have)s bytes, %(over)s over the limit of %(most)s. Nothing was saved. Condense older entries first, then add to it."
    ) % {
        "path": path,
        "have": f"{size:,}",
        "over": f"{size - MOST_EPISODES:,}",
        "most": f"{MOST_EPISODES:,}",
    }
    return OverBudget(message, have=size, most=MOST_EPISODES)


def check_lines(text: str) -> None:
    """Raise LimitReached if a line is too long."""
    if len(text) * 4 <= MOST_LINE:
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) * 4 > MOST_LINE and (size := size_of(line)) > MOST_LINE:
            raise LimitReached(
                _(
                    "Line %(number)s is %(have)s bytes, but a line can be at most %(most)s. Nothing was saved. Split it into several lines."
                )
                % {"number": f"{number:,}", "have": f"{size:,}", "most": f"{MOST_LINE:,}"}
            )
