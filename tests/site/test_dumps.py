"""The whole database in one file, and back."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from beacon_site import dumps, env
from beacon_site.dumps import DumpFailed
from memory.management.commands.restore import put_aside


@pytest.fixture
def url() -> Iterator[str]:
    """A database with one table of one word."""
    base = urlsplit(os.environ["DATABASE_URL"])
    name = f"dumps_{uuid.uuid4().hex}"
    admin = urlunsplit(base._replace(path="/postgres"))
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    there = urlunsplit(base._replace(path=f"/{name}"))
    _do(there, "CREATE TABLE kept (word text PRIMARY KEY); INSERT INTO kept VALUES ('before')")
    yield there
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _do(url: str, sql: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        done = connection.execute(sql)
        return done.fetchall() if done.description else []


def test_what_was_dumped_comes_back_in_the_place_of_what_came_since(url: str, tmp_path: Path):
    file, database = tmp_path / "beacon.dump", env.database("DATABASE_URL", url)
    dumps.dump(database, file)
    _do(url, "UPDATE kept SET word = 'after'")
    dumps.load(database, file)
    assert _do(url, "SELECT word FROM kept") == [("before",)]


def test_a_dump_is_its_owners_alone_and_leaves_no_half_beside_it(url: str, tmp_path: Path):
    file = tmp_path / "beacon.dump"
    dumps.dump(env.database("DATABASE_URL", url), file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_is_no_dump_changes_nothing_and_is_said(url: str, tmp_path: Path):
    file = tmp_path / "notes.txt"
    file.write_text("no dump")
    with pytest.raises(DumpFailed, match="not appear to be a valid archive"):
        dumps.load(env.database("DATABASE_URL", url), file)
    assert _do(url, "SELECT word FROM kept") == [("before",)]


def test_a_dump_that_breaks_off_leaves_the_older_one(tmp_path: Path):
    file = tmp_path / "beacon.dump"
    file.write_text("the older one")
    with pytest.raises(DumpFailed, match="Connection refused"):
        dumps.dump(env.database("DATABASE_URL", "postgresql://x:secret@127.0.0.1:1/x"), file)
    assert file.read_text() == "the older one"


@pytest.mark.django_db(transaction=True)
def test_nothing_is_restored_while_beacon_runs(tmp_path: Path):
    file = tmp_path / "beacon.dump"
    file.write_text("any")
    one_more = psycopg.connect(_test_url(connection.settings_dict["NAME"]))
    with one_more, pytest.raises(CommandError, match="Stop Beacon first"):
        call_command("restore", str(file))


def test_copies_on_disk_that_are_newer_than_the_backup_are_no_edits_of_it(tmp_path: Path):
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/.beacon").write_text("ours")
    put_aside(tmp_path / "memory")
    (aside,) = tmp_path.iterdir()
    assert aside.name.startswith("memory-before-restore-")


def _test_url(name: str) -> str:
    return urlunsplit(urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}"))
