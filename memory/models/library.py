"""Documents that a person added, or that lie in a watched folder, for the library search."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models

from memory.models.base import Remembered, RememberedQuerySet


class LibraryDocument(Remembered):
    """One document: its text, and where it came from.

    `path` is the file below the watched folder, empty for a document added by hand; `digest` the
    SHA-256 of its bytes, by which a changed file is noticed.  Each version of a document has an
    address of its own (`library:<id>/<version>`), so a changed document is read again.
    """

    REVISED = ("title", "text", "path", "digest")

    title = models.CharField(max_length=500)
    text = models.TextField(blank=True)
    path = models.TextField(blank=True)
    media_type = models.CharField(max_length=100, blank=True)
    digest = models.CharField(max_length=64, blank=True)
    modified_at = models.DateTimeField(null=True, blank=True)
    problem = models.TextField(blank=True)
    words = SearchVectorField(null=True, editable=False)
    length = models.PositiveIntegerField(default=0, editable=False)

    objects: ClassVar[models.Manager[Any]] = RememberedQuerySet.as_manager()

    class Meta:
        ordering = ("-created", "-id")
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "path"],
                condition=~models.Q(path="") & models.Q(trashed_at=None),
                name="library_path_once_an_owner",
            )
        ]
        indexes = [
            GinIndex(fields=["words"], name="library_words"),
            models.Index(fields=["owner", "-created", "-id"], name="library_of_owner"),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def address(self) -> str:
        """Return the address by which a hit names this version of the document."""
        return f"library:{self.pk}/{self.version}"
