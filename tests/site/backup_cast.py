"""What the tests of backups share."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from beacon_site.launcher import backups
from tests.memory.embedding_cast import drop_vectors


@pytest.fixture(autouse=True)
def _no_vectors_are_left(db: None) -> Iterator[None]:
    """A restore makes the tables of vectors; other tests begin without.

    It refuses a database that others use, and threads of an earlier test may be connected still.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    yield
    drop_vectors()


def rows() -> dict[str, set[str]]:
    """Every row of every table but those that are left out, as text."""
    found = {}
    with connection.cursor() as cursor:
        for name in sorted(connection.introspection.table_names(cursor)):
            if name not in backups.WITHOUT_ROWS and not name.startswith("embedding_"):
                cursor.execute(f'SELECT whole_row::text FROM "{name}" whole_row')  # noqa: S608
                found[name] = {row for (row,) in cursor.fetchall()}
    return found


def backup(file: Path) -> backups.Manifest:
    return backups.write(file, {})


def bring_back(file: Path, *options: str) -> None:
    call_command("restore", str(file), *options)


def rewritten(file: Path, change: Any, *, sign: bool = True) -> None:
    """Write the zip again with another manifest or other parts."""
    with zipfile.ZipFile(file) as zipped:
        parts = {name: zipped.read(name) for name in zipped.namelist()}
    manifest = json.loads(parts[backups.MANIFEST])
    change(manifest, parts)
    parts[backups.MANIFEST] = json.dumps(manifest).encode()
    if sign:
        parts[backups.SIGNATURE] = backups.signature(parts[backups.MANIFEST]).encode()
    with zipfile.ZipFile(file, "w") as zipped:
        for name, data in parts.items():
            zipped.writestr(name, data)
