"""Merge a text based on an older version with what was saved since."""

from __future__ import annotations

from typing import NamedTuple

from beacon_site.text.merge import Merge, merge
from memory.core.file_format import NOTHING, summary_of, with_summary
from memory.files.blame import Runs
from memory.files.limits import FileConflict
from memory.models import MemoryFile, Revision


class EarlierVersion(NamedTuple):
    """An earlier text of a file, and the version of each of its lines."""

    content: str
    blame: Runs


def content_at(file: MemoryFile, version: int) -> str | None:
    """Return the file's text of a version, or None if there was no such version."""
    kept = kept_at(file, version)
    return kept.content if kept else None


def kept_at(file: MemoryFile, version: int) -> EarlierVersion | None:
    """Return the file's text and blame of a version, or None if there was no such version."""
    if version == file.version:
        return EarlierVersion(str(file.content), file.blame)
    if not 0 < version < file.version:
        return None
    told = Revision.objects.filter(record_type=file.record_type(), record_id=file.pk)
    upto = told.filter(version__lte=version).order_by("-version", "-id")
    # One by one from that version down, usually one step. In a single query, Postgres would unpack
    # the whole text of every revision to see whether it has one.
    for pk in upto.values_list("pk", flat=True).iterator(chunk_size=500):
        after = told.filter(pk=pk).values_list("after", flat=True).get()
        if "content" in after:
            return EarlierVersion(str(after["content"]), after.get("blame") or [])
    return None


def joined(file: MemoryFile, mine: str, *, seen: int | None, join: bool) -> tuple[str, bool]:
    """Return the text to store, and whether it was merged with later changes by others.

    With `seen` None the current text is overwritten. Raises FileConflict if both changed the same
    lines, if `join` is off, or if `seen` isn't a version of this file (0: it was supposed to be
    new).
    """
    if seen in (None, file.version) or mine == file.content:
        return mine, False
    known = content_at(file, seen or 0)
    if known == file.content:  # the later change isn't to the text, such as a lock
        return mine, False
    base, theirs = known or "", str(file.content)
    both = merge_changes(base, mine, theirs)
    if not join or known is None or both.conflicts:
        raise FileConflict(
            file.path, version=file.version, base=base, mine=mine, theirs=theirs, merge=both
        )
    return both.text(), True


def merge_changes(base: str, mine: str, theirs: str) -> Merge:
    """Return two changes of `base` merged.

    The summary line never conflicts. If `mine` changed or emptied it, that counts, otherwise the
    one of `theirs`.
    """
    was, written, stands = summary_of(base), summary_of(mine), summary_of(theirs)
    kept = (written or NOTHING) if written != was else stands
    if kept and was and stands:
        base, mine, theirs = (with_summary(text, kept) for text in (base, mine, theirs))
    return merge(base, mine, theirs)
