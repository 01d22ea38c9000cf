"""Export memory files to a folder or a zip, and import them (`export_files`, `import_files`).

Imported files are saved one by one in one transaction.  It is rolled back for a preview, or if any
file is refused.
"""

from __future__ import annotations

import os
import secrets
import stat
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from django.db import transaction

from beacon_site.text.diff import Row, diff, folded
from beacon_site.text.messages import gettext as _
from memory.accounts.archive.zips import ImportRejected, open_zip
from memory.models import MemoryFile, User
from memory.models.actors import Actor
from memory.models.errors import MemoryRefused
from memory.models.file_format import FACTS, month_of
from memory.services.files import mirror
from memory.services.files.mirror import text_of
from memory.services.files.mirror_disk import MAX_BYTES, Disk, DiskFile
from memory.services.files.saving import save_file

CONTEXT = 3  # unchanged lines shown beside a change


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """One imported file: its text before and after, or why it is refused."""

    path: str
    before: str
    after: str
    problem: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        return not self.problem and self.before != self.after

    def diff(self) -> str:
        """Return the change as a unified diff, or ""."""
        return "".join(_unified(self.path, self.before, self.after)) if self.is_changed else ""


# --- export ---------------------------------------------------------------------------------------


def perform(owner: User, place: Path) -> int:
    """Write the owner's shared files into a folder or a zip, and return how many.

    Raises MemoryRefused if the folder has different files with these names, and OSError.
    """
    mirror.import_edits(owner)
    rows = MemoryFile.objects.for_user(owner).live().shared().order_by("path")
    files = {file.path: file.content.encode() for file in rows.only("path", "content")}
    if place.suffix.lower() == ".zip":
        _zip(place, files)
    else:
        _folder(place, files)
    return len(files)


def _folder(place: Path, files: dict[str, bytes]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    disk = Disk(place)
    there = {path: disk.read(path) for path in files}
    others = [path for path, found in there.items() if found.stamp and found.content != files[path]]
    if others:
        params = {"place": place, "names": ", ".join(others)}
        raise MemoryRefused(
            _(
                "%(place)s already has different files with these names: %(names)s. Nothing was written. Choose an empty folder, or move those files first."
            )
            % params
        )
    for path, found in there.items():
        if not found.stamp:
            disk.write(path, files[path], "")


def _zip(place: Path, files: dict[str, bytes]) -> None:
    temp = place.with_name(f".{place.name}.{secrets.token_hex(6)}.tmp")
    try:
        handle = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with (
            os.fdopen(handle, "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed,
        ):
            for path, content in files.items():
                packed.writestr(path, content)
        temp.replace(place)
    finally:
        temp.unlink(missing_ok=True)


# --- import ---------------------------------------------------------------------------------------


def found_in(place: Path) -> tuple[dict[str, DiskFile], list[str]]:
    """Return the memory files in a folder or a zip, and the names of other files.

    Raises ImportRejected if the zip is unsafe or there is no memory file, and OSError.
    """
    files, others = _in_folder(place) if place.is_dir() else _in_zip(place)
    if not files:
        raise ImportRejected(
            _(
                "%(place)s has no memory files. Beacon looks for facts/user.md, facts/memory.md and episodes/YYYY-MM.md. To import a full archive, use import_account."
            )
            % {"place": place}
        )
    return files, others


def _in_folder(place: Path) -> tuple[dict[str, DiskFile], list[str]]:
    disk = Disk(place)
    files = {path: disk.read(path) for path in disk.stamps()}
    names = [one.relative_to(place).as_posix() for one in place.glob("*/*") if not one.is_dir()]
    return files, sorted(name for name in names if name not in files)


def _in_zip(place: Path) -> tuple[dict[str, DiskFile], list[str]]:
    with open_zip(place) as packed:
        infos = [info for info in packed.infolist() if not info.is_dir()]
        tops = {info.filename.partition("/")[0] for info in infos}
        # The zip contains the folder itself.
        top = f"{tops.pop()}/" if len(tops) == 1 and not tops & {"facts", "episodes"} else ""
        files, others = {}, []
        for info in infos:
            if stat.S_ISLNK(info.external_attr >> 16):
                params = {"name": info.filename[:200]}
                raise ImportRejected(
                    _(
                        "The zip file contains a symbolic link, “%(name)s”. Create the zip file again without symbolic links."
                    )
                    % params
                )
            path = info.filename.removeprefix(top)
            if path not in FACTS and not month_of(path):
                others.append(info.filename)
                continue
            with packed.open(info) as file:
                content = file.read(MAX_BYTES + 1)
            is_large = len(content) > MAX_BYTES
            files[path] = DiskFile("zip", None if is_large else content, is_large)
    return files, sorted(others)


def save_all_or_none(
    owner: User, files: dict[str, DiskFile], *, by: Actor, why: str, only_look: bool
) -> list[ImportedFile]:
    """Save all files or none, and return the result of each.

    Files that get smaller are saved first, so that the fact files never exceed their budget in between.
    """
    mirror.import_edits(owner)
    done = []
    with transaction.atomic():
        rows = MemoryFile.objects.for_user(owner).live().select_for_update()
        stand = dict(rows.values_list("path", "content"))

        def growth(path: str) -> int:
            return len(files[path].content or b"") - len(stand.get(path, "").encode())

        for path in sorted(files, key=growth):
            done.append(_saved(owner, path, stand.get(path, ""), files[path], by, why))
        if only_look or any(one.problem for one in done):
            transaction.set_rollback(True)
    return sorted(done, key=lambda one: one.path)


def _saved(
    owner: User, path: str, before: str, found: DiskFile, by: Actor, why: str
) -> ImportedFile:
    try:
        saved = save_file(owner, path, text_of(found), by=by, why=why)
    except MemoryRefused as exc:
        return ImportedFile(path, before, before, problem=str(exc))
    return ImportedFile(path, before, str(saved.file.content), warnings=saved.warnings)


# --- diff -----------------------------------------------------------------------------------------


def _unified(path: str, before: str, after: str) -> Iterator[str]:
    """Yield the lines of a unified diff that `patch` can read."""
    yield f"--- {path}\n+++ {path}\n"
    rows = folded(diff(before, after), context=CONTEXT)
    gaps = [-1, *(at for at, row in enumerate(rows) if row.kind == "gap"), len(rows)]
    for begin, end in pairwise(gaps):
        if hunk := rows[begin + 1 : end]:
            yield from _hunk(hunk)


def _hunk(rows: Sequence[Row]) -> Iterator[str]:
    old, new = [row.old for row in rows if row.old], [row.new for row in rows if row.new]
    yield f"@@ -{_span(old)} +{_span(new)} @@\n"
    for row in rows:
        if row.kind == "same":
            yield _diff_line(" ", "".join(piece.text for piece in row.before))
            continue
        if row.old:
            yield _diff_line("-", "".join(piece.text for piece in row.before))
        if row.new:
            yield _diff_line("+", "".join(piece.text for piece in row.after))


def _span(numbers: Sequence[int]) -> str:
    return f"{numbers[0] if numbers else 0},{len(numbers)}"


def _diff_line(sign: str, text: str) -> str:
    return (
        f"{sign}{text}" if text.endswith("\n") else f"{sign}{text}\n\\ No newline at end of file\n"
    )
