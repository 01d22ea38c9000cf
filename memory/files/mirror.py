"""The copy of memory files on disk.  Until it is there nothing is taken in and nothing written."""

from __future__ import annotations

from memory.models import User


def take_in(owner: User) -> None:
    """Take in what was changed on disk; never raises, and costs next to nothing if nothing was."""


def write_out(owner_id: int, path: str) -> None:
    """Write the file as it stands now to disk; called once a change is stored for good."""
