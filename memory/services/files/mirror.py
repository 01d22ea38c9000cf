"""The mirror: memory files as copies on disk, in both directions, and as Git commits (decision
3.4).

`import_edit` imports edits from disk and `write` writes stored text to disk. The caller holds the file's
lock.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from uuid import uuid4

import structlog
from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import Exists, F, OuterRef
from django.utils import timezone

from beacon_site.db.advisory_locks import LockId, advisory_lock
from beacon_site.text.cleaning import one_line
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import grouped
from memory.models import Activity, MemoryFile, MirroredFile, MirrorFolder, Revision, User
from memory.models.errors import MemoryRefused
from memory.models.file_format import is_fact, mounted_of
from memory.services.files import mirror_disk
from memory.services.files.mirror_disk import (
    DISK,
    ConcurrentChange,
    Disk,
    DiskFile,
    digest_of,
    disk_of,
)
from memory.services.files.saving import DraftConflictError, keep_draft, save_file
from memory.services.files.texts import MAX_EPISODES, FileConflict

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class Copy:
    """A file's owner, path and disk, and after `import_edit` its current state."""

    owner: User
    path: str
    disk: Disk
    row: MirroredFile = field(init=False)
    file: MemoryFile | None = field(init=False, default=None)
    found: DiskFile = field(init=False, default=DiskFile())
    is_stale: bool = field(init=False, default=False)  # something was stored after it was read

    def read(self) -> None:
        """Read the stored file, the copy on disk, and the last mirrored state."""
        self.read_row()
        self.is_stale = False
        self.file = MemoryFile.objects.for_user(self.owner).live().at(self.path).first()
        self.found = self.disk.read(self.path)
        if self.is_edited:
            self.found = self.disk.read(self.path, settled=True)

    def read_row(self) -> None:
        rows = MirroredFile.objects.for_user(self.owner).filter(path=self.path)
        self.row = rows.first() or MirroredFile(owner=self.owner, path=self.path)

    @property
    def stored(self) -> bytes | None:
        """Return the bytes that belong on disk, or None if there is no such file."""
        return None if self.file is None else str(self.file.content).encode()

    @property
    def is_edited(self) -> bool:
        """Return True if the text on disk is neither the mirrored nor the stored one."""
        if not self.found.stamp or self.found.digest == self.row.digest:
            return False
        return self.found.content is None or self.found.content != self.stored

    def mark(self, **fields: object) -> None:
        """Store the mirrored state. The problem is cleared once there is no rejected edit beside
        the file.
        """
        if "problem" not in fields and self.row.problem and not self.disk.copies(self.path):
            fields["problem"] = fields["refused"] = ""
        for name, value in fields.items():
            setattr(self.row, name, value)
        self.row.synced_at = timezone.now()
        names = ("version", "digest", "stamp", "refused", "problem", "synced_at")
        now = {name: getattr(self.row, name) for name in names}
        if not MirroredFile.objects.filter(pk=self.row.pk).update(**now):
            MirroredFile.objects.update_or_create(owner=self.owner, path=self.path, defaults=now)

    def mark_found(self, version: int, **fields: object) -> None:
        """Store that this version is on disk as it was found there."""
        self.mark(version=version, digest=self.found.digest, stamp=self.found.stamp, **fields)

    def keep_as_draft(self, text: str, note: str) -> None:
        """Keep the text from disk as a draft. If there is another draft, it remains on disk only."""
        seen = self.row.version
        with suppress(DraftConflictError):
            keep_draft(self.owner, self.path, text, note=note, seen=seen, window=uuid4())


def import_edit(copy: Copy) -> bool:
    """Import an edit from disk. Return whether the file then has to be written."""
    copy.read()
    row, file, found = copy.row, copy.file, copy.found
    if not found.stamp:
        if file is not None and row.digest:
            _log_deleted(copy)
        if file is None and row.pk:
            copy.mark(version=0, digest="", stamp="")
        return file is not None
    if copy.is_edited:
        _take(copy, found)
        return True
    if file is not None and found.content == copy.stored:
        if (row.version, row.digest, row.stamp) != (file.version, found.digest, found.stamp):
            copy.mark_found(file.version)
        elif row.problem:
            copy.mark()
        return False
    return True


def write(copy: Copy) -> None:
    """Write the stored text to disk. Raises ConcurrentChange, OSError."""
    if copy.is_stale:
        copy.read()
        if copy.is_edited:  # created since then, so the next check handles it
            return
    content, found = copy.stored, copy.found
    if content is None:
        if found.stamp:
            copy.disk.remove(copy.path, found.stamp)
        copy.mark(version=0, digest="", stamp="")
        return
    if found.content == content:
        return
    assert copy.file is not None  # noqa: S101  (tells the type checker what its caller knows)  # nosec B101
    stamp, late = copy.disk.write(copy.path, content, found.stamp)
    now = {"version": copy.file.version, "digest": digest_of(content), "stamp": stamp}
    with transaction.atomic():
        if late is not None:
            _take(copy, DiskFile(found.stamp, late))
        copy.mark(**now)


def fail(copy: Copy, exc: OSError) -> None:
    """Store that the disk can't be used. The same problem of many files is logged once."""
    copy.read_row()
    params = {"why": exc.strerror or str(exc)}
    problem = _("The copy on disk can’t be read or written: %(why)s. Beacon keeps trying.") % params
    if copy.row.problem == problem:
        return
    others = MirroredFile.objects.for_user(copy.owner).filter(problem=problem)
    if not others.exists():
        _log_problem(copy, "mirror-failed", problem)
    copy.mark(problem=problem)


def _take(copy: Copy, found: DiskFile) -> None:
    """Save an edit, based on the version last on disk. Keep a rejected one beside the file."""
    copy.is_stale = True
    try:
        if not settings.BEACON_MIRROR_READ:
            raise MemoryRefused(_("edits on disk aren’t imported (BEACON_MIRROR_READ=0)."))
        text = text_of(found)
        # No reason is needed, since the actor says that it was edited on disk.
        saved = save_file(copy.owner, copy.path, text, by=DISK, seen=_based_on(copy))
    except MemoryRefused as exc:
        if isinstance(exc, FileConflict):  # saving the draft in the editor opens the merge page
            copy.keep_as_draft(exc.mine, _("edited on disk"))
        _refuse(copy, found, exc)
        return
    copy.file = saved.file
    copy.mark(version=saved.file.version, digest=found.digest, stamp=found.stamp)


def _based_on(copy: Copy) -> int:
    """Return the version that an edit is based on.

    A file that existed before the mirror replaces an unedited first version.
    """
    if copy.row.version:
        return copy.row.version
    untouched = copy.file is not None and is_fact(copy.path) and copy.file.version == 1
    return 1 if untouched else 0


def text_of(found: DiskFile) -> str:
    """Return the text found on disk. Raises MemoryRefused."""
    if found.is_large:
        most = {"most": grouped(MAX_EPISODES)}
        raise MemoryRefused(_("it’s far larger than the limit of %(most)s bytes.") % most)
    if found.content is None:
        raise MemoryRefused(_("it isn’t a regular file, and links aren’t followed."))
    if b"\0" in found.content:
        raise MemoryRefused(_("it contains NUL characters."))
    try:
        return found.content.decode()
    except UnicodeDecodeError as exc:
        raise MemoryRefused(
            _("it isn’t valid UTF-8 (byte %(at)d). Save it as UTF-8.") % {"at": exc.start + 1}
        ) from exc


def _refuse(copy: Copy, found: DiskFile, exc: MemoryRefused) -> None:
    aside = copy.disk.quarantine_reason(copy.path, found.content)
    why = str(exc)
    if isinstance(exc, FileConflict):
        why = _("the same lines were also changed in Beacon.")
    problem = _(
        "An edit on disk wasn’t imported: %(why)s The edited text is kept as %(copy)s next to the file. Copy what you need into the file, then delete that copy."
    ) % {"why": why, "copy": aside}
    if copy.row.refused != found.digest:
        _log_problem(copy, "disk-edit-refused", problem)
    # The rejected copy can be overwritten. An unreadable file was moved away.
    known = {"digest": "", "stamp": ""} if found.content is None else {"digest": found.digest}
    copy.mark(refused=found.digest, problem=problem, **known)


def _log_deleted(copy: Copy) -> None:
    why = _(
        "%(path)s was deleted from disk, so Beacon recreated it. To delete a month’s file, move it to Trash in Beacon. Fact files can’t be deleted."
    )
    _log_problem(copy, "disk-file-restored", why % {"path": copy.path})
    copy.mark(digest="", stamp="")


def _log_problem(copy: Copy, kind: str, why: str) -> None:
    logger.info(kind, owner=copy.owner.pk, path=copy.path, why=why)
    subject = MemoryFile.objects.for_user(copy.owner).live().at(copy.path).first()
    Activity.log(copy.owner, DISK, kind, subject=subject, label=copy.path, warning=True, why=why)


# --- Git commits (BEACON_MIRROR_GIT) ---

BRANCH = "main"  # of a repository that Beacon creates; in an existing one, the branch that is checked out
SECONDS = 120.0
_LEFT_OUT = ".beacon\n*.conflict*\n.*.tmp\n"


class GitFailed(Exception):
    """Git is missing or returned an error. The message is Git's."""


@dataclass(frozen=True, slots=True)
class _Commit:
    """A change to commit, without content if the file was deleted."""

    order: int
    name: str
    content: str | None
    message: str
    at: datetime


def commit_due(folder: MirrorFolder) -> int:
    """Commit changes on disk that aren't in Git yet. Return the number of commits."""
    if not settings.BEACON_MIRROR_GIT:
        return 0
    behind = MirroredFile.objects.of_mirror().exclude(committed=F("version"))
    rows = list(behind.select_related("owner"))
    commits = sorted(
        (one for row in rows for one in _commits(folder, row)), key=lambda one: one.order
    )
    try:
        if commits:
            _store(Path(settings.BEACON_MIRROR_DIR), commits)
    except (GitFailed, OSError, subprocess.SubprocessError) as exc:
        _warn_about_git(folder, str(exc))
        return 0
    for row in rows:
        MirroredFile.objects.filter(pk=row.pk).update(committed=row.version)
    if rows and folder.git_problem:
        _warn_about_git(folder, "")
    return len(commits)


def _commits(folder: MirrorFolder, row: MirroredFile) -> Iterator[_Commit]:
    """Yield a commit for each version that has none."""
    name = "/".join((*disk_of(folder, row.owner).parts, row.path))
    rows = Revision.objects.for_user(row.owner).filter(record_type=MemoryFile.record_type())
    if not row.version:
        last = rows.filter(label=row.path).order_by("-id").first()
        message = _message(name, last) if last else f"{name}: deleted"
        at = last.created if last else timezone.now()
        yield _Commit(last.pk if last else 0, name, None, message, at)
        return
    file = MemoryFile.objects.for_user(row.owner).live().at(row.path).first()
    if file is None:
        return
    since = row.committed if row.committed < row.version else 0
    rows = rows.filter(record_id=file.pk, version__gt=since, version__lte=row.version)
    for one in rows.filter(after__has_key="content").order_by("id").iterator():
        content = str(one.after["content"])
        yield _Commit(one.pk, name, content, _message(name, one), one.created)


def _message(name: str, revision: Revision) -> str:
    why = one_line(revision.reason) or ("made" if revision.version == 1 else "changed")
    return f"{name}: {why} ({revision.actor}, version {revision.version})"


def _store(root: Path, commits: list[_Commit]) -> None:
    """Add the commits to the checked-out branch, then update the index."""
    if not (root / ".git").exists():
        _git(root, "init", "-q", "-b", BRANCH, "--template=")
        (root / ".git/info").mkdir(exist_ok=True)
        (root / ".git/info/exclude").write_text(_LEFT_OUT)
    branch = _git(root, "symbolic-ref", "HEAD").decode().strip()
    begun = bool(_git(root, "for-each-ref", branch).strip())
    stream = b"".join(
        _as_fast_import(one, branch, begun and at == 0) for at, one in enumerate(commits)
    )
    _git(root, "fast-import", "--quiet", stream=stream)
    _git(root, "reset", "-q", "--", *sorted({one.name for one in commits}))


def _as_fast_import(one: _Commit, branch: str, begun: bool) -> bytes:
    """Return a commit in fast-import format. The first one names its parent."""
    message = one.message.encode()
    head = (
        f"commit {branch}\n"
        f"committer Beacon <beacon@localhost> {int(one.at.timestamp())} +0000\n"
        f"data {len(message)}\n"
    ).encode()
    parts = [head, message, b"\n", f"from {branch}^0\n".encode() if begun else b""]
    if one.content is None:
        return b"".join([*parts, f"D {one.name}\n\n".encode()])
    content = one.content.encode()
    change = f"M 100644 inline {one.name}\ndata {len(content)}\n".encode()
    return b"".join([*parts, change, content, b"\n\n"])


def _git(root: Path, *arguments: str, stream: bytes = b"") -> bytes:
    """Run Git on the folder's repository. Raises GitFailed with its message, OSError."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    own |= {
        "GIT_DIR": str(root / ".git"), "GIT_WORK_TREE": str(root), "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C",
    }  # fmt: skip
    command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", *arguments]
    try:
        ended = subprocess.run(
            command,
            cwd=root,
            env=own,
            input=stream,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except FileNotFoundError as exc:
        raise GitFailed("git is not installed") from exc
    if ended.returncode:
        text = one_line(ended.stderr.decode(errors="replace"))
        raise GitFailed(f"git {arguments[0]}: {text[:500]}")
    return ended.stdout


def _warn_about_git(folder: MirrorFolder, text: str) -> None:
    """Store Git's state. New problems are logged in Activity once."""
    folder.git_problem = text
    rows = MirrorFolder.objects.filter(pk=folder.pk).exclude(git_problem=text)
    if rows.update(git_problem=text) and text:
        logger.warning("memory files not committed to Git", why=text)
        why = _(
            "Changes to memory files couldn’t be committed to Git: %(why)s. Beacon keeps trying."
        )
        Activity.log(folder.root, DISK, "mirror-git-failed", warning=True, why=why % {"why": text})


# --- both directions ---

PATIENCE = 2.0  # seconds to wait for a file's lock; otherwise the scheduled check handles it
_ROUNDS = 5  # attempts at a file that keeps changing


def import_edits(owner: User) -> None:
    """Import changes from disk. Never raises, and costs two queries if nothing changed."""
    if not mirror_disk.is_on():
        return
    try:
        with transaction.atomic():
            folder = mirror_disk.mirror_folder()
            if folder is None:
                return
            disk = mirror_disk.own_disk(folder, owner)
            suspects = _changed(_mirrored_stamps(owner), disk)
        for path in suspects:
            _compare(Copy(owner, path, disk))
    except (DatabaseError, OSError) as exc:
        logger.warning("edit on disk not imported", owner=owner.pk, why=str(exc))


def write_out(owner_id: int, path: str) -> None:
    """Write the current file to disk. Called after the commit of a change."""
    if not mirror_disk.is_on() or mounted_of(path):
        return
    try:
        owner, folder = User.objects.filter(pk=owner_id).first(), mirror_disk.mirror_folder()
        if owner is not None and folder is not None:
            _settle(folder, Copy(owner, path, mirror_disk.disk_of(folder, owner)))
    except (DatabaseError, OSError) as exc:
        logger.warning("file not written to disk", owner=owner_id, path=path, why=str(exc))


def catch_up() -> int:
    """Do the remaining work in both directions for all accounts. Return the number of files."""
    global _settled
    _settled = None
    if not mirror_disk.is_on():
        return 0
    with advisory_lock(LockId.MIRROR_SCAN) as is_mine:
        folder = mirror_disk.mirror_folder() if is_mine else None
        seen = mirror_disk.fingerprint() if folder is not None else 0
        due = sorted(_due(folder)) if folder is not None else []
        for owner_id, path in due:
            write_out(owner_id, path)
        if folder is not None:
            commit_due(folder)
    if folder is not None and not due and not folder.git_problem:
        _settled = time.monotonic(), seen
    return len(due)


# When this process's last check began and what was on disk, if it found nothing to do.
_settled: tuple[float, int] | None = None
SETTLED_SECONDS = 30.0  # until stored files are checked again, which are written when they change


def is_settled() -> bool:
    """Whether the last check found nothing, and nothing has changed on disk since. Asks no database."""
    settled = _settled  # a task in another thread can set it to None at any time
    if settled is None or time.monotonic() - settled[0] > SETTLED_SECONDS:
        return False
    return mirror_disk.fingerprint() == settled[1]


def differing() -> list[tuple[int, str]]:
    """Return owner and path of each file whose copy differs from the stored bytes.

    Rejected edits are left out, because a person has to review them.
    """
    folder = mirror_disk.mirror_folder() if mirror_disk.is_on() else None
    if folder is None:
        return []
    refused = MirroredFile.objects.of_mirror().exclude(problem="").values_list("owner_id", "path")
    return sorted((_due(folder) | set(_unnoticed(folder))) - set(refused))


def reconcile() -> int:
    """Compare those files again, ignoring their stamps. Return how many there were."""
    found = differing()
    for owner_id, path in found:
        MirroredFile.objects.filter(owner=owner_id, path=path).update(stamp="")
    catch_up()
    return len(found)


def _unnoticed(folder: MirrorFolder) -> Iterator[tuple[int, str]]:
    """Yield files that differ although stamp and version are unchanged."""
    for row in (
        MirroredFile.objects.of_mirror().exclude(digest="").select_related("owner").iterator()
    ):
        file = MemoryFile.objects.for_user(row.owner).live().at(row.path).first()
        if file is None or file.version != row.version:
            continue
        with suppress(OSError, ConcurrentChange):
            lies = mirror_disk.disk_of(folder, row.owner).read(row.path).digest
            if not lies == row.digest == digest_of(file.content.encode()):
                yield row.owner_id, row.path


def _due(folder: MirrorFolder) -> set[tuple[int, str]]:
    """Return owner and path of each file whose stored, mirrored and disk versions differ."""
    same = MirroredFile.objects.filter(owner=OuterRef("owner"), path=OuterRef("path"))
    behind = (
        MemoryFile.objects.live().shared().exclude(Exists(same.filter(version=OuterRef("version"))))
    )
    live = MemoryFile.objects.live().filter(owner=OuterRef("owner"), path=OuterRef("path"))
    rows = MirroredFile.objects.of_mirror()
    told = rows.exclude(problem="") | rows.exclude(digest="").exclude(Exists(live))
    due = set(behind.values_list("owner_id", "path")) | set(told.values_list("owner_id", "path"))
    known: dict[int, dict[str, str]] = {}
    for owner_id, path, stamp in rows.values_list("owner_id", "path", "stamp"):
        known.setdefault(owner_id, {})[path] = stamp
    for owner in User.objects.filter(is_active=True):
        try:
            changed = _changed(known.get(owner.pk, {}), mirror_disk.own_disk(folder, owner))
        except OSError as exc:
            logger.warning("files on disk not checked", owner=owner.pk, why=str(exc))
            continue
        due |= {(owner.pk, path) for path in changed}
    return due


def _mirrored_stamps(owner: User) -> dict[str, str]:
    return dict(MirroredFile.objects.for_user(owner).of_mirror().values_list("path", "stamp"))


def _changed(known: dict[str, str], disk: Disk) -> list[str]:
    """Return the paths whose file on disk differs from the last mirrored one."""
    now = disk.stamps()
    return [path for path in sorted({*known, *now}) if known.get(path, "") != now.get(path, "")]


def _compare(copy: Copy) -> None:
    """Import an edit. If the file must be written, that waits for the caller's transaction."""
    with file_lock(copy) as is_mine:
        if not is_mine:
            return
        try:
            with transaction.atomic():
                if import_edit(copy):
                    transaction.on_commit(partial(write_out, copy.owner.pk, copy.path))
        except ConcurrentChange:
            return
        except OSError as exc:
            fail(copy, exc)


def _settle(folder: MirrorFolder, copy: Copy) -> None:
    """Import what is new on disk, then write the current text, until both are the same."""
    with file_lock(copy) as is_mine:
        try:
            mirror_disk.own_disk(folder, copy.owner)
            for _round in range(_ROUNDS if is_mine else 0):
                with suppress(ConcurrentChange):
                    with transaction.atomic():
                        is_due = import_edit(copy)
                    if is_due:
                        write(copy)
                    return
        except OSError as exc:
            fail(copy, exc)


def file_lock(copy: Copy, *, wait: float = PATIENCE) -> AbstractContextManager[bool]:
    """Lock a file for comparing it with the disk. Returns False if another process keeps the lock."""
    return advisory_lock(LockId.MIRROR_FILE, f"{copy.owner.pk}:{copy.path}", wait=wait)
