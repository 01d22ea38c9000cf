"""Whose the folders below `users/` of the mirror are: told by a number in each, not by its name.

A name may be given anew.  An account that is renamed takes its folder along; one that gets the name
that another had finds that one's folder moved out of the way, and inherits no word of it; and one
that is deleted takes its copies with it.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from django.db import transaction
from django.utils.translation import gettext as _

from memory.file_texts.paths import FACTS, month_of
from memory.files import mirror_folder
from memory.files.mirror_disk import Disk
from memory.files.mirror_folder import DISK, MARK
from memory.models import Activity, MirrorFolder, User

logger = structlog.get_logger(__name__)

NOBODY = 0  # whose a folder is that bears no number of this Beacon's
MOST_LEFT = 100  # folders of one name that were moved out of the way
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def own_disk(folder: MirrorFolder, owner: User) -> Disk:
    """Return where the account's files lie, once that is sure to be its own.  Raises OSError."""
    disk = mirror_folder.disk_of(folder, owner)
    if disk.parts:
        with _users(disk.root) as users:
            _settle(users, disk.parts[-1], folder, owner)
    return disk


def forget(owner: User) -> None:
    """Delete the copies of an account that is being deleted, once it is; what else lies there stays."""
    folder = mirror_folder.opened() if mirror_folder.is_on() else None
    if folder is not None:
        disk = mirror_folder.disk_of(folder, owner)
        transaction.on_commit(partial(_removed, disk, folder, int(owner.pk)))


# --- whose it is ----------------------------------------------------------------------------------


@contextmanager
def _users(root: Path) -> Iterator[int]:
    """Open the folder of all accounts but the first."""
    with _opened(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as at:
        with suppress(FileExistsError):
            os.mkdir("users", 0o700, dir_fd=at)
        with _opened(os.open("users", _FOLDER, dir_fd=at)) as users:
            yield users


@contextmanager
def _opened(handle: int) -> Iterator[int]:
    try:
        yield handle
    finally:
        os.close(handle)


def _settle(users: int, name: str, folder: MirrorFolder, owner: User) -> None:
    """Let the folder of this name be the account's, by its number."""
    try:
        whose = _whose(users, name, folder)
    except FileNotFoundError:
        _bring(users, name, folder, owner)
        return
    if whose == NOBODY:
        _mark(users, name, folder, owner)
    elif whose != owner.pk:
        _move_away(users, name, folder)
        _bring(users, name, folder, owner)


def _whose(users: int, name: str, folder: MirrorFolder) -> int:
    """Return the number of the account whose folder it is.  Raises FileNotFoundError, OSError."""
    with _opened(os.open(name, _FOLDER, dir_fd=users)) as inside:
        try:
            handle = os.open(MARK, _READ, dir_fd=inside)
        except FileNotFoundError:
            return NOBODY
        with os.fdopen(handle, "rb") as file:
            return _number(file.read(1_000), folder)


def _number(told: bytes, folder: MirrorFolder) -> int:
    try:
        found: Any = json.loads(told)
    except ValueError:
        return NOBODY
    if not isinstance(found, dict) or found.get("beacon") != str(folder.identity):
        return NOBODY  # of a Beacon that is gone: what lies here is taken in
    account = found.get("account")
    return account if type(account) is int else NOBODY


def _bring(users: int, name: str, folder: MirrorFolder, owner: User) -> None:
    """Move the account's folder here from its former name; make it where there is none."""
    for other in os.listdir(users):
        with suppress(OSError):  # no folder, or a closed one
            if _whose(users, other, folder) == owner.pk:
                os.rename(other, name, src_dir_fd=users, dst_dir_fd=users)
                return
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=users)
    _mark(users, name, folder, owner)


def _mark(users: int, name: str, folder: MirrorFolder, owner: User) -> None:
    """Write the account's number into its folder, in one step."""
    told = {"beacon": str(folder.identity), "account": owner.pk}
    temp = f".{MARK}.{secrets.token_hex(6)}.tmp"
    with _opened(os.open(name, _FOLDER, dir_fd=users)) as inside:
        try:
            with os.fdopen(os.open(temp, _NEW, 0o600, dir_fd=inside), "w") as file:
                file.write(json.dumps(told) + "\n")
            os.rename(temp, MARK, src_dir_fd=inside, dst_dir_fd=inside)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temp, dir_fd=inside)


def _move_away(users: int, name: str, folder: MirrorFolder) -> None:
    """Give the folder of somebody who had this name another one, and tell it."""
    there = set(os.listdir(users))
    names = (f"{name}~left" + (f"-{n}" if n > 1 else "") for n in range(1, MOST_LEFT + 1))
    aside = next((one for one in names if one not in there), None)
    if aside is None:
        raise FileExistsError(f"{MOST_LEFT} folders {name}~left lie there already")
    os.rename(name, aside, src_dir_fd=users, dst_dir_fd=users)
    why = _("users/%(name)s was the folder of another account; it is users/%(aside)s now.")
    told = {"name": name, "aside": aside}
    Activity.log(folder.root, DISK, "mirror-folder-left", warning=True, why=why % told)


# --- an account goes ------------------------------------------------------------------------------


def _removed(disk: Disk, folder: MirrorFolder, number: int) -> None:
    """Delete the files that a deleted account had there; what cannot be deleted is told."""
    try:
        with _opened(os.open(disk.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as at:
            if not disk.parts:
                _empty(at)
                return
            with _opened(os.open("users", _FOLDER, dir_fd=at)) as users:
                _remove_folder(users, disk.parts[-1], folder, number)
    except FileNotFoundError:
        return
    except OSError as exc:
        logger.warning("copies of a deleted account stay", account=number, why=str(exc))
        why = _("The copies of a deleted account could not be deleted: %(why)s.")
        told = {"why": exc.strerror or exc}
        root = MirrorFolder.objects.select_related("root").get(pk=folder.pk).root
        Activity.log(root, DISK, "mirror-folder-left", warning=True, why=why % told)


def _remove_folder(users: int, name: str, folder: MirrorFolder, number: int) -> None:
    if _whose(users, name, folder) != number:
        return
    with _opened(os.open(name, _FOLDER, dir_fd=users)) as inside:
        _empty(inside)
        os.unlink(MARK, dir_fd=inside)
    with suppress(OSError):  # something of a person's own lies in it
        os.rmdir(name, dir_fd=users)


def _empty(at: int) -> None:
    """Delete memory files and refused edits from the two folders, then these if nothing else is in."""
    for folder in ("facts", "episodes"):
        with suppress(FileNotFoundError):
            with _opened(os.open(folder, _FOLDER, dir_fd=at)) as inside:
                for name in os.listdir(inside):  # noqa: PTH208 - a folder's handle
                    if _is_copy(f"{folder}/{name}"):
                        os.unlink(name, dir_fd=inside)
            with suppress(OSError):
                os.rmdir(folder, dir_fd=at)


def _is_copy(path: str) -> bool:
    """Whether Beacon wrote it: a file's copy, an edit that was refused, or one half written."""
    folder, _slash, name = path.partition("/")
    plain = name.partition(".conflict")[0]
    if name.startswith(".") and name.endswith(".tmp"):
        plain = name[1:].rpartition(".tmp")[0].rpartition(".")[0]
    return f"{folder}/{plain}" in FACTS or bool(month_of(f"{folder}/{plain}"))
