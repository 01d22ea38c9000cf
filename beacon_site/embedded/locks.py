"""Locks between processes on files of the data folder.

POSIX record locks, because they end with the process that took them and are not inherited by
its children: a runner killed with -9 leaves no lock behind although its children live on.
Their price is that closing any descriptor of the file drops them, so each file is opened once
per process and stays open.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_open: dict[Path, int] = {}


def descriptor(path: Path) -> int:
    """Open the lock file, once per process; the lock then works even if the folder is removed."""
    if path not in _open:
        _open[path] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return _open[path]


def take(path: Path, *, shared: bool = False, wait: bool = True) -> bool:
    """Lock `path` for this process; with `wait=False` return whether it could be had at once."""
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.lockf(descriptor(path), how if wait else how | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def release(path: Path) -> None:
    """Give the lock on `path` back."""
    fcntl.lockf(descriptor(path), fcntl.LOCK_UN)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold `path` alone for the length of the block."""
    take(path)
    try:
        yield
    finally:
        release(path)
