"""What a save of a memory file took away, moved to the trash; what it brought back, taken from there."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.files.removed import Removed, removed_from, stands_in
from memory.models import FileEntry, MemoryFile, Revision
from memory.models.history import Change


def follow(file: MemoryFile, before: str, *, by: Actor, why: str, source: str) -> None:
    """Let the trash hold the sections that are gone since `before`, and none that stand again.

    Called in the transaction that saved the file, whose row is held.
    """
    after = str(file.content)
    for entry in FileEntry.objects.filter(file=file).in_trash():
        if entry.content and stands_in(after, entry.content):
            entry.owner = file.owner
            entry.restore(by=by)
    gone = removed_from(before, after)
    if not gone:
        return
    now = timezone.now()
    entries = [_entry(file, one, now) for one in gone]
    FileEntry.objects.bulk_create(entries)
    changes = [Change(entry, {"trashed_at": None}, {"trashed_at": now}, 1) for entry in entries]
    said = why or _("moved to the trash")
    Revision.record_many(changes, by=by, why=said, source=source)


def _entry(file: MemoryFile, one: Removed, now: datetime) -> FileEntry:
    return FileEntry(
        owner_id=file.owner_id,
        file=file,
        path=file.path,
        heading=list(one.heading),
        content=one.text,
        removed_in=file.version,
        source=file.source,
        trust=file.trust,
        sensitivity=file.sensitivity,
        trashed_at=now,
    )
