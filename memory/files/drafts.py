"""Drafts of memory files: unsaved text is kept on the server until it is saved or discarded.

Each editor window has an ID, which is also its draft's ID. There is one draft per file. A second
window doesn't overwrite it but gets an error. A window that opens the draft continues with its ID.
"""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import shorten
from memory.core.errors import MemoryRefused
from memory.core.file_format import NOTHING, checked_path, with_summary
from memory.files.texts import cleaned
from memory.models import FileDraft, MemoryFile, User

MOST_NOTE = 300  # characters, as the history's reason


class DraftTaken(MemoryRefused):
    """Another window has a draft of this file, so this window's text is only in its form."""

    def __init__(self) -> None:
        super().__init__(
            _(
                "Another window already has a draft of this file, so your text is kept only in this window. Open that draft, discard it, or save now."
            )
        )


def draft_of(owner: User, path: str) -> FileDraft | None:
    return FileDraft.objects.of(owner).filter(path=path).first()


def keep_draft(
    owner: User, path: str, content: str, *, note: str, seen: int, window: UUID
) -> FileDraft | None:
    """Keep unsaved text. Return None if it equals the stored text.

    Raises DraftTaken if another window has a draft with other text.
    """
    path, text = checked_path(path), cleaned(content).text
    with transaction.atomic():
        rows = FileDraft.objects.of(owner).select_for_update()
        kept: FileDraft | None = rows.filter(path=path).first()
        if kept is not None and kept.pk != window:
            if kept.content == text:
                return kept
            raise DraftTaken
        file = MemoryFile.objects.of(owner).live().filter(path=path).first()
        if file is not None and _is_stored(file, text, seen):
            drop_draft(owner, path, window)
            return None
        draft = kept or FileDraft(pk=window, owner=owner, path=path)
        draft.content, draft.seen, draft.updated = text, seen, timezone.now()
        draft.note = shorten(cleaned(note).text, MOST_NOTE)
        return _stored(draft, is_new=kept is None)


def _is_stored(file: MemoryFile, text: str, seen: int) -> bool:
    """Whether the text equals the stored file.

    A draft can arrive after the save from the same window. It was based on an older version, and
    the save has updated the summary line and ended the last line.
    """
    if file.content == text:
        return True
    return seen < file.version and _unsummed(file.content) == _unsummed(text)


def _unsummed(text: str) -> str:
    return with_summary(text, NOTHING).rstrip("\n")


def _stored(draft: FileDraft, *, is_new: bool) -> FileDraft:
    try:
        with transaction.atomic():
            draft.save(force_insert=is_new)
    except IntegrityError as exc:  # another window saved one at the same moment
        raise DraftTaken from exc
    return draft


def drop_draft(owner: User, path: str, window: UUID) -> None:
    """Discard this window's draft, but not another one's."""
    FileDraft.objects.of(owner).filter(path=path, pk=window).delete()


def drop_saved_draft(owner: User, path: str, window: UUID, content: str) -> None:
    """Discard drafts that a save made unnecessary: this window's, and another's with the same text."""
    is_saved = Q(pk=window) | Q(content=cleaned(content).text)
    FileDraft.objects.of(owner).filter(is_saved, path=path).delete()
