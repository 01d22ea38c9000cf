"""The two fact files with which an account begins: version 1, in seed 003's format."""

from __future__ import annotations

from django.utils import timezone

from memory.actors import SYSTEM
from memory.file_texts.paths import FACTS
from memory.file_texts.summaries import by_rule, with_summary
from memory.files.blame import carried
from memory.files.limits import size_of
from memory.files.services import first_text
from memory.models import MemoryFile, Revision, User

SOURCE = "explicit"


def first_fields(path: str, day: str) -> dict[str, object]:
    """Return what a new fact file holds."""
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
    """Make the account's fact files, each where there is none; there is nothing yet to recall."""
    now = timezone.now()
    there = set(MemoryFile.objects.of(user).live().values_list("path", flat=True))
    made = [
        MemoryFile(
            owner=user, source=SOURCE, created=now, updated=now,
            **first_fields(path, now.date().isoformat()),
        )
        for path in FACTS
        if path not in there
    ]  # fmt: skip
    MemoryFile.objects.bulk_create(made)
    Revision.record_first(made, by=SYSTEM, source=SOURCE)
    for file in made:
        file.tell()
