"""Accounts from before there were notes get theirs by a migration."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from memory.contexts.identity import active
from memory.models import Note, Revision, User, indexing
from memory.recall import bm25

migration = import_module("memory.migrations.0004_first_notes")


def migrate_as_it_was() -> None:
    """Carry the migration out on the models as they were at the one before it."""
    loader = MigrationExecutor(connection).loader
    was = loader.project_state(("memory", "0003_remembered")).apps
    migration.write_first_notes(was, SimpleNamespace(connection=connection))


def without_notes(user: User) -> User:
    indexing.unindex(list(Note.objects.of(user)))
    Note.objects.of(user).delete()
    return user


@pytest.mark.requirement("R245")
def test_an_account_that_exists_gets_the_notes_of_a_new_one(alice: User, bob: User):
    new = {note.kind: note.content for note in Note.objects.of(alice)}
    without_notes(alice)

    migrate_as_it_was()
    migrate_as_it_was()

    assert {note.kind: note.content for note in Note.objects.of(alice)} == new
    assert Note.objects.of(bob).count() == 3
    soul = active(alice, "soul")
    assert soul is not None and soul.stability == "permanent"
    assert Revision.objects.get(record_id=soul.pk).after.keys() == soul.snapshot().keys()


def test_its_notes_are_found_as_if_they_had_been_written(alice: User):
    written = bm25.search(alice, "note", "principles seven steps")
    without_notes(alice)

    migrate_as_it_was()

    found = bm25.search(alice, "note", "principles seven steps")
    assert [score for _id, score in found] == [score for _id, score in written]
    assert found[0][0] == active(alice, "soul").pk  # type: ignore[union-attr]


def test_the_migration_is_the_one_after_the_tables():
    assert ("memory", "0003_remembered") in migration.Migration.dependencies
    assert apps.get_model("memory", "Note") is Note
