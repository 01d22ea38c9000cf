"""A section that was taken out of a memory file, as it lies in the trash."""

from __future__ import annotations

from typing import Any

from django.db import models, transaction

from memory.actors import Actor
from memory.file_texts.outline import is_heading
from memory.file_texts.purging import Purged
from memory.file_texts.summaries import summary_of
from memory.models.base import Remembered
from memory.models.files import MemoryFile
from memory.models.history import Revision
from memory.texts.text import plain, shorten


class FileEntry(Remembered):
    """What a change of a file took away as a whole: its path of headings, and its text.

    Made in the transaction that saves the file (`memory.files.section_trash`).  `removed_in` is the
    file's version that has it no more: from the one before it is known where it stood.  Outside the
    trash the row only remembers that it was put back; the file holds the words.
    """

    REVISED = ("path", "heading", "content", "removed_in")

    file = models.ForeignKey(MemoryFile, models.CASCADE, related_name="entries")
    path = models.CharField(max_length=40)
    heading = models.JSONField(default=list)
    content = models.TextField(blank=True)
    removed_in = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ("-created",)
        verbose_name_plural = "file entries"
        indexes = [models.Index(fields=["file", "trashed_at"], name="file_entry_of_file")]

    def __str__(self) -> str:
        lines = (line for line in self.content.split("\n") if line.strip())
        first = next((line for line in lines if not is_heading(line)), "")
        parts = [" › ".join(map(str, self.heading)), self.path, shorten(plain(first), 60)]
        return " · ".join(filter(None, parts))

    def purge(self, *, by: Actor) -> None:
        """Delete it for good; by a person's hand its words go from the file's older versions, too.

        What only grew old in the trash leaves the history whole: nobody asked for a hole in it.
        """
        with transaction.atomic():
            self._hold_in_trash()
            if by.is_person and self.trashed_at is not None:
                self._take_from_history()
            super().purge(by=by)

    def _take_from_history(self) -> None:
        file = MemoryFile.objects.select_for_update().get(pk=self.file_id)
        purged = Purged(tuple(self.heading), self.content, str(file.content))

        def renew(fields: dict[str, Any]) -> dict[str, Any]:
            fresh = dict(fields)
            if "content" in fields:
                was = str(fields["content"])
                fresh["content"] = now = purged.taken_from(was)
                if "summary" in fields and summary_of(now) != summary_of(was):
                    fresh["summary"] = summary_of(now) or ""
            elif "summary" in fields:
                fresh["summary"] = purged.summary_without(str(fields["summary"]))
            return fresh

        Revision.rewrite(file, renew)

    def get_absolute_url(self) -> str:
        """Return the page of the file that it was taken from."""
        return self.file.get_absolute_url()
