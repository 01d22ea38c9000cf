"""Untrusted zip files: checked before they are read, line by line.

Nothing is ever unpacked to disk, so names can't escape a folder.  A zip is refused if it would take
unlimited memory or time, or isn't what it claims to be.
"""

from __future__ import annotations

import errno
import lzma
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import grouped
from memory.accounts.archive.kinds import MAX_LINE_LENGTH
from memory.models.errors import MemoryRefused

MAX_FILES = 20_000
MAX_BYTES = 2 * 1024**3  # of all files together, unpacked
MAX_TIMES = 200  # maximum ratio of unpacked to packed size: text has 10, a bomb 1,000
MAX_UPLOAD_BYTES = 512 * 1024**2
_MAX_DIRECTORY_BYTES = 8 * 1024**2  # bytes of a zip's file list, far more than 20,000 files need
_TINY = 1024**2  # a smaller file isn't a bomb, whatever its ratio
_END = b"PK\x05\x06"
_DRIVE = re.compile(r"^[A-Za-z]:")
# What damaged bytes raise: each compression method has its own error.
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, EOFError, struct.error,
    UnicodeDecodeError,  # a name with the UTF-8 flag
)  # fmt: skip


class ImportRejected(MemoryRefused):
    """A file can't be imported; the message says why.  Nothing was stored."""


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip.  Raises ImportRejected if it is damaged or too large."""
    _check_directory(path)
    try:
        with zipfile.ZipFile(path) as found:
            _check(found, path.stat().st_size)
            yield found
    except _DAMAGE as exc:
        raise ImportRejected(_("The zip file is damaged: %(why)s.") % {"why": exc}) from exc
    except OSError as exc:  # an offset before the start of the file
        if exc.errno != errno.EINVAL:
            raise
        raise ImportRejected(
            _("The zip file is damaged: %(why)s.") % {"why": exc.strerror}
        ) from exc
    except RuntimeError as exc:  # what zipfile raises for a password
        if "password" not in str(exc):
            raise
        raise ImportRejected(
            _("The zip file is password-protected. Create one without a password and try again.")
        ) from exc


def check_plain(path: Path) -> None:
    """Refuse anything but a regular file: a pipe or a device may never end.  Raises ImportRejected, OSError."""
    if not stat.S_ISREG(path.stat().st_mode):
        params = {"name": path.name[:200]}
        raise ImportRejected(
            _("“%(name)s” isn’t a regular file. Choose a file or a folder.") % params
        )


def _check_directory(path: Path) -> None:
    """Refuse a zip that lists too many files, before the list is read into memory."""
    check_plain(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - 65_557))
        tail = file.read()
    # At the very end, or before a comment, as in zipfile.
    at = len(tail) - 22 if tail[-22:-18] == _END and tail[-2:] == b"\0\0" else tail.rfind(_END)
    if at < 0 or len(tail) < at + 22:
        raise ImportRejected(_("This isn’t a zip file, or it’s incomplete."))
    count, length = struct.unpack("<HI", tail[at + 10 : at + 16])
    if count > MAX_FILES or length > _MAX_DIRECTORY_BYTES:
        raise ImportRejected(_too_many(count if count < 0xFFFF else None))


def _too_many(count: int | None) -> str:
    have = grouped(count) if count is not None else _("more than 65,000")
    return _(
        "The zip file contains %(have)s files, but the limit is %(most)s. Import it in parts."
    ) % {"have": have, "most": grouped(MAX_FILES)}


def _check(found: zipfile.ZipFile, size: int) -> None:
    infos = found.infolist()
    if len(infos) > MAX_FILES:
        raise ImportRejected(_too_many(len(infos)))
    unpacked = sum(info.file_size for info in infos)
    packed = sum(info.compress_size for info in infos)
    if unpacked > MAX_BYTES or (unpacked > _TINY and unpacked > MAX_TIMES * max(packed, 1)):
        raise ImportRejected(
            _(
                "The zip file would take up %(have)s MiB when unpacked. That’s over the limit of %(most)s MiB, or far too much for a zip file of this size. Nothing was unpacked."
            )
            % {"have": grouped(unpacked // 1024**2), "most": grouped(MAX_BYTES // 1024**2)}
        )
    if packed > size:
        raise ImportRejected(
            _("The parts of the zip file overlap, as in a zip bomb. Nothing was unpacked.")
        )
    names = [info.filename for info in infos]
    if len(set(names)) < len(names):
        raise ImportRejected(_("The zip file contains two files with the same name."))
    if bad := [name for name in names if is_unsafe_path(name)]:
        raise ImportRejected(
            _("The zip file contains “%(name)s”, which points outside its folder.")
            % {"name": bad[0][:200]}
        )


def is_unsafe_path(name: str) -> bool:
    """Return True if a file's name isn't a plain path inside the folder, or is empty."""
    parts = name.replace("\\", "/").split("/")
    return not name or name.startswith(("/", "\\")) or ".." in parts or bool(_DRIVE.match(name))


def numbered_lines(file: IO[bytes], name: str) -> Iterator[tuple[int, str]]:
    """Yield each line that is not empty with its number from 1.

    Raises ImportRejected if one is too long or isn't UTF-8.
    """
    number = 0
    while raw := file.readline(MAX_LINE_LENGTH + 1):
        number += 1
        if len(raw) > MAX_LINE_LENGTH:
            raise ImportRejected(
                _("Line %(line)d of %(file)s is longer than %(most)d MiB.")
                % {"file": name, "line": number, "most": MAX_LINE_LENGTH // 1024**2}
            )
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as exc:
            raise ImportRejected(
                _("Line %(line)d of %(file)s isn’t valid UTF-8 text.")
                % {"file": name, "line": number}
            ) from exc
        if text:
            yield number, text
