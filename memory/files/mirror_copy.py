"""One memory file and its copy on disk, compared and brought together (see `memory.files.mirror`).

`look` takes in what somebody did on disk, `write` puts there what is stored.  The caller holds the
file's turn.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.errors import MemoryRefused
from memory.file_texts.paths import is_fact
from memory.files.drafts import DraftTaken, keep_draft
from memory.files.errors import FileConflict
from memory.files.limits import MOST_EPISODES
from memory.files.mirror_disk import Disk, Found, digest_of
from memory.files.mirror_folder import DISK
from memory.files.services import save_file
from memory.models import Activity, MemoryFile, MirroredFile, User

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class Copy:
    """Whose file, which, where its copy lies; and, once looked at, how things stand."""

    owner: User
    path: str
    disk: Disk
    row: MirroredFile = field(init=False)
    file: MemoryFile | None = field(init=False, default=None)
    found: Found = field(init=False, default=Found())
    is_stale: bool = field(init=False, default=False)  # something was stored since it was read

    def read(self) -> None:
        """Read both sides, and what was last mirrored."""
        self.read_row()
        self.is_stale = False
        self.file = MemoryFile.objects.of(self.owner).live().at(self.path).first()
        self.found = self.disk.read(self.path)
        if self.is_edited:
            self.found = self.disk.read(self.path, settled=True)

    def read_row(self) -> None:
        """Read what was last mirrored."""
        rows = MirroredFile.objects.of(self.owner).filter(path=self.path)
        self.row = rows.first() or MirroredFile(owner=self.owner, path=self.path)

    @property
    def stored(self) -> bytes | None:
        """Return the bytes that belong on disk; None where there is no such file any more."""
        return None if self.file is None else str(self.file.content).encode()

    @property
    def is_edited(self) -> bool:
        """Whether something else stands on disk than what was mirrored, and than what is stored."""
        if not self.found.stamp or self.found.digest == self.row.digest:
            return False
        return self.found.content is None or self.found.content != self.stored

    def mark(self, **fields: object) -> None:
        """Note how far the copy is; the problem goes once no refused edit lies beside the file."""
        if "problem" not in fields and self.row.problem and not self.disk.copies(self.path):
            fields["problem"] = fields["refused"] = ""
        for name, value in fields.items():
            setattr(self.row, name, value)
        self.row.at = timezone.now()
        names = ("version", "digest", "stamp", "refused", "problem", "at")
        now = {name: getattr(self.row, name) for name in names}
        if not MirroredFile.objects.filter(pk=self.row.pk).update(**now):
            MirroredFile.objects.update_or_create(owner=self.owner, path=self.path, defaults=now)


def look(copy: Copy) -> bool:
    """Take in what was done on disk; return whether something is to be written there now."""
    copy.read()
    row, file, found = copy.row, copy.file, copy.found
    if not found.stamp:
        if file is not None and row.digest:
            _tell_gone(copy)
        if file is None and row.pk:
            copy.mark(version=0, digest="", stamp="")
        return file is not None
    if copy.is_edited:
        _take(copy, found)
        return True
    if file is not None and found.content == copy.stored:
        if (row.version, row.digest, row.stamp) != (file.version, found.digest, found.stamp):
            copy.mark(version=file.version, digest=found.digest, stamp=found.stamp)
        elif row.problem:
            copy.mark()
        return False
    return True


def write(copy: Copy) -> None:
    """Write what is stored over what was found.  Raises ChangedMeanwhile, OSError."""
    if copy.is_stale:
        copy.read()
        if copy.is_edited:  # new since: the tick looks again
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
            _take(copy, Found(found.stamp, late))
        copy.mark(**now)


def fail(copy: Copy, exc: OSError) -> None:
    """Note that the disk refused; it is told once for all files that it is so for."""
    copy.read_row()
    told = {"why": exc.strerror or str(exc)}
    problem = _("The copy on disk cannot be read or written: %(why)s. It is tried again.") % told
    if copy.row.problem == problem:
        return
    others = MirroredFile.objects.of(copy.owner).filter(problem=problem)
    if not others.exists():
        _tell(copy, "mirror-failed", problem)
    copy.mark(problem=problem)


def _take(copy: Copy, found: Found) -> None:
    """Save an edit, based on the version that was last on disk; keep a refused one beside it."""
    copy.is_stale = True
    try:
        if not settings.BEACON_MIRROR_READ:
            raise MemoryRefused(_("edits on disk are turned off (BEACON_MIRROR_READ=0)."))
        text = text_of(found)
        # No reason: that it was edited on disk is what its actor says.
        saved = save_file(copy.owner, copy.path, text, by=DISK, seen=_based_on(copy))
    except MemoryRefused as exc:
        if isinstance(exc, FileConflict):
            _keep_as_draft(copy, exc)
        _refuse(copy, found, exc)
        return
    copy.file = saved.file
    copy.mark(version=saved.file.version, digest=found.digest, stamp=found.stamp)


def _based_on(copy: Copy) -> int:
    """Return the version that an edit began from.

    A file that lay there before the mirror did takes the place of an untouched first one.
    """
    if copy.row.version:
        return copy.row.version
    untouched = copy.file is not None and is_fact(copy.path) and copy.file.version == 1
    return 1 if untouched else 0


def text_of(found: Found) -> str:
    """Return the text that was found.  Raises MemoryRefused."""
    if found.is_large:
        most = {"most": f"{MOST_EPISODES:,}"}
        raise MemoryRefused(_("it is far larger than the %(most)s bytes a file may have.") % most)
    if found.content is None:
        raise MemoryRefused(_("it is no plain file, and links are not followed."))
    if b"\0" in found.content:
        raise MemoryRefused(_("it holds NUL characters, which no text has."))
    try:
        return found.content.decode()
    except UnicodeDecodeError as exc:
        raise MemoryRefused(
            _("it is not UTF-8: byte %(at)d is wrong. Save it as UTF-8.") % {"at": exc.start + 1}
        ) from exc


def _refuse(copy: Copy, found: Found, exc: MemoryRefused) -> None:
    aside = copy.disk.set_aside(copy.path, found.content)
    why = str(exc)
    if isinstance(exc, FileConflict):
        why = _("the same lines were changed in Beacon since the version that it was based on.")
    problem = _(
        "An edit on disk was not taken in: %(why)s It is kept as %(copy)s beside the file. Put "
        "what you need of it into the file, then delete that copy."
    ) % {"why": why, "copy": aside}
    if copy.row.refused != found.digest:
        _tell(copy, "disk-edit-refused", problem)
    # What is kept beside the file may be written over; what cannot be read was moved away.
    known = {"digest": "", "stamp": ""} if found.content is None else {"digest": found.digest}
    copy.mark(refused=found.digest, problem=problem, **known)


def _keep_as_draft(copy: Copy, exc: FileConflict) -> None:
    """Let the editor open with what was written on disk: saving it leads to the merge screen.

    Where another draft is kept already, the copy beside the file is all there is.
    """
    with suppress(DraftTaken):
        note, window = _("edited on disk"), uuid4()
        keep_draft(copy.owner, copy.path, exc.mine, note=note, seen=copy.row.version, window=window)


def _tell_gone(copy: Copy) -> None:
    why = _(
        "%(path)s was deleted on disk and is written there again: a month's file is moved to the "
        "trash in Beacon, and the fact files always stay."
    )
    _tell(copy, "disk-file-restored", why % {"path": copy.path})
    copy.mark(digest="", stamp="")


def _tell(copy: Copy, kind: str, why: str) -> None:
    logger.info(kind, owner=copy.owner.pk, path=copy.path, why=why)
    subject = MemoryFile.objects.of(copy.owner).live().at(copy.path).first()
    Activity.log(copy.owner, DISK, kind, subject=subject, label=copy.path, warning=True, why=why)
