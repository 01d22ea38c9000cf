"""The copy of memory files on disk, both ways (decision 3.4).

Data flow, out: a change is stored for good -> `write_out` -> the disk as it stands is compared with
what was last mirrored -> one atomic write.  In: stamps on disk differ -> `take_in` -> an edit is
saved by the actor `disk`, based on the version last mirrored, so that it joins with what others
wrote since; one that cannot be joined, or breaks a rule, is kept beside the file as `.conflict`.
Whoever saved writes at once, and `catch_up` does what was left undone.  The stored file is the
truth: the disk never holds up an edit, and nothing here raises for what is wrong there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial

import structlog
from django.db import DatabaseError, transaction
from django.db.models import Exists, OuterRef

from memory.advisory_locks import LockId, advisory_lock
from memory.files import mirror_account, mirror_copy, mirror_folder, mirror_git
from memory.files.mirror_copy import Copy
from memory.files.mirror_disk import ChangedMeanwhile, Disk, digest_of
from memory.models import MemoryFile, MirroredFile, MirrorFolder, User

logger = structlog.get_logger(__name__)

_PATIENCE = 2.0  # seconds for which a file's turn is waited for; the tick does it else
_ROUNDS = 5  # times that a file which keeps changing is looked at again


def take_in(owner: User) -> None:
    """Take in what was changed on disk; never raises, and costs two queries if nothing was."""
    if not mirror_folder.is_on():
        return
    try:
        with transaction.atomic():
            folder = mirror_folder.opened()
            if folder is None:
                return
            disk = mirror_account.own_disk(folder, owner)
            suspects = _changed(_known(owner), disk)
        for path in suspects:
            _look_at(Copy(owner, path, disk))
    except (DatabaseError, OSError) as exc:
        logger.warning("not taken in", owner=owner.pk, why=str(exc))


def write_out(owner_id: int, path: str) -> None:
    """Write the file as it stands now to disk; called once a change is stored for good."""
    if not mirror_folder.is_on():
        return
    try:
        owner, folder = User.objects.filter(pk=owner_id).first(), mirror_folder.opened()
        if owner is not None and folder is not None:
            _settle(folder, Copy(owner, path, mirror_folder.disk_of(folder, owner)))
    except (DatabaseError, OSError) as exc:
        logger.warning("not written to disk", owner=owner_id, path=path, why=str(exc))


def catch_up() -> int:
    """Do what was left undone in either direction for everybody; return for how many files."""
    if not mirror_folder.is_on():
        return 0
    with advisory_lock(LockId.MIRROR_SCAN) as is_mine:
        folder = mirror_folder.opened() if is_mine else None
        due = sorted(_due(folder)) if folder is not None else []
        for owner_id, path in due:
            write_out(owner_id, path)
        if folder is not None:
            mirror_git.commit_due(folder)
    return len(due)


def differing() -> list[tuple[int, str]]:
    """Return owner and path of each file whose copy is not what is stored, by its very bytes.

    An edit that was refused is not among them: a person has to look at it.
    """
    folder = mirror_folder.opened() if mirror_folder.is_on() else None
    if folder is None:
        return []
    refused = MirroredFile.objects.exclude(problem="").values_list("owner_id", "path")
    return sorted((_due(folder) | set(_unnoticed(folder))) - set(refused))


def bring_together() -> int:
    """Look at those files anew, whatever their stamps say; return how many they were."""
    found = differing()
    for owner_id, path in found:
        MirroredFile.objects.filter(owner=owner_id, path=path).update(stamp="")
    catch_up()
    return len(found)


def _unnoticed(folder: MirrorFolder) -> Iterator[tuple[int, str]]:
    """Yield the files that differ though stamp and version say that they do not."""
    for row in MirroredFile.objects.exclude(digest="").select_related("owner").iterator():
        file = MemoryFile.objects.of(row.owner).live().at(row.path).first()
        if file is None or file.version != row.version:
            continue
        with suppress(OSError, ChangedMeanwhile):
            lies = mirror_folder.disk_of(folder, row.owner).read(row.path).digest
            if not lies == row.digest == digest_of(file.content.encode()):
                yield row.owner_id, row.path


def _due(folder: MirrorFolder) -> set[tuple[int, str]]:
    """Return owner and path of whatever differs between store, disk, and what was mirrored."""
    same = MirroredFile.objects.filter(owner=OuterRef("owner"), path=OuterRef("path"))
    behind = MemoryFile.objects.live().exclude(Exists(same.filter(version=OuterRef("version"))))
    live = MemoryFile.objects.live().filter(owner=OuterRef("owner"), path=OuterRef("path"))
    rows = MirroredFile.objects.all()
    told = rows.exclude(problem="") | rows.exclude(digest="").exclude(Exists(live))
    due = set(behind.values_list("owner_id", "path")) | set(told.values_list("owner_id", "path"))
    known: dict[int, dict[str, str]] = {}
    for owner_id, path, stamp in rows.values_list("owner_id", "path", "stamp"):
        known.setdefault(owner_id, {})[path] = stamp
    for owner in User.objects.filter(is_active=True):
        try:
            changed = _changed(known.get(owner.pk, {}), mirror_account.own_disk(folder, owner))
        except OSError as exc:
            logger.warning("not looked at", owner=owner.pk, why=str(exc))
            continue
        due |= {(owner.pk, path) for path in changed}
    return due


def _known(owner: User) -> dict[str, str]:
    return dict(MirroredFile.objects.of(owner).values_list("path", "stamp"))


def _changed(known: dict[str, str], disk: Disk) -> list[str]:
    """Return the paths at which something else lies than what was last mirrored."""
    now = disk.stamps()
    return [path for path in sorted({*known, *now}) if known.get(path, "") != now.get(path, "")]


def _look_at(copy: Copy) -> None:
    """Take an edit in; what is to be written then waits for the caller's transaction, if any."""
    with _turn(copy) as is_mine:
        if not is_mine:
            return
        try:
            with transaction.atomic():
                if mirror_copy.look(copy):
                    transaction.on_commit(partial(write_out, copy.owner.pk, copy.path))
        except ChangedMeanwhile:
            return
        except OSError as exc:
            mirror_copy.fail(copy, exc)


def _settle(folder: MirrorFolder, copy: Copy) -> None:
    """Take in what is new on disk, then write what stands, until both are the same."""
    with _turn(copy) as is_mine:
        try:
            mirror_account.own_disk(folder, copy.owner)
            for _round in range(_ROUNDS if is_mine else 0):
                with suppress(ChangedMeanwhile):
                    with transaction.atomic():
                        is_due = mirror_copy.look(copy)
                    if is_due:
                        mirror_copy.write(copy)
                    return
        except OSError as exc:
            mirror_copy.fail(copy, exc)


def _turn(copy: Copy) -> AbstractContextManager[bool]:
    """Hold the right to compare one file with the disk; False where another keeps it too long."""
    return advisory_lock(LockId.MIRROR_FILE, f"{copy.owner.pk}:{copy.path}", wait=_PATIENCE)
