"""Accounts from before there were memory files get their two by a migration."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from memory.files.first import first_fields
from memory.models import MemoryFile, Revision, User

migration = import_module("memory.migrations.0006_first_files")


def migrate_as_it_was() -> None:
    """Carry the migration out on the models as they were at the one before it."""
    loader = MigrationExecutor(connection).loader
    was = loader.project_state(("memory", "0005_memory_files")).apps
    migration.write_first_files(was, None)


@pytest.mark.requirement("R146")
def test_an_account_that_exists_gets_the_files_of_a_new_one(alice: User, bob: User):
    new = {file.path: file.snapshot() for file in MemoryFile.objects.of(alice)}
    MemoryFile.objects.of(alice).delete()

    migrate_as_it_was()
    migrate_as_it_was()

    assert {file.path: file.snapshot() for file in MemoryFile.objects.of(alice)} == new
    assert MemoryFile.objects.of(bob).count() == 2
    for file in MemoryFile.objects.of(alice):
        assert Revision.objects.get(record_id=file.pk).after == file.snapshot()


def test_it_writes_what_the_product_writes():
    for path in migration.TITLES:
        assert migration.fields_of(path, "2026-02-01") == first_fields(path, "2026-02-01")
