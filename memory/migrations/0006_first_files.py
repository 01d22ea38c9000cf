"""Accounts that exist get what a new one starts with: the two fact files (R139, R146).

They are written as the tables are at this migration, so that it goes on working whatever the models
become.  A first file says nothing that recall could find, so there is nothing to index.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.db import migrations
from django.utils import timezone

SOURCE, ACTOR = "explicit", "system"
TITLES = {"facts/user.md": "User", "facts/memory.md": "Memory"}


def fields_of(path: str, day: str) -> dict[str, Any]:
    """Return what a fact file says at first."""
    text = f"# {TITLES[path]}\n\n> Summary: nothing yet\n\n- Updated: {day}\n"
    return {
        "path": path, "content": text, "summary": "nothing yet", "size": len(text.encode()),
        "blame": [[text.count("\n"), 1]],
    }  # fmt: skip


def write_first_files(apps: Any, schema_editor: Any) -> None:
    """Write each account's fact files where it has none."""
    User, File = apps.get_model("memory", "User"), apps.get_model("memory", "MemoryFile")
    Revision = apps.get_model("memory", "Revision")
    for person in User.objects.order_by("pk").iterator():
        now = timezone.now()
        there = File.objects.filter(owner=person, trashed_at=None)
        paths = set(there.values_list("path", flat=True))
        made = [
            File(
                id=uuid.uuid4(), owner=person, source=SOURCE, trust="owner", created=now,
                updated=now, **fields_of(path, now.date().isoformat()),
            )
            for path in TITLES
            if path not in paths
        ]  # fmt: skip
        File.objects.bulk_create(made)
        Revision.objects.bulk_create(_first_revision(Revision, file) for file in made)


def _first_revision(model: Any, file: Any) -> Any:
    after = {
        "content": file.content, "summary": file.summary, "summary_by": "beacon",
        "size": file.size, "blame": file.blame, "lock": file.lock, "section_locks": [],
    }  # fmt: skip
    return model(
        owner_id=file.owner_id, record_type="memoryfile", record_id=file.pk, version=1,
        actor=ACTOR, source=SOURCE, label=file.path, after=after,
    )  # fmt: skip


class Migration(migrations.Migration):
    """Data only; taking it back leaves the files, which their owners may have changed."""

    dependencies = [
        ("memory", "0005_memory_files"),
    ]

    operations = [
        migrations.RunPython(write_first_files, migrations.RunPython.noop),
    ]
