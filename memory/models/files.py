"""Memory files: Markdown that a person and an agent keep together (seed 003, decision 3.4)."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from memory.models.base import Remembered, RememberedQuerySet
from memory.models.history import OwnedQuerySet
from memory.models.recalled import Recalled

LONGEST_SUMMARY = 400  # characters that a summary line of a person's own may have


class MemoryFileQuerySet(RememberedQuerySet):
    """The questions asked of memory files."""

    def at(self, path: str) -> MemoryFileQuerySet:
        """Keep the file at this virtual path."""
        return self.filter(path=path)

    def facts(self) -> MemoryFileQuerySet:
        """Keep the two fact files, which share one budget of bytes."""
        return self.filter(path__startswith="facts/")

    def episodes(self) -> MemoryFileQuerySet:
        """Keep the months' files."""
        return self.filter(path__startswith="episodes/")


class MemoryFile(Remembered):
    """One file of its owner: the exact Markdown, and what is worked out from it in each save.

    `summary` is the text of its `> Summary:` line, `size` its bytes in UTF-8.  `blame` says which
    version each line is from, as runs `[lines, version]` from the top; every revision keeps its
    own.  `section_locks` names the sections that only a person may change, each by its heading
    path (`["User", "Work"]`).
    """

    REVISED = ("content", "summary", "size", "blame", "lock", "section_locks")

    path = models.CharField(max_length=40)
    content = models.TextField(blank=True)
    summary = models.CharField(max_length=LONGEST_SUMMARY, blank=True)
    size = models.PositiveIntegerField(default=0)
    blame = models.JSONField(default=list, blank=True)
    section_locks = models.JSONField(default=list, blank=True)

    objects: ClassVar[models.Manager[Any]] = MemoryFileQuerySet.as_manager()

    class Meta:
        ordering = ("path",)
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "path"], condition=Q(trashed_at=None), name="memory_file_once"
            )
        ]

    def __str__(self) -> str:
        return self.path

    def get_absolute_url(self) -> str:
        """Return the page on which a person reads and edits it."""
        return reverse("memory:file", args=[self.path])


class Section(Recalled):
    """A part of a memory file under one heading, so that recall finds it on its own.

    Made and removed in the transaction that saves its file, and never changed by anybody else: the
    file holds the text and the history.  `heading` is the path of headings, the file's title first.
    """

    SEARCH_TYPE = "section"

    file = models.ForeignKey(MemoryFile, models.CASCADE, related_name="sections")
    position = models.PositiveIntegerField()
    heading = models.JSONField(default=list)
    content = models.TextField(blank=True)

    class Meta:
        ordering = ("file", "position")
        indexes = [models.Index(fields=["owner", "-created", "-id"], name="section_of_owner")]

    def __str__(self) -> str:
        return " › ".join(self.heading) or self.file.path

    def search_text(self) -> str:
        """Return the section with its heading: what a person would search for."""
        return self.content


class FileDraft(models.Model):
    """What somebody typed into a file's editor and has not saved, with the version it began from."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    path = models.CharField(max_length=40)
    content = models.TextField(blank=True)
    note = models.CharField(max_length=300, blank=True)
    seen = models.PositiveIntegerField(default=0)  # 0: the file did not exist
    updated = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[FileDraft]] = OwnedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "path"], name="file_draft_once_a_path")
        ]

    def __str__(self) -> str:
        return self.path


class MirroredFile(models.Model):
    """What the mirror last wrote to, or took in from, the disk for one path of one owner.

    `version` and `digest` (SHA-256 of the bytes) are those of the file then: an edit on disk is one
    whose bytes have another digest, and is based on that version.  `problem` says why a file on
    disk was not taken in; `refused` is the digest it had, so that it is told once.
    """

    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    path = models.CharField(max_length=40)
    version = models.PositiveIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)
    stamp = models.CharField(max_length=80, blank=True)  # inode, size, mtime: cheap to compare
    refused = models.CharField(max_length=64, blank=True)
    problem = models.TextField(blank=True)
    at = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[MirroredFile]] = OwnedQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "path"], name="mirrored_file_once_a_path")
        ]

    def __str__(self) -> str:
        return self.path
