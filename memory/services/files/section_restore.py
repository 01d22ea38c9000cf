"""Restoring a section that was removed from a memory file, and removing it again.

Data flow: the version without it -> the section inserted at its place -> merged with later changes,
like any two edits -> saved, or a conflict, which the file's editor shows as a merge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.urls import reverse
from django.utils.translation import gettext as _

from memory.models import FileEntry, MemoryFile
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, MemoryRefused
from memory.models.file_format import sections_of
from memory.services.files.saving import Act, replacing, rows_held, write
from memory.services.files.texts import (
    FileConflict,
    Removed,
    contains_lines,
    content_at,
    put_in,
    without_lines,
)


class EntryConflict(MemoryRefused):
    """The section's place has other text now. `way` is the URL of the page to merge both."""

    def __init__(self, entry: FileEntry) -> None:
        params = {"path": entry.path}
        super().__init__(
            _(
                "This section of %(path)s has changed. Nothing was restored, and the old text is still in Trash. Merge the two texts, then save."
            )
            % params
        )
        self.way = f"{reverse('memory:file-edit', args=[entry.path])}?entry={entry.pk}"


@dataclass(frozen=True, slots=True)
class Return:
    """A file's text with the section restored, and the version it is based on."""

    text: str
    seen: int
    base: str
    had: str  # the text of the version before, with the section


def restore(entry: Any, by: Actor) -> None:
    """Restore the section at its place in its file, and take it out of Trash.

    Raises InvalidValue if the file doesn't exist, EntryConflict, and what a save raises. Nothing is
    changed in any of these cases.
    """
    with transaction.atomic():
        file = _locked_file(entry)
        if entry.trashed_at is None:
            return
        if not contains_lines(file.content, entry.content):
            why = _("restored from Trash: %(label)s") % {"label": _label(entry)}
            _put_in(entry, file, Act(by, why))
        entry.refresh_from_db(fields=["trashed_at", "version"])
        entry.restore(by=by)


def _put_in(entry: FileEntry, file: MemoryFile, act: Act) -> None:
    """Save the file with the section. If only its surroundings changed, insert it as near as
    possible.
    """
    back = returning(entry, file)
    try:
        write(entry.owner, file.path, replacing(back.text, seen=back.seen), act)
    except FileConflict as exc:
        if any(one.heading == tuple(entry.heading) for one in sections_of(file.content)):
            raise EntryConflict(entry) from exc
        text = put_in(file.content, _removed(entry), back.had)
        write(entry.owner, file.path, replacing(text, seen=file.version, join=False), act)


def trash(entry: Any, by: Actor) -> None:
    """Remove a restored section from its file again. Raises InvalidValue if it was changed."""
    with transaction.atomic():
        file = _locked_file(entry)
        if entry.trashed_at is not None:
            return
        text = without_lines(file.content, entry.content)
        if text is None:
            params = {"label": _label(entry), "path": entry.path}
            raise InvalidValue(
                _(
                    "“%(label)s” in %(path)s was changed after it was restored, so it wasn’t removed. Edit the file, or restore an older version from its history."
                )
                % params
            )
        why = _("moved to Trash: %(label)s") % {"label": _label(entry)}
        act = Act(by, why, tells_trash=False)
        saved = write(entry.owner, file.path, replacing(text), act)
        entry.removed_in = saved.file.version
        FileEntry.objects.filter(pk=entry.pk).update(removed_in=entry.removed_in)
        entry.trash(by=by)


def _locked_file(entry: FileEntry) -> MemoryFile:
    """Return the file at the entry's path, with its row and the entry's row locked."""
    file = rows_held(entry.owner, entry.path).get(entry.path)
    if file is None:
        params = {"path": entry.path}
        raise InvalidValue(
            _("%(path)s is in Trash. Restore the file first, then this section.") % params
        )
    # With two open tabs, the second one sees the result of the first.
    FileEntry.objects.select_for_update(no_key=True).get(pk=entry.pk)
    entry.refresh_from_db(fields=["trashed_at", "version", "removed_in"])
    return file


def _label(entry: FileEntry) -> str:
    return " › ".join(map(str, entry.heading)) or str(entry)


def returning(entry: FileEntry, file: MemoryFile) -> Return:
    """Return the text with the section at its place, based on the version that removed it."""
    version, one = entry.removed_in, _removed(entry)
    lost = had = None
    if entry.file_id == file.pk:
        lost, had = content_at(file, version), content_at(file, version - 1)
    if lost is None or had is None:
        stands = str(file.content)
        return Return(put_in(stands, one, had or ""), file.version, stands, had or "")
    return Return(put_in(lost, one, had), version, lost, had)


def _removed(entry: FileEntry) -> Removed:
    return tuple(entry.heading), entry.content
