"""The mirror's folder: whether it can be used, and which account's files are where in it."""

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
from django.conf import settings
from django.db import transaction

from beacon_site.text.messages import gettext as _
from memory.models import Activity, MirroredFile, MirrorFolder, User
from memory.models.actors import Actor
from memory.models.file_format import FACTS, month_of
from memory.models.files import ONLY
from memory.services.files.mirror_disk import FOLDERS, Disk, stamp_of

logger = structlog.get_logger(__name__)

DISK = Actor("disk")  # people who edit the files there, who have access to this machine
MARK = ".beacon"


class FolderNotUsable(Exception):
    """The folder can't be read or written. The message says why."""


def is_on() -> bool:
    return bool(settings.BEACON_MIRROR_DIR)


def problems() -> tuple[str, str]:
    """Return why nothing is mirrored, and why Git has no commits, or "" if there is no problem."""
    found = MirrorFolder.objects.filter(pk=ONLY).first() if is_on() else None
    return (found.problem, found.git_problem) if found else ("", "")


def opened() -> MirrorFolder | None:
    """Return the folder, created if it was missing, or None if it can't be used (logged once)."""
    folder = _row()
    if folder is None:
        return None
    try:
        _check(folder)
    except FolderNotUsable as exc:
        tell(folder, str(exc))
        return None
    except OSError as exc:
        told = {"folder": settings.BEACON_MIRROR_DIR, "why": exc.strerror or exc}
        tell(folder, _("%(folder)s can’t be used: %(why)s.") % told)
        return None
    if folder.problem:
        tell(folder, "")
    return folder


def disk_of(folder: MirrorFolder, owner: User) -> Disk:
    """Return an account's folder: the first one's at the top level, others under their names."""
    root = Path(settings.BEACON_MIRROR_DIR)
    return Disk(root) if owner.pk == folder.root_id else Disk(root, ("users", name_of(owner)))


def is_in_data_folder() -> bool:
    """Whether the folder is inside Beacon's data folder, as it is with `make up`."""
    return Path(settings.BEACON_MIRROR_DIR).is_relative_to(settings.DATA_DIR)


def fingerprint() -> int:
    """Return a number that changes with the folder's memory files, for this process."""
    root = Path(settings.BEACON_MIRROR_DIR)
    homes = [root, *(Path(home) for home in _in(root / "users"))]
    seen = [item for home in homes for name in FOLDERS for item in _in(home / name).items()]
    return hash(frozenset([*seen, *(one for one in _in(root).items() if one[0].endswith(MARK))]))


def _in(folder: Path) -> dict[str, str]:
    """Return the path and stamp of everything in a folder, which may be missing or unreadable."""
    try:
        with os.scandir(folder) as found:
            return {one.path: stamp_of(one.stat(follow_symlinks=False)) for one in found}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as exc:
        return {str(folder): f"error {exc.errno}"}


def name_of(owner: User) -> str:
    """Return the name of an account's folder.

    On file systems that ignore case, Alice and alice must not share one. A name can be `..`.
    """
    name = owner.get_username()
    plain = name.isascii() and name == name.lower() and not name.startswith(".")
    return name if plain else f"{name.lstrip('.')[:40]}~{owner.pk}"


def tell(folder: MirrorFolder, said: str) -> None:
    """Store the folder's problem, or "" for none. Activity logs when one begins and ends."""
    was, folder.problem = folder.problem, said
    told = MirrorFolder.objects.filter(pk=folder.pk).exclude(problem=said).update(problem=said)
    if told and said:
        logger.warning("mirror stopped", why=said)
        Activity.log(folder.root, DISK, "mirror-stopped", warning=True, why=said)
    elif told and was:
        Activity.log(folder.root, DISK, "mirror-resumed", label=was)


def _row() -> MirrorFolder | None:
    """Return the folder's row, or None before there is an account."""
    folder = MirrorFolder.objects.select_related("root").filter(pk=ONLY).first()
    if folder is None and (first := User.objects.order_by("pk").first()):
        folder, _made = MirrorFolder.objects.get_or_create(pk=ONLY, defaults={"root": first})
    return folder


def _check(folder: MirrorFolder) -> None:
    """Raise FolderNotUsable if the folder belongs to another Beacon. Claim it if it belongs to none."""
    root = Path(settings.BEACON_MIRROR_DIR)
    mark = root / MARK
    try:
        told = mark.read_text()[:1_000]
    except FileNotFoundError:
        _make(folder, root)
        told = mark.read_text()[:1_000]
    except UnicodeDecodeError:
        told = ""
    if _identity(told) == str(folder.identity):
        if folder.place != str(root):
            MirrorFolder.objects.filter(pk=folder.pk).update(place=root)
        return
    raise FolderNotUsable(
        _(
            "The folder %(folder)s belongs to another Beacon instance, so this one doesn’t use it. Set BEACON_MIRROR_DIR to another folder. If the other instance no longer exists, delete the file %(mark)s there, and this one will import the files."
        )
        % {"folder": root, "mark": MARK}
    )


def _identity(told: str) -> str:
    try:
        found = json.loads(told)
    except ValueError:
        return ""
    return str(found.get("beacon", "")) if isinstance(found, dict) else ""


def _holds_last_copies(folder: MirrorFolder) -> bool:
    """Whether it contains a file as it was last mirrored, so that this is the same folder as
    before.
    """
    rows = MirroredFile.objects.of_mirror().exclude(stamp="").select_related("owner")
    return any(
        disk_of(folder, row.owner).stamps().get(row.path) == row.stamp for row in rows.iterator()
    )


def _create_marker(temp: Path, mark: Path) -> None:
    """Write the marker file, unless another Beacon did so at the same moment."""
    try:
        os.link(temp, mark)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        temp.rename(mark)


def _make(folder: MirrorFolder, root: Path) -> None:
    """Create the folder, or claim an existing one and import its files."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    is_bare = not any((root / name).exists() for name in ("facts", "episodes", "users"))
    is_other = folder.place != str(root) or not (is_bare or _holds_last_copies(folder))
    rows = MirroredFile.objects.of_mirror().exclude(digest="")
    # No file here is the last mirrored one, so no edit can be based on that.
    if (is_bare or is_other) and rows.update(digest="", stamp="", version=0) and not is_other:
        why = _("The folder %(folder)s was missing or empty, so Beacon wrote all files again.")
        why %= {"folder": root}
        Activity.log(folder.root, DISK, "mirror-renewed", warning=True, why=why)
    temp = root / f"{MARK}.{secrets.token_hex(6)}.tmp"
    told = {
        "beacon": str(folder.identity),
        "about": "This folder contains the memory files of one Beacon instance. Keep this file.",
    }
    try:
        with temp.open("x") as file:
            file.write(json.dumps(told) + "\n")
            file.flush()
            os.fsync(file.fileno())
        _create_marker(temp, root / MARK)
    finally:
        temp.unlink(missing_ok=True)


# --- folders of accounts ---

NOBODY = 0  # owner of a folder without an account number of this Beacon
MOST_LEFT = 100  # folders of one name that were renamed
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def own_disk(folder: MirrorFolder, owner: User) -> Disk:
    """Return the account's folder, once it is certain that it belongs to it. Raises OSError."""
    disk = disk_of(folder, owner)
    if disk.parts:
        with _users(disk.root) as users:
            _settle(users, disk.parts[-1], folder, owner)
    return disk


def forget(owner: User) -> None:
    """Delete the copies of a deleted account after the commit. Other files are kept."""
    folder = opened() if is_on() else None
    if folder is not None:
        disk = disk_of(folder, owner)
        transaction.on_commit(partial(_removed, disk, folder, int(owner.pk)))


# --- owners of folders ---


@contextmanager
def _users(root: Path) -> Iterator[int]:
    """Open the folder of all accounts except the first."""
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
    """Assign the folder of this name to the account, by its number."""
    try:
        whose = _owner_of(users, name, folder)
    except FileNotFoundError:
        _move_here(users, name, folder, owner)
        return
    if whose == NOBODY:
        _mark(users, name, folder, owner)
    elif whose != owner.pk:
        _move_away(users, name, folder)
        _move_here(users, name, folder, owner)


def _owner_of(users: int, name: str, folder: MirrorFolder) -> int:
    """Return the number of the account that owns the folder. Raises FileNotFoundError, OSError."""
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
        return NOBODY  # from a Beacon that no longer exists: its files are imported
    account = found.get("account")
    return account if type(account) is int else NOBODY


def _move_here(users: int, name: str, folder: MirrorFolder, owner: User) -> None:
    """Move the account's folder from its former name, or create it."""
    for other in os.listdir(users):
        with suppress(OSError):  # not a folder, or not readable
            if _owner_of(users, other, folder) == owner.pk:
                os.rename(other, name, src_dir_fd=users, dst_dir_fd=users)
                return
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=users)
    _mark(users, name, folder, owner)


def _mark(users: int, name: str, folder: MirrorFolder, owner: User) -> None:
    """Write the account's number to its folder, atomically."""
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
    """Rename the folder of another account that had this name, and log it."""
    there = set(os.listdir(users))
    names = (f"{name}~left" + (f"-{n}" if n > 1 else "") for n in range(1, MOST_LEFT + 1))
    aside = next((one for one in names if one not in there), None)
    if aside is None:
        raise FileExistsError(f"there are already {MOST_LEFT} folders {name}~left")
    os.rename(name, aside, src_dir_fd=users, dst_dir_fd=users)
    why = _("users/%(name)s belonged to another account, so it was renamed to users/%(aside)s.")
    told = {"name": name, "aside": aside}
    Activity.log(folder.root, DISK, "mirror-folder-left", warning=True, why=why % told)


# --- deleted accounts ---


def _removed(disk: Disk, folder: MirrorFolder, number: int) -> None:
    """Delete a deleted account's files. Those that can't be deleted are logged."""
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
        logger.warning("copies of a deleted account not deleted", account=number, why=str(exc))
        why = _("The memory files of a deleted account couldn’t be deleted from disk: %(why)s.")
        told = {"why": exc.strerror or exc}
        root = MirrorFolder.objects.select_related("root").get(pk=folder.pk).root
        Activity.log(root, DISK, "mirror-folder-left", warning=True, why=why % told)


def _remove_folder(users: int, name: str, folder: MirrorFolder, number: int) -> None:
    if _owner_of(users, name, folder) != number:
        return
    with _opened(os.open(name, _FOLDER, dir_fd=users)) as inside:
        _empty(inside)
        os.unlink(MARK, dir_fd=inside)
    with suppress(OSError):  # it contains a person's own files
        os.rmdir(name, dir_fd=users)


def _empty(at: int) -> None:
    """Delete memory files and rejected edits from the two folders, then the folders if empty."""
    for folder in ("facts", "episodes"):
        with suppress(FileNotFoundError):
            with _opened(os.open(folder, _FOLDER, dir_fd=at)) as inside:
                for name in os.listdir(inside):  # noqa: PTH208 - a folder's handle
                    if _is_copy(f"{folder}/{name}"):
                        os.unlink(name, dir_fd=inside)
            with suppress(OSError):
                os.rmdir(folder, dir_fd=at)


def _is_copy(path: str) -> bool:
    """Whether Beacon wrote it: a copy, a rejected edit or a partly written file."""
    folder, _slash, name = path.partition("/")
    plain = name.partition(".conflict")[0]
    if name.startswith(".") and name.endswith(".tmp"):
        plain = name[1:].rpartition(".tmp")[0].rpartition(".")[0]
    return f"{folder}/{plain}" in FACTS or bool(month_of(f"{folder}/{plain}"))
