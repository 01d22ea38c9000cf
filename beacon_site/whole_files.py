"""A large file that is there whole or not at all, also where its writer is killed on the way."""

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

_UNFINISHED, _YOUNG = ".part", 60.0  # seconds


@contextmanager
def put_in_place(file: Path) -> Iterator[IO[bytes]]:
    """Open a new file beside `file`, which takes its place once it is whole and on the disk."""
    _clear_away(file)
    unfinished = file.with_name(f".{file.name}.{secrets.token_hex(4)}{_UNFINISHED}")
    handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            _is_held_by_us(out.fileno())
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


def _clear_away(file: Path) -> None:
    """Delete what writers of the same file left that were killed: each may be as large as a whole one."""
    for left in file.parent.glob(f".{glob.escape(file.name)}.*{_UNFINISHED}"):
        try:
            if time.time() - left.stat().st_mtime < _YOUNG:
                continue  # it may not be held yet
            handle = os.open(left, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # gone just now, or no file of ours
            continue
        try:
            if _is_held_by_us(handle):
                left.unlink(missing_ok=True)
        finally:
            os.close(handle)


def _is_held_by_us(handle: int) -> bool:
    """Hold an open file until it is closed; False if another writer does, or nobody can there."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
