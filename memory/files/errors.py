"""Errors of memory files; each message says what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext as _

from memory.errors import MemoryRefused
from memory.texts.merge import Merge


class NoSuchFile(MemoryRefused):
    """There is no file at this path now; the message names those that there are."""

    def __init__(self, path: str, there: Iterable[str]) -> None:
        told = {"path": path, "there": ", ".join(there)}
        super().__init__(_("There is no %(path)s yet. There are: %(there)s.") % told)
        self.path = path


class FileConflict(MemoryRefused):
    """Somebody else changed the same lines since the version that this write was based on.

    `base`, `mine` and `theirs` are the whole texts; `merge` holds what joins and what does not.
    """

    def __init__(
        self, path: str, *, version: int, base: str, mine: str, theirs: str, merge: Merge
    ) -> None:
        super().__init__(
            _(
                "%(path)s was changed by somebody else since you read it, and is at version "
                "%(version)d now. Nothing was saved: read that version, put your change into it, "
                "and save again."
            )
            % {"path": path, "version": version}
        )
        self.path, self.version = path, version
        self.base, self.mine, self.theirs, self.merge = base, mine, theirs, merge

    def as_json(self) -> dict[str, Any]:
        """Return what a program is told: the conflict with the text as it stands."""
        return {
            "error": "conflict",
            "path": self.path,
            "version": self.version,
            "current": self.theirs,
            "message": str(self),
        }
