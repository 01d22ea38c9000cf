"""The mirror on disk: whether its folder can be used, whose files are where, reading and writing them.

Links are never followed: each folder on the path is opened by name, and its files are reached only
from there, so no name can lead out of the folder (R145). A stamp identifies what was read, and a
file is overwritten only if it still has that stamp.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
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
from memory.services.files.texts import MAX_EPISODES

logger = structlog.get_logger(__name__)

FOLDERS = ("facts", "episodes")
MAX_BYTES = 4 * MAX_EPISODES  # bytes read at most; no valid file is that large
MAX_COPIES = 50  # rejected edits beside one file
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD_TEMP = 60.0  # seconds after which a partly written file must be from a killed process
_TRIES = 20  # attempts at a file that keeps changing
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOENT}
_QUIET = 0.1  # seconds without changes before a file is read, in case an editor is writing it


class ConcurrentChange(Exception):
    """The file changed between reading and writing. Check it again."""


@dataclass(frozen=True, slots=True)
class DiskFile:
    """A file on disk: without a stamp if it doesn't exist, without content if it isn't readable
    text.
    """

    stamp: str = ""
    content: bytes | None = None
    is_large: bool = False

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the content, or of the stamp if it can't be read."""
        return digest_of(self.stamp.encode() if self.content is None else self.content)


@dataclass(frozen=True, slots=True)
class Disk:
    """An account's folder. `parts` lead to it from `root`.

    Paths of files begin with `prefix`, which isn't on disk.
    """

    root: Path
    parts: tuple[str, ...] = ()
    prefix: str = ""

    def stamps(self) -> dict[str, str]:
        """Return the stamp of each memory file, by path. Other files are ignored."""
        found = {}
        for folder in FOLDERS:
            try:
                with self._inside(folder) as inside:
                    for name in os.listdir(inside):  # noqa: PTH208 - a folder's handle
                        path = f"{folder}/{name}"
                        if (path in FACTS or month_of(path)) and (mark := _stamp_at(inside, name)):
                            found[path] = mark
            except FileNotFoundError:
                continue
        return found

    def read(self, path: str, *, settled: bool = False) -> DiskFile:
        """Return the file at `path`, with `settled` only once it no longer changes.

        Raises ConcurrentChange if it keeps changing, OSError.
        """
        folder, name = self._split(path)
        found = None
        for _try in range(_TRIES):
            try:
                with self._inside(folder) as inside:
                    found, age = _read(inside, name)
            except FileNotFoundError:
                return DiskFile()
            if found is not None and not (settled and 0 <= age < _QUIET):
                return found
            time.sleep(_QUIET / 2)
        if found is None:
            raise ConcurrentChange(path)
        return found

    def write(self, path: str, content: bytes, expected: str) -> tuple[str, bytes | None]:
        """Write `content` to `path` atomically, safe against power loss, and return its stamp.

        An edit that was written in the meantime is returned with it. Raises ConcurrentChange if the
        file no longer has the stamp `expected`, OSError.
        """
        folder, name = self._split(path)
        with self._inside(folder, make=True) as inside, _kept_open(inside, name) as old:
            _sweep(inside, name)
            temp = f".{name}.{secrets.token_hex(6)}.tmp"
            handle, is_swapped = os.open(temp, _NEW, 0o600, dir_fd=inside), False
            try:
                _fill(handle, content, like=_mode_at(inside, name))
                if _stamp_at(inside, name) != expected:
                    raise ConcurrentChange(path)
                is_swapped = bool(expected) and _swapped(inside, temp, name)
                if not is_swapped:
                    os.rename(temp, name, src_dir_fd=inside, dst_dir_fd=inside)
                stamp = stamp_of(os.fstat(handle))
            except BaseException:
                if not is_swapped:  # otherwise it is an editor's text
                    with suppress(FileNotFoundError):
                        os.unlink(temp, dir_fd=inside)
                raise
            finally:
                os.close(handle)
            os.fsync(inside)
            if not is_swapped:
                return stamp, _late(old, expected)
            late = _replaced(inside, temp, expected)
            os.unlink(temp, dir_fd=inside)
            return stamp, late

    def remove(self, path: str, expected: str) -> None:
        """Delete the file.  Raises ConcurrentChange, OSError."""
        folder, name = self._split(path)
        with self._inside(folder) as inside:
            if _stamp_at(inside, name) != expected:
                raise ConcurrentChange(path)
            os.unlink(name, dir_fd=inside)
            os.fsync(inside)

    def quarantine_reason(self, path: str, content: bytes | None) -> str:
        """Keep a rejected edit beside the file and return the copy's path. No copy is overwritten.

        An unreadable file is moved as it is. Bytes that are already kept are kept once.
        """
        for copy in self.copies(path):
            if content is not None and self.read(copy).content == content:
                return copy
        folder, name = self._split(path)
        with self._inside(folder) as inside:
            for number in range(1, MAX_COPIES + 1):
                copy = f"{name}.conflict" + (f".{number}" if number > 1 else "")
                with suppress(FileExistsError):
                    if content is None:
                        _move_aside(inside, name, copy)
                    else:
                        handle = os.open(copy, _NEW, 0o600, dir_fd=inside)
                        try:
                            _fill(handle, content)
                        finally:
                            os.close(handle)
                    os.fsync(inside)
                    return f"{path.rpartition('/')[0]}/{copy}"
        raise FileExistsError(f"there are already {MAX_COPIES} copies ({name}.conflict) beside it")

    def copies(self, path: str) -> list[str]:
        """Return the paths of rejected edits beside the file."""
        folder, name = self._split(path)
        try:
            with self._inside(folder) as inside:
                names = os.listdir(inside)  # noqa: PTH208 - a folder's handle
        except FileNotFoundError:
            return []
        beside = path.rpartition("/")[0]
        return [f"{beside}/{one}" for one in sorted(names) if one.startswith(f"{name}.conflict")]

    def _split(self, path: str) -> tuple[str, str]:
        folder, _slash, name = path.removeprefix(self.prefix).rpartition("/")
        return folder, name

    @contextmanager
    def _inside(self, folder: str, *, make: bool = False) -> Iterator[int]:
        """Open a folder of the account, each step by name and without following links."""
        at = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in (*self.parts, *filter(None, folder.split("/"))):
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, 0o700, dir_fd=at)
                inner = os.open(name, _FOLDER, dir_fd=at)
                os.close(at)
                at = inner
            yield at
        finally:
            os.close(at)


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of a file's content."""
    return sha256(content).hexdigest()


def stamp_of(status: os.stat_result) -> str:
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"


def _stamp_at(folder: int, name: str) -> str:
    try:
        return stamp_of(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return ""


@contextmanager
def _kept_open(folder: int, name: str) -> Iterator[int | None]:
    """Keep the file that is overwritten open, if there is one."""
    try:
        handle = os.open(name, _READ, dir_fd=folder)
    except OSError:  # nothing there, or a link
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


def _swapped(folder: int, one: str, other: str) -> bool:
    """Swap two file names atomically. Returns False if the system or disk doesn't support it.

    A plain rename would lose a file that an editor renamed there in the meantime.
    """
    exchange = _exchange()
    if exchange is None:
        return False
    names = os.fsencode(one), os.fsencode(other)
    if exchange(folder, names[0], folder, names[1], _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT:
        return False
    raise OSError(code, os.strerror(code), other)


@cache
def _exchange() -> Any:
    """Return the C library's function, on Linux or macOS."""
    library = ctypes.CDLL(None, use_errno=True)
    for name in ("renameat2", "renameatx_np"):
        if found := getattr(library, name, None):
            found.argtypes = [ctypes.c_int, ctypes.c_char_p] * 2 + [ctypes.c_uint]
            return found
    return None


def _replaced(folder: int, name: str, expected: str) -> bytes | None:
    """Return the content of the replaced file if it changed after it was last read."""
    found = None
    for _try in range(_TRIES):
        found, _age = _read(folder, name)
        if found is not None:
            break
    # The rename changed the last part of its stamp.
    if found is None or found.stamp.rpartition(":")[0] == expected.rpartition(":")[0]:
        return None
    return found.content


def _late(handle: int | None, expected: str) -> bytes | None:
    """Return the content of the old file if it was written after it was last read."""
    if handle is None:
        return None
    now = stamp_of(os.fstat(handle)).rpartition(":")[
        0
    ]  # the last link was removed, which changes the ctime
    if now == expected.rpartition(":")[0]:
        return None
    with os.fdopen(os.dup(handle), "rb") as file:
        return file.read(MAX_BYTES)


def _mode_at(folder: int, name: str) -> int | None:
    """Return the mode of the overwritten file, which is kept."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return stat.S_IMODE(status.st_mode) & 0o666 if stat.S_ISREG(status.st_mode) else None


def _read(folder: int, name: str) -> tuple[DiskFile | None, float]:
    """Return a file's content (None if it changed while reading), and its age in seconds."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode):  # a link, folder or pipe, which isn't opened
        return DiskFile(stamp_of(status)), 1.0
    handle = os.open(name, _READ, dir_fd=folder)
    try:
        before = os.fstat(handle)
        age = time.time() - before.st_mtime
        if before.st_size > MAX_BYTES:
            return DiskFile(stamp_of(before), is_large=True), age
        with os.fdopen(os.dup(handle), "rb") as file:
            content = file.read(MAX_BYTES + 1)
        if stamp_of(os.fstat(handle)) != stamp_of(before):
            return None, age
        return DiskFile(stamp_of(before), content), age
    finally:
        os.close(handle)


def _move_aside(folder: int, name: str, copy: str) -> None:
    """Move an unreadable file to a free name. Raises FileExistsError, OSError.

    The name is first taken by something of the same type, since a folder can't replace a file.
    """
    is_folder = stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    if is_folder:
        os.mkdir(copy, 0o700, dir_fd=folder)
    else:
        os.close(os.open(copy, _NEW, 0o600, dir_fd=folder))
    try:
        os.rename(name, copy, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        (os.rmdir if is_folder else os.unlink)(copy, dir_fd=folder)
        raise


def _fill(handle: int, content: bytes, like: int | None = None) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(handle, left) :]
    if like is not None:
        os.fchmod(handle, like | 0o600)
    os.fsync(handle)


def _sweep(folder: int, name: str) -> None:
    """Delete partly written files of killed processes."""
    for one in os.listdir(folder):
        if one.startswith(f".{name}.") and one.endswith(".tmp"):
            with suppress(FileNotFoundError):
                if time.time() - os.stat(one, dir_fd=folder).st_mtime > _OLD_TEMP:
                    os.unlink(one, dir_fd=folder)


# --- rejected edits ---


def folder() -> Path:
    """Return the mirror's folder, or the last one used, since `make up` sets the variable itself."""
    return Path(settings.BEACON_MIRROR_DIR or settings.DATA_DIR / "memory")


def refused_edits(root: Path) -> dict[str, Path]:
    """Return the copies of rejected edits by relative path. Links aren't followed."""
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
    """Return a folder's entries in order, or nothing if it isn't a folder or is a link."""
    if place.is_symlink():
        return []
    try:
        with os.scandir(place) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


# --- the folder ---

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


def mirror_folder() -> MirrorFolder | None:
    """Return the folder, created if it was missing, or None if it can't be used (logged once)."""
    folder = _row()
    if folder is None:
        return None
    try:
        _check(folder)
    except FolderNotUsable as exc:
        store_problem(folder, str(exc))
        return None
    except OSError as exc:
        params = {"folder": settings.BEACON_MIRROR_DIR, "why": exc.strerror or exc}
        store_problem(folder, _("%(folder)s can’t be used: %(why)s.") % params)
        return None
    if folder.problem:
        store_problem(folder, "")
    return folder


def disk_of(folder: MirrorFolder, owner: User) -> Disk:
    """Return an account's folder: the first one's at the top level, others under their names."""
    root = Path(settings.BEACON_MIRROR_DIR)
    return Disk(root) if owner.pk == folder.root_id else Disk(root, ("users", name_of(owner)))


def is_in_data_folder() -> bool:
    """Return True if the folder is inside Beacon's data folder, as it is with `make up`."""
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


def store_problem(folder: MirrorFolder, text: str) -> None:
    """Store the folder's problem, or "" for none. Activity logs when one begins and ends."""
    was, folder.problem = folder.problem, text
    count = MirrorFolder.objects.filter(pk=folder.pk).exclude(problem=text).update(problem=text)
    if count and text:
        logger.warning("mirror stopped", why=text)
        Activity.log(folder.root, DISK, "mirror-stopped", warning=True, why=text)
    elif count and was:
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
        text = mark.read_text()[:1_000]
    except FileNotFoundError:
        _make(folder, root)
        text = mark.read_text()[:1_000]
    except UnicodeDecodeError:
        text = ""
    if _identity(text) == str(folder.identity):
        if folder.place != str(root):
            MirrorFolder.objects.filter(pk=folder.pk).update(place=root)
        return
    raise FolderNotUsable(
        _(
            "The folder %(folder)s belongs to another Beacon instance, so this one doesn’t use it. Set BEACON_MIRROR_DIR to another folder. If the other instance no longer exists, delete the file %(mark)s there, and this instance will import the files."
        )
        % {"folder": root, "mark": MARK}
    )


def _identity(text: str) -> str:
    try:
        found = json.loads(text)
    except ValueError:
        return ""
    return str(found.get("beacon", "")) if isinstance(found, dict) else ""


def _holds_last_copies(folder: MirrorFolder) -> bool:
    """Return True if it contains a file as it was last mirrored, so that this is the same folder as
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
    values = {
        "beacon": str(folder.identity),
        "about": "This folder contains the memory files of one Beacon instance. Keep this file.",
    }
    try:
        with temp.open("x") as file:
            file.write(json.dumps(values) + "\n")
            file.flush()
            os.fsync(file.fileno())
        _create_marker(temp, root / MARK)
    finally:
        temp.unlink(missing_ok=True)


# --- folders of accounts ---

NOBODY = 0  # owner of a folder without an account number of this Beacon
MAX_LEFT = 100  # folders of one name that were renamed


def own_disk(folder: MirrorFolder, owner: User) -> Disk:
    """Return the account's folder, once it is certain that it belongs to it. Raises OSError."""
    disk = disk_of(folder, owner)
    if disk.parts:
        with _users(disk.root) as users:
            _settle(users, disk.parts[-1], folder, owner)
    return disk


def forget(owner: User) -> None:
    """Delete the copies of a deleted account after the commit. Other files are kept."""
    folder = mirror_folder() if is_on() else None
    if folder is not None:
        disk = disk_of(folder, owner)
        transaction.on_commit(partial(_removed, disk, folder, int(owner.pk)))


# --- owners of folders ---


@contextmanager
def _users(root: Path) -> Iterator[int]:
    """Open the folder of all accounts except the first."""
    with _closed_at_end(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as at:
        with suppress(FileExistsError):
            os.mkdir("users", 0o700, dir_fd=at)
        with _closed_at_end(os.open("users", _FOLDER, dir_fd=at)) as users:
            yield users


@contextmanager
def _closed_at_end(handle: int) -> Iterator[int]:
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
    with _closed_at_end(os.open(name, _FOLDER, dir_fd=users)) as inside:
        try:
            handle = os.open(MARK, _READ, dir_fd=inside)
        except FileNotFoundError:
            return NOBODY
        with os.fdopen(handle, "rb") as file:
            return _number(file.read(1_000), folder)


def _number(data: bytes, folder: MirrorFolder) -> int:
    try:
        found: Any = json.loads(data)
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
    values = {"beacon": str(folder.identity), "account": owner.pk}
    temp = f".{MARK}.{secrets.token_hex(6)}.tmp"
    with _closed_at_end(os.open(name, _FOLDER, dir_fd=users)) as inside:
        try:
            with os.fdopen(os.open(temp, _NEW, 0o600, dir_fd=inside), "w") as file:
                file.write(json.dumps(values) + "\n")
            os.rename(temp, MARK, src_dir_fd=inside, dst_dir_fd=inside)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temp, dir_fd=inside)


def _move_away(users: int, name: str, folder: MirrorFolder) -> None:
    """Rename the folder of another account that had this name, and log it."""
    there = set(os.listdir(users))
    names = (f"{name}~left" + (f"-{n}" if n > 1 else "") for n in range(1, MAX_LEFT + 1))
    aside = next((one for one in names if one not in there), None)
    if aside is None:
        raise FileExistsError(f"there are already {MAX_LEFT} folders {name}~left")
    os.rename(name, aside, src_dir_fd=users, dst_dir_fd=users)
    why = _("users/%(name)s belonged to another account, so it was renamed to users/%(aside)s.")
    params = {"name": name, "aside": aside}
    Activity.log(folder.root, DISK, "mirror-folder-removed", warning=True, why=why % params)


# --- deleted accounts ---


def _removed(disk: Disk, folder: MirrorFolder, number: int) -> None:
    """Delete a deleted account's files. Those that can't be deleted are logged."""
    try:
        with _closed_at_end(os.open(disk.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as at:
            if not disk.parts:
                _empty(at)
                return
            with _closed_at_end(os.open("users", _FOLDER, dir_fd=at)) as users:
                _remove_folder(users, disk.parts[-1], folder, number)
    except FileNotFoundError:
        return
    except OSError as exc:
        logger.warning("copies of a deleted account not deleted", account=number, why=str(exc))
        why = _("The memory files of a deleted account couldn’t be deleted from disk: %(why)s.")
        params = {"why": exc.strerror or exc}
        root = MirrorFolder.objects.select_related("root").get(pk=folder.pk).root
        Activity.log(root, DISK, "mirror-folder-removed", warning=True, why=why % params)


def _remove_folder(users: int, name: str, folder: MirrorFolder, number: int) -> None:
    if _owner_of(users, name, folder) != number:
        return
    with _closed_at_end(os.open(name, _FOLDER, dir_fd=users)) as inside:
        _empty(inside)
        os.unlink(MARK, dir_fd=inside)
    with suppress(OSError):  # it contains a person's own files
        os.rmdir(name, dir_fd=users)


def _empty(at: int) -> None:
    """Delete memory files and rejected edits from the two folders, then the folders if empty."""
    for folder in ("facts", "episodes"):
        with suppress(FileNotFoundError):
            with _closed_at_end(os.open(folder, _FOLDER, dir_fd=at)) as inside:
                for name in os.listdir(inside):  # noqa: PTH208 - a folder's handle
                    if _is_copy(f"{folder}/{name}"):
                        os.unlink(name, dir_fd=inside)
            with suppress(OSError):
                os.rmdir(folder, dir_fd=at)


def _is_copy(path: str) -> bool:
    """Return True if Beacon wrote it: a copy, a rejected edit or a partly written file."""
    folder, _slash, name = path.partition("/")
    plain = name.partition(".conflict")[0]
    if name.startswith(".") and name.endswith(".tmp"):
        plain = name[1:].rpartition(".tmp")[0].rpartition(".")[0]
    return f"{folder}/{plain}" in FACTS or bool(month_of(f"{folder}/{plain}"))
