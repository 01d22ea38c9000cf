"""Edits on disk that could not be taken in: their copies lie beside the files and nowhere else.

All other files of the mirror stand in the database; these are a person's words, too, so a backup
takes them along.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

FOLDERS = ("facts", "episodes")


def folder() -> Path:
    """Return where the mirror lies, or lay when Beacon ran last: the setting is `make up`'s own."""
    return Path(settings.BEACON_MIRROR_DIR or settings.DATA_DIR / "memory")


def refused_edits(root: Path) -> dict[str, Path]:
    """Return the copies of refused edits, by their place below the folder; links are not followed."""
    return {str(path.relative_to(root)): path for path in _copies(root)}


def _copies(root: Path) -> Iterator[Path]:
    accounts = [entry.path for entry in _folders(root / "users")]
    for place in (str(root), *accounts):
        for name in FOLDERS:
            for entry in _entries(Path(place) / name):
                if ".conflict" in entry.name and entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)


def _folders(place: Path) -> list[os.DirEntry[str]]:
    return [entry for entry in _entries(place) if entry.is_dir(follow_symlinks=False)]


def _entries(place: Path) -> list[os.DirEntry[str]]:
    """Return what lies in a folder, in order; nothing where it is none, or a link to one."""
    if place.is_symlink():
        return []
    try:
        with os.scandir(place) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
