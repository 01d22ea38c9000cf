"""Atomic writes of large files."""

from __future__ import annotations

import fcntl
import glob
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

UNFINISHED = ".part"
YOUNG_SECONDS = 60.0  # a younger unfinished file may not be locked by its writer yet


@contextmanager
def atomic_write(file: Path) -> Iterator[IO[bytes]]:
    """Open a new file that replaces `file` after the block, once it is on the disk.

    If the block raises, or its process is killed, `file` keeps its content.  Only the owner can
    read the new file.  What killed writers of the same file left behind is deleted.
    """
    _delete_abandoned(file)
    unfinished = file.with_name(f".{file.name}.{secrets.token_hex(4)}{UNFINISHED}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as out:
            _lock(out.fileno())
            yield out
            out.flush()
            os.fsync(out.fileno())
        unfinished.replace(file)
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        unfinished.unlink(missing_ok=True)


def _delete_abandoned(file: Path) -> None:
    for left in file.parent.glob(f".{glob.escape(file.name)}.*{UNFINISHED}"):
        try:
            if time.time() - left.stat().st_mtime < YOUNG_SECONDS:
                continue
            descriptor = os.open(left, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # deleted in the meantime, or not a file of ours
            continue
        try:
            if _lock(descriptor):
                left.unlink(missing_ok=True)
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; False if another writer holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
