"""Where an accepted proposal is taken back: the way that the record has for it anyway."""

from __future__ import annotations

from django.urls import reverse

from memory.models import Note, Remembered, Revision


def address(record: Remembered) -> str:
    """Return the address whose POST takes the record's last change back; empty where there is none."""
    if isinstance(record, Note):
        older = Note.objects.filter(superseded_by=record).order_by("-created").first()
        if older is not None and record.kind == Note.Kind.SOUL:
            return reverse("memory:soul-bring-back", args=[older.pk])
        if older is not None:
            return reverse("memory:note-unsupersede", args=[record.pk])
    made = Revision.objects.filter(record_type=record.record_type(), record_id=record.pk)
    last = made.order_by("-id").first()
    if last is None:
        return ""
    return reverse("memory:record-undo", args=[record.record_type(), record.pk, last.pk])
