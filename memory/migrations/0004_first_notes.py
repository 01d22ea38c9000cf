"""Accounts that exist get what a new one starts with: soul, agent and user note (R245).

The rows are written and indexed as the tables are at this migration, so that it goes on working
whatever the models become.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.db import migrations
from django.db.models import Q
from django.template.loader import render_to_string
from django.utils import timezone

from memory.texts.terms import stemmed_as, vector_of

SOURCE, ACTOR = "explicit", "system"
INDEX = (
    "INSERT INTO memory_searchentry "
    "(space_id, record_id, length, words, kind, topic_id, created, until, stands, trust, sensitivity) "
    "VALUES (%s, %s, %s, %s::tsvector, %s, NULL, %s, NULL, true, 'owner', 'normal') "
    "ON CONFLICT (space_id, record_id) DO NOTHING"
)


def texts_of(person: Any) -> dict[str, str]:
    """Return what each of the three notes says."""
    from memory.contexts.identity import (  # needs the apps, which are ready now
        first_persona,
        first_soul,
    )

    name = person.display_name or person.username
    profile = render_to_string("memory/user_note.md", {"person": person, "name": name})
    return {"soul": first_soul(), "agent": first_persona().as_text(), "user": profile.strip()}


def write_first_notes(apps: Any, schema_editor: Any) -> None:
    """Write each account's notes where it has none of the kind, and index them."""
    User, Note = apps.get_model("memory", "User"), apps.get_model("memory", "Note")
    Space, Revision = (apps.get_model("memory", n) for n in ("SearchSpace", "Revision"))
    for person in User.objects.order_by("pk").iterator():
        standing = Note.objects.filter(Q(owner=person, superseded_by=None, trashed_at=None))
        kinds = set(standing.values_list("kind", flat=True))
        now = timezone.now()
        made = [
            Note(
                id=uuid.uuid4(), owner=person, kind=kind, content=text, stability="permanent",
                source=SOURCE, trust="owner", created=now, updated=now,
            )
            for kind, text in texts_of(person).items()
            if kind not in kinds
        ]  # fmt: skip
        Note.objects.bulk_create(made)
        Revision.objects.bulk_create(_first_revision(Revision, note) for note in made)
        space, _is_new = Space.objects.get_or_create(
            owner=person, record_type="note", defaults={"language": stemmed_as(person.language)}
        )
        for note in made:
            words, length = vector_of(note.content, "", space.language)
            with schema_editor.connection.cursor() as cursor:
                cursor.execute(INDEX, [space.pk, note.pk, length, words, note.kind, now])


def _first_revision(model: Any, note: Any) -> Any:
    after = {
        "kind": note.kind, "content": note.content, "scope": note.scope, "tags": [],
        "confidence": note.confidence, "stability": note.stability, "ttl_days": None,
        "expires_at": None, "sensitivity": note.sensitivity, "evidence": [],
        "superseded_by_id": None, "pinned": False, "lock": note.lock,
    }  # fmt: skip
    return model(
        owner_id=note.owner_id, record_type="note", record_id=note.pk, version=1, actor=ACTOR,
        source=SOURCE, label=" ".join(note.content.split())[:120], after=after,
    )  # fmt: skip


class Migration(migrations.Migration):
    """Data only; taking it back leaves the notes, which their owners may have changed."""

    dependencies = [
        ("memory", "0003_remembered"),
    ]

    operations = [
        migrations.RunPython(write_first_notes, migrations.RunPython.noop),
    ]
