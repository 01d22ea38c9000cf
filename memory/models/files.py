"""Memory files: Markdown that a person and an agent edit together, and their copies on disk (seed
003).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

from django.db import connection, models, transaction
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from beacon_site.db.message_fields import MessageField
from beacon_site.text.cleaning import plain, shorten
from memory.models import search_index
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, Locked
from memory.models.file_format import (
    AGENTS,
    MAX_PATH_LENGTH,
    MAX_SUMMARY_LENGTH,
    MOUNTED,
    PurgedSection,
    SectionText,
    agent_of,
    anchor_of,
    is_fact,
    is_heading,
    line_of,
    mounted_of,
    summary_of,
    summary_place,
    telling,
)
from memory.models.history import OwnedQuerySet, Revision
from memory.models.remembered import Lock, Remembered, RememberedQuerySet
from memory.models.search_index import Recalled

Placed = tuple[int, SectionText]


class MemoryFileQuerySet(RememberedQuerySet):
    def at(self, path: str) -> MemoryFileQuerySet:
        return self.filter(path=path)

    def facts(self) -> MemoryFileQuerySet:
        """Keep the two fact files, which share a size limit."""
        return self.filter(path__startswith="facts/")

    def shared(self) -> MemoryFileQuerySet:
        """Keep the files that all agents maintain, without agents' own and mounted folders."""
        return self.exclude(path__startswith=AGENTS).exclude(path__startswith=MOUNTED)

    def mounted(self, folder: str = "") -> MemoryFileQuerySet:
        return self.filter(path__startswith=f"{MOUNTED}{folder}/" if folder else MOUNTED)

    def of_agents(self) -> MemoryFileQuerySet:
        """Keep the files in the agents' own folders."""
        return self.filter(path__startswith=AGENTS)

    def own(self, folder: str) -> MemoryFileQuerySet:
        return self.filter(path__startswith=f"{AGENTS}{folder}/")


class MemoryFile(Remembered):
    """A memory file: the exact Markdown, and fields derived from it on each save.

    `summary` is the text of its `> Summary:` line and `summary_by` the line's author. A person's
    line is kept until a person empties it. `size` is in bytes of UTF-8. `blame` gives the version
    of each line, as runs `[lines, version]` from the top, and every revision keeps its own.
    `section_locks` lists the heading paths of sections that only a person can change (`["User",
    "Work"]`).
    """

    class SummaryBy(models.TextChoices):
        BEACON = "beacon", _lazy("Beacon")
        PERSON = "person", _lazy("a person")
        AGENT = "agent", _lazy("an agent")

    REVISED = ("content", "summary", "summary_by", "size", "blame", "lock", "section_locks")

    path = models.CharField(max_length=MAX_PATH_LENGTH)
    content = models.TextField(blank=True)
    summary = models.CharField(max_length=MAX_SUMMARY_LENGTH, blank=True)
    summary_by = models.CharField(
        max_length=6, choices=SummaryBy, default=SummaryBy.BEACON, editable=False
    )
    size = models.PositiveIntegerField(default=0)
    blame = models.JSONField(default=list, blank=True)
    section_locks = models.JSONField(default=list, blank=True)

    objects: ClassVar[models.Manager[Any]] = MemoryFileQuerySet.as_manager()

    # Called with owner ID and path after the commit of a change, so that the mirror writes the file.
    ON_CHANGE: ClassVar[list[Callable[[int, str], object]]] = []
    is_appended = False  # set by `memory.services.files.saving` for writes that only append

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
        return reverse("memory:file", args=[self.path])

    def summary_by_at(self, version: int) -> str:
        """Return who wrote the summary line of `version`."""
        if version >= self.version:
            return self.summary_by
        rows = Revision.objects.filter(
            record_type=self.record_type(),
            record_id=self.pk,
            version__lte=version,
            after__has_key="summary_by",
        ).order_by("-version", "-id")
        found = rows.values_list("after__summary_by", flat=True).first()
        return str(found or self.SummaryBy.BEACON)

    @property
    def summary_line(self) -> int:
        """Return the line number of the summary line in the text, or 0 if there is none."""
        place = summary_place(self.content)
        return 0 if place is None else place + 1

    @property
    def is_fact(self) -> bool:
        """Return True if this is one of the two fact files, which always exist."""
        return is_fact(self.path)

    @property
    def agent_folder(self) -> str:
        """The agent's folder that the file is in, or "" for a file that all agents maintain."""
        return agent_of(self.path)

    @property
    def mounted_folder(self) -> str:
        """The mounted folder that the file is in, or ""."""
        return mounted_of(self.path)

    @property
    def place_in_folder(self) -> str:
        """The file's path in its mounted folder."""
        return self.path.split("/", 2)[2] if self.mounted_folder else self.path

    def check_may_change(self, by: Actor) -> None:
        """Raise Locked if `by` can't change the file. Append-only locks allow appending."""
        if not (self.is_appended and self.lock == Lock.APPEND_ONLY):
            super().check_may_change(by)

    def change(self, *, by: Actor, **kwargs: Any) -> Self:
        """Change the file as Remembered.change does, then update its sections and the mirror.

        Only `memory.services.files.saving` changes its text, since it checks the limits. Raises Locked if
        anyone but a person locks or unlocks it.
        """
        if not by.is_person and kwargs.keys() & {"lock", "section_locks"}:
            params = {"label": str(self)}
            raise Locked(_("Only a person can lock or unlock “%(label)s”.") % params)
        with transaction.atomic():
            was, version = self._mirrored_fields(), self.version
            changed = super().change(by=by, **kwargs)
            if self._mirrored_fields() != was:
                Section.follow_file(self)
            if self.version != version:
                self.tell()
        return changed

    def _mirrored_fields(self) -> tuple[Any, ...]:
        return (self.content, self.trashed_at, self.trust, self.sensitivity)

    def tell(self) -> None:
        """Notify listeners of a change after the commit. Agents' own files have no copy on disk."""
        if self.agent_folder:
            return
        for told in self.ON_CHANGE:
            transaction.on_commit(partial(told, self.owner_id, self.path))

    def trash(self, *, by: Actor, why: str = "", source: str = "") -> None:
        """Move a month's file to Trash. Raises InvalidValue for a fact file."""
        self._check_deletable()
        super().trash(by=by, why=why, source=source)

    def purge(self, *, by: Actor) -> None:
        """Delete a month's file permanently. Raises InvalidValue for a fact file."""
        self._check_deletable()
        with transaction.atomic():
            Section.unfollow(self.sections.all())
            super().purge(by=by)
            self.tell()

    def purged_with(self) -> list[Remembered]:
        """Return the file and its removed sections in Trash."""
        return [self, *self.entries.all()]

    def _check_deletable(self) -> None:
        if self.is_fact:
            params = {"path": self.path}
            raise InvalidValue(_("%(path)s can’t be deleted. Empty it instead.") % params)


class Section(Recalled):
    """A section of a memory file, stored so that recall can find it.

    Sections are created and deleted only in the transaction that saves their file, which holds the
    text and the history. `heading` is the heading path, starting with the file's title.
    """

    SEARCH_TYPE = "section"
    IS_PART = True

    file = models.ForeignKey(MemoryFile, models.CASCADE, related_name="sections")
    position = models.PositiveIntegerField()
    heading = models.JSONField(default=list)
    content = models.TextField(blank=True)

    class Meta:
        ordering = ("file", "position")
        indexes = [models.Index(fields=["owner", "-created", "-id"], name="section_of_owner")]

    def __str__(self) -> str:
        return " › ".join(self.heading) or self.file.path

    def get_absolute_url(self) -> str:
        """Return the section's place on its file's page."""
        return f"{self.file.get_absolute_url()}#{anchor_of(self.heading)}"

    def search_text(self) -> str:
        return self.content

    @classmethod
    def follow_file(cls, file: MemoryFile) -> None:
        """Update section rows and the search index from the file's text, in the caller's
        transaction.

        A section with the same text, or else the same heading path, keeps its row, so that
        references to it stay valid.
        """
        told = (
            []
            if file.trashed_at is not None
            else telling(file.content, without=generated_line(file))
        )
        rows = cls.objects.filter(file=file).order_by("position")
        known = [_Known(*row) for row in rows.values_list("pk", "position", "heading", "content")]
        kept, left = _paired(known, enumerate(told), lambda heading, text: (heading, text))
        changed, made = _paired(known, left, lambda heading, _text: heading)
        if known:
            cls.unfollow(_Entry(row.pk, file.owner_id) for row in known)
            cls.objects.filter(pk__in=[row.pk for row in known]).delete()
        cls._place([*kept, *changed])
        marks = {"source": file.source, "trust": file.trust, "sensitivity": file.sensitivity}
        if rows.exclude(**marks).update(**marks):
            entries = [_Entry(row.pk, file.owner_id) for row, _place, _one in kept]
            search_index.mark(entries, trust=file.trust, sensitivity=file.sensitivity)
        fresh = [
            cls(
                owner_id=file.owner_id, file=file, position=place, heading=list(one.heading),
                content=one.text, **marks,
            )
            for place, one in made
        ]  # fmt: skip
        cls.objects.bulk_create(fresh)
        again = cls.objects.filter(pk__in=[row.pk for row, _place, _one in changed])
        written = [*again, *fresh]
        for row in written:
            row.file = file
        cls.follow(written)

    @classmethod
    def _place(cls, rows: list[tuple[_Known, int, SectionText]]) -> None:
        """Store changes of the remaining rows in one statement."""
        moved = [
            (row.pk, place, one.text)
            for row, place, one in rows
            if (row.position, row.content) != (place, one.text)
        ]
        if not moved:
            return
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE memory_section AS old SET position = new.position, content = new.content, "
                "updated = now() FROM unnest(%s::uuid[], %s::int[], %s::text[]) "
                "AS new (id, position, content) WHERE old.id = new.id",
                [list(column) for column in zip(*moved, strict=True)],
            )


class _Known(NamedTuple):
    """An existing row."""

    pk: uuid.UUID
    position: int
    heading: list[str]
    content: str


class _Entry(NamedTuple):
    """A section in the search index, without its text."""

    pk: uuid.UUID
    owner_id: int

    def search_type(self) -> str:
        return Section.SEARCH_TYPE


def generated_line(file: MemoryFile) -> str:
    """Return the summary line if Beacon generated it, because it only repeats the sections."""
    return line_of(file.summary) if file.summary_by == MemoryFile.SummaryBy.BEACON else ""


def _paired(
    known: list[_Known], told: Iterable[Placed], key: Callable[[Any, str], Any]
) -> tuple[list[tuple[_Known, int, SectionText]], list[Placed]]:
    """Match rows in `known` to sections with the same key. Return the pairs and the remaining
    sections.
    """
    by_key: dict[Any, list[_Known]] = {}
    for row in reversed(known):
        by_key.setdefault(key(tuple(row.heading), row.content), []).append(row)
    pairs, left = [], []
    for place, one in told:
        rows = by_key.get(key(one.heading, one.text))
        if rows:
            pairs.append((rows.pop(), place, one))
        else:
            left.append((place, one))
    taken = {row.pk for row, _place, _one in pairs}
    known[:] = [row for row in known if row.pk not in taken]
    return pairs, left


class FileDraft(models.Model):
    """Unsaved text from a file's editor, and the version it is based on."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    path = models.CharField(max_length=MAX_PATH_LENGTH)
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


class MirroredFileQuerySet(OwnedQuerySet):
    def of_mirror(self) -> Self:
        """Keep the files of BEACON_MIRROR_DIR."""
        return self.exclude(path__startswith=MOUNTED)

    def of_folder(self, name: str) -> Self:
        return self.filter(path__startswith=f"{MOUNTED}{name}/")


class MountedFolder(models.Model):
    """A folder of an agent (BEACON_AGENT_DIRS), with what its last check found.

    `real_path` is where `place` led when it was first read. If it leads elsewhere later, nothing is read.
    `skipped` lists up to 50 files that aren't shown, as `[path, code]`.
    """

    class Layout(models.TextChoices):
        CLAUDE = "claude", "Claude Code"
        CODEX = "codex", "Codex"
        REPOSITORY = "repository", _lazy("repository")
        LETTA = "letta", "Letta"
        VAULT = "vault", _lazy("Markdown folder")

    class Problem(models.TextChoices):
        MISSING = (
            "missing",
            _lazy(
                "The folder doesn’t exist. Files imported from it stay in Beacon, and nothing is written to disk."
            ),
        )
        MOVED = (
            "moved",
            _lazy("The path now points to a different folder, so nothing is read or written."),
        )
        UNREADABLE = "unreadable", _lazy("The folder can’t be read.")
        READ_ONLY = (
            "read-only",
            _lazy(
                "Beacon can’t write to the folder. It will save your edits there as soon as it can."
            ),
        )
        UNMOUNTED = (
            "unmounted",
            _lazy("The folder is no longer in BEACON_AGENT_DIRS. Its files stay in Beacon."),
        )

    class Skipped(models.TextChoices):
        NAME = "name", _lazy("its name has characters that can’t be shown")
        LINK = "link", _lazy("it’s a link, and Beacon doesn’t follow links")
        LARGE = "large", _lazy("it’s too large")
        BINARY = "binary", _lazy("it isn’t UTF-8 text")
        MANY = "many", _lazy("the folder has more files than Beacon can list")
        REFUSED = "refused", _lazy("it couldn’t be stored")

    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    name = models.CharField(max_length=40, unique=True)
    place = models.CharField(max_length=1000)
    real_path = models.CharField(max_length=1000, blank=True)
    layout = models.CharField(max_length=10, choices=Layout, blank=True)
    problem = models.CharField(max_length=10, choices=Problem, blank=True)
    detail = models.CharField(max_length=300, blank=True)
    files = models.PositiveIntegerField(default=0)
    skipped = models.JSONField(default=list, blank=True)
    checked_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[models.Manager[Any]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def skipped_files(self) -> list[tuple[str, str]]:
        """Return the files that aren't shown, each with the reason."""
        labels = dict(self.Skipped.choices)
        return [(path, str(labels.get(code, code))) for path, code in self.skipped]


class MirroredFile(models.Model):
    """The state of one mirrored file when it was last written to disk or read from it.

    `version` and `digest` (SHA-256 of the bytes) are the file's at that time. If the bytes on disk
    have another digest, they were edited, based on that version. `problem` says why an edit on disk
    wasn't imported, and `refused` is its digest, so that it's reported once.
    """

    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    path = models.CharField(max_length=MAX_PATH_LENGTH)
    version = models.PositiveIntegerField(default=0)
    digest = models.CharField(max_length=64, blank=True)
    stamp = models.CharField(max_length=80, blank=True)  # inode, size, mtime: cheap to compare
    refused = models.CharField(max_length=64, blank=True)
    problem = MessageField(blank=True)
    synced_at = models.DateTimeField(default=timezone.now)
    committed = models.PositiveIntegerField(default=0)  # the version in git

    objects: ClassVar[models.Manager[Any]] = MirroredFileQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "path"], name="mirrored_file_once_a_path")
        ]

    def __str__(self) -> str:
        return self.path


# --- sections removed from a memory file, in Trash ---


class FileEntry(Remembered):
    """A whole section that a change removed from a file: its heading path and text.

    Created in the transaction that saves the file (`memory.services.files.texts`). `removed_in` is the
    first version without it, so the version before says where it was. After a restore the row only
    records that it was restored. The file holds the text.
    """

    REVISED = ("path", "heading", "content", "removed_in")

    file = models.ForeignKey(MemoryFile, models.CASCADE, related_name="entries")
    path = models.CharField(max_length=MAX_PATH_LENGTH)
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
        """Delete it permanently. If a person does so, its text is also removed from older versions.

        When it only expired in Trash, the history stays complete, since no one asked to purge it.
        """
        with transaction.atomic():
            self._hold_in_trash()
            if by.is_person and self.trashed_at is not None:
                self._take_from_history()
            super().purge(by=by)

    def _take_from_history(self) -> None:
        file = MemoryFile.objects.select_for_update().get(pk=self.file_id)
        purged = PurgedSection(tuple(self.heading), self.content, str(file.content))

        def renew(fields: dict[str, Any]) -> dict[str, Any]:
            fresh = dict(fields)
            if "content" in fields:
                was = str(fields["content"])
                fresh["content"] = now = purged.without_section(was)
                if "summary" in fields and summary_of(now) != summary_of(was):
                    fresh["summary"] = summary_of(now) or ""
            elif "summary" in fields:
                fresh["summary"] = purged.summary_without(str(fields["summary"]))
            return fresh

        Revision.rewrite(file, renew)

    def get_absolute_url(self) -> str:
        """Return the page of the file it was removed from."""
        return self.file.get_absolute_url()


# --- mirror folder ---

ONLY = 1  # the key of the only row


class MirrorFolder(models.Model):
    """The mirror folder of this Beacon.

    `identity` is also in the folder's `.beacon` file, so that two Beacons never use the same
    folder. `root` is the account whose files are at the top level: the first account. `place` is
    the folder's last path. `problem` says why nothing is written or read, and is empty otherwise.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONLY, editable=False)
    identity = models.UUIDField(default=uuid.uuid4)
    root = models.ForeignKey("memory.User", models.SET_NULL, null=True, related_name="+")
    place = models.TextField(blank=True)
    problem = MessageField(blank=True)
    git_problem = models.TextField(blank=True)  # why BEACON_MIRROR_GIT creates no commits

    def __str__(self) -> str:
        return str(self.identity)
