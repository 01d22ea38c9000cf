"""Reading memory files: one, all of them or their index, and the first two files of an account."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils import timezone

from memory.models import MemoryFile, Revision, User, as_of
from memory.models.actors import SYSTEM
from memory.models.file_format import FACTS, by_rule, checked_path, place_of, with_summary
from memory.services.files import mirror
from memory.services.files.texts import NoSuchFile, carried, first_text, format_size, size_of

SOURCE = "explicit"


def first_fields(path: str, day: str) -> dict[str, object]:
    """Return the fields of a new fact file."""
    text = first_text(path, day)
    summary = by_rule(path, text)
    text = with_summary(text, summary)
    return {
        "path": path,
        "content": text,
        "summary": summary,
        "size": size_of(text),
        "blame": carried([], "", text, 1),
    }


def make_first_files(user: User) -> None:
    """Create the account's missing fact files. There is nothing to recall yet."""
    now = timezone.now()
    there = set(MemoryFile.objects.for_user(user).live().values_list("path", flat=True))
    files = [
        MemoryFile(
            owner=user, source=SOURCE, created=now, updated=now,
            **first_fields(path, now.date().isoformat()),
        )
        for path in FACTS
        if path not in there
    ]  # fmt: skip
    MemoryFile.objects.bulk_create(files)
    Revision.record_first(files, by=SYSTEM, source=SOURCE)
    for file in files:
        file.tell()


# --- reading ---

INDEX_BEGINS = "Available memory:"
INDEX_ENDS = "Use memory_read to load relevant files before responding."


def read_file(owner: User, path: str) -> MemoryFile:
    """Return the file at `path`. Raises InvalidValue for an invalid path, NoSuchFile for a missing
    file.
    """
    path = checked_path(path)
    if as_of.current() is None:
        mirror.import_edits(owner)
    file: MemoryFile | None = MemoryFile.objects.for_user(owner).live().filter(path=path).first()
    if file is None:
        raise NoSuchFile(path, [one.path for one in _files(owner)])
    return file


def files_of(owner: User) -> list[MemoryFile]:
    """Return the shared files without their text: facts first, then the months, oldest first."""
    if as_of.current() is None:
        mirror.import_edits(owner)
    return _files(owner)


def index_text(owner: User) -> str:
    """Return the index of the files as an agent gets it at the start of a task (R157, R158, R244)."""
    return index_of(files_of(owner))


def index_of(files: Iterable[MemoryFile]) -> str:
    """Return the index of these files.

    Sensitive and quarantined files are left out, because the index goes to a provider.
    """
    shown = [file for file in files if file.is_for_agents]
    lines = [f"- {file.path} ({format_size(file.size)}): {file.summary}" for file in shown]
    return "\n".join([INDEX_BEGINS, *lines, "", INDEX_ENDS])


def _files(owner: User) -> list[MemoryFile]:
    rows = MemoryFile.objects.for_user(owner).live().shared().defer("content", "blame")
    return sorted(rows, key=lambda file: place_of(file.path))
