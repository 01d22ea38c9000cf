"""Library: documents that a person added or that are in the watched folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import date
from typing import Any, ClassVar, Self

from django.db import models, transaction
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from beacon_site.db.message_fields import MessageField
from beacon_site.text.canonical_urls import canonical_url, domain_of
from memory.models import search_index
from memory.models.actors import Actor
from memory.models.history import OwnedQuerySet, Revision
from memory.models.remembered import Remembered, RememberedQuerySet

ADDRESS = re.compile(r"library:([0-9a-f-]{36})/(\d{1,9})")


def page_of(address: str) -> str:
    """Return the identity of a page across versions and spellings.

    This is a document's URL without the version, or the canonical URL of a web page.
    """
    named = ADDRESS.fullmatch(address)
    if named:
        return f"library:{named.group(1)}"
    try:
        return canonical_url(address)
    except ValueError:
        return address


# The folder's documents have their own search space: everyone reads them, and term statistics
# must not reveal anything about a person's own documents.
OWN, FOLDER = "librarydocument", "libraryfolder"


class LibraryQuerySet(RememberedQuerySet):
    def readable_by(self, user: Any) -> Self:
        """Keep what `user` can read: their own documents and those of the watched folder."""
        return self.filter(Q(owner=user) | ~Q(path=""))

    def from_folder(self) -> Self:
        """Keep documents that are, or were, in the watched folder."""
        return self.exclude(path="")

    def add(
        self, documents: Sequence[LibraryDocument], *, by: Actor, source: str = ""
    ) -> Sequence[LibraryDocument]:
        """Store new documents with their first revision, and index them."""
        with transaction.atomic():
            self.bulk_create(documents)
            Revision.record_first(documents, by=by, source=source)
            search_index.index(document for document in documents if not document.problem)
        return documents


class LibraryDocument(Remembered):
    """A document: its text and origin.

    `path` is relative to the watched folder, or empty for a document added by hand. `url` is the web
    page that it was saved from. `digest`
    (SHA-256 of the bytes) and `size` show whether a file changed. `problem` says why a file
    couldn't be read. Each version of the text has its own URL (`library:<id>/<content version>`),
    so that runs read a changed document again, but not one that was only restored from Trash.
    """

    REVISED = ("title", "text", "path", "digest")

    title = models.CharField(max_length=500)
    text = models.TextField(blank=True)
    path = models.TextField(blank=True)
    url = models.TextField(blank=True)
    media_type = models.CharField(max_length=100, blank=True)
    digest = models.CharField(max_length=64, blank=True)
    size = models.PositiveIntegerField(default=0)
    modified_at = models.DateTimeField(null=True, blank=True)
    problem = MessageField(blank=True)
    content_version = models.PositiveIntegerField(default=1)

    objects: ClassVar[LibraryQuerySet] = LibraryQuerySet.as_manager()  # type: ignore[assignment]

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
            models.Index(fields=["owner", "-created", "-id"], name="library_of_owner"),
            models.Index(
                fields=["-created", "-id"], condition=~models.Q(path=""), name="library_of_folder"
            ),
        ]

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("memory:library-document", args=[self.pk])

    @property
    def address(self) -> str:
        """Return the URL by which a search result names this version."""
        return f"library:{self.pk}/{self.content_version}"

    @property
    def link(self) -> str:
        """Return the URL if a browser can follow it. An imported archive can have any text."""
        return self.url if self.url.startswith(("https://", "http://")) else ""

    @property
    def site(self) -> str:
        """Return the domain of the web page, or ""."""
        return domain_of(self.url) if self.url else ""

    @property
    def day(self) -> date:
        """Return the date of the last change: the file's, or the last edit's."""
        return (self.modified_at or self.updated).date()

    @property
    def is_imported(self) -> bool:
        """Return True if an import of another app's export brought it."""
        return self.source.startswith("import:")

    @property
    def is_markdown(self) -> bool:
        """Return True if the text is displayed as Markdown."""
        return self.media_type == "text/markdown"

    def search_type(self) -> str:
        """Return the search type: the owner's own documents, or the folder's."""
        return FOLDER if self.path else OWN

    @property
    def named(self) -> str:
        """Return the title and the folder, which often says what a file is about."""
        return f"{self.title} {self.path.rpartition('/')[0]}".strip()

    def search_text(self) -> str:
        return f"{self.named}\n{self.text}"

    def search_marks(self) -> search_index.FilterFields:
        return search_index.FilterFields(trust=self.trust, sensitivity=self.sensitivity)

    def change(self, **how: Any) -> Self:
        """Change fields as any record does, and update the index in the same transaction."""
        if any(name in how and how[name] != getattr(self, name) for name in ("title", "text")):
            how["content_version"] = (how.get("expected_version") or self.version) + 1
        with transaction.atomic():
            super().change(**how)
            if self.trashed_at is None and not self.problem:
                search_index.index([self])
            else:
                search_index.unindex([self])
        return self

    @classmethod
    def change_many(cls, wanted: Sequence[tuple[Self, dict[str, Any]]], **how: Any) -> None:
        """Change fields other than the title and text of several documents, and update the index."""
        super().change_many(wanted, **how)
        documents = [document for document, _fields in wanted]
        found = [one for one in documents if one.trashed_at is None and not one.problem]
        search_index.index(found)
        search_index.unindex([one for one in documents if one not in found])

    def rewrite(
        self, *, title: str, text: str, by: Actor, expected_version: int, why: str = ""
    ) -> Self:
        """Store a person's edit if the document is unchanged since `expected_version`.

        Raises StaleWrite or Locked, and then nothing is stored.
        """
        content = text.encode()
        return self.change(
            by=by,
            expected_version=expected_version,
            why=why,
            title=title,
            text=text,
            digest=hashlib.sha256(content).hexdigest(),
            size=len(content),
        )

    def purge(self, *, by: Actor) -> None:
        """Delete the document permanently, with its history and index entry."""
        with transaction.atomic():
            search_index.unindex([self])
            super().purge(by=by)

    def text_at(self, version: int) -> str | None:
        """Return the text of `version` from the revisions, or None if there was no such version."""
        if not 1 <= version <= self.version:
            return None
        later = Revision.objects.filter(
            record_type=self.record_type(), record_id=self.pk, version__gt=version
        ).order_by("version")
        changes = later.filter(before__has_key="text").values_list("before__text", flat=True)
        before = changes.first()
        return self.text if before is None else str(before)


class LibraryFolder(models.Model):
    """The state of the watched folder: the account that owns its documents, and the last scan.

    There is only one, `BEACON_LIBRARY_DIR`. `files` counts the searchable files, and `remaining` those
    the last scan had no time for.
    """

    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    folder = models.TextField()
    checked_at = models.DateTimeField(null=True)
    files = models.PositiveIntegerField(default=0)
    unreadable = models.PositiveIntegerField(default=0)
    remaining = models.PositiveIntegerField(default=0)
    problem = MessageField(blank=True)

    objects: ClassVar[models.Manager[LibraryFolder]] = OwnedQuerySet.as_manager()

    def __str__(self) -> str:
        return self.folder

    @property
    def age(self) -> float:
        """Return the seconds since the last scan, or infinity before the first."""
        if self.checked_at is None:
            return float("inf")
        return (timezone.now() - self.checked_at).total_seconds()
