"""The doctor looks at the data folder and at how Beacon is set up."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from memory.archive import jobs
from memory.doctor import examining
from memory.doctor.checkup import BAD, GOOD, WARN
from memory.files import mirror
from memory.files.services import save_file
from memory.models import (
    CallReservation,
    MemoryFile,
    MirroredFile,
    User,
)
from tests.doctor_cast import _no_word_is_left, asked, is_found_and_mended  # noqa: F401

# --- the data folder ------------------------------------------------------------------------------


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    """A data folder of the test's own."""
    settings.DATA_DIR = tmp_path
    return tmp_path


def test_a_file_of_an_export_that_no_row_knows_is_deleted_a_fresh_one_stays(
    alice: User, folder: Path
) -> None:
    row = jobs.carry_out(jobs.ask_export(alice).pk)
    assert row is not None
    names = ["0" * 8 + "-0000-4000-8000-" + "0" * 12, "1" * 8 + "-0000-4000-8000-" + "0" * 12]
    old, fresh = (folder / "archives" / f"{name}.file" for name in names)
    strange = folder / "archives/letter.file"
    for path in (old, fresh, strange):
        path.write_text("x")
    for path in (old, strange, row.file):
        os.utime(path, (time.time() - 7200,) * 2)

    is_found_and_mended("archive-files", "1 file of an export")
    assert (old.exists(), fresh.exists(), strange.exists(), row.has_file) == (
        False,
        True,
        True,
        True,
    )


def test_secrets_that_others_may_read_are_closed(db: None, folder: Path) -> None:
    (folder / "secret_key").write_text("s")
    (folder / "secret_key").chmod(0o644)
    (folder / "beacon.env").touch(mode=0o600)

    is_found_and_mended("private-files", "may read: secret_key.")
    assert (folder / "secret_key").stat().st_mode & 0o777 == 0o600


@pytest.mark.django_db(transaction=True)
def test_a_copy_that_differs_though_its_stamp_does_not_is_written_anew(
    alice: User, folder: Path, settings: Any
) -> None:
    settings.BEACON_MIRROR_DIR = str(folder / "memory")
    save_file(alice, "facts/user.md", "# User\n\n- Tea: green\n", by=alice.actor)
    mirror.catch_up()
    copy = folder / "memory/facts/user.md"
    MemoryFile.objects.filter(path="facts/user.md").update(content="# User\n\n- Tea: black\n")

    is_found_and_mended("mirror", "1 copy is not what is stored")
    assert copy.read_text() == "# User\n\n- Tea: black\n"


@pytest.mark.django_db(transaction=True)
def test_an_edit_on_disk_that_nobody_took_in_is_taken_in(
    alice: User, folder: Path, settings: Any
) -> None:
    settings.BEACON_MIRROR_DIR = str(folder / "memory")
    save_file(alice, "facts/user.md", "# User\n\n- Tea: green\n", by=alice.actor)
    mirror.catch_up()
    copy = folder / "memory/facts/user.md"
    copy.write_text("# User\n\n- Tea: white\n")
    os.utime(copy, (time.time() - 60,) * 2)
    told = copy.stat()
    stamp = f"{told.st_ino}:{told.st_size}:{told.st_mtime_ns}:{told.st_ctime_ns}"
    MirroredFile.objects.filter(path="facts/user.md").update(stamp=stamp)

    is_found_and_mended("mirror", "1 copy is not what is stored")
    assert "white" in MemoryFile.objects.get(path="facts/user.md").content


# --- how it is set up -----------------------------------------------------------------------------


def test_migrations_that_are_due_or_of_a_newer_version_are_told(db: None) -> None:
    assert asked("migrations").state == GOOD
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('memory', '9999_later', now())"
        )
        assert "newer version: it has memory.9999_later" in asked("migrations").said
        cursor.execute("DELETE FROM django_migrations WHERE app = 'research'")
    found = asked("migrations", fix=True)
    assert (found.state, found.mended) == (BAD, "")
    assert "Not applied yet: research.0001_initial" in found.said
    looked = [one.key for one in examining.look_for_drift()]
    assert looked == ["migrations"]  # nothing else can be looked at on tables that are not there


def test_a_column_that_is_not_there_is_told_though_every_migration_is(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE memory_savedview RENAME COLUMN name TO gone")

    found = asked("migrations", fix=True)
    assert (found.state, found.mended) == (BAD, "")
    assert found.said.endswith("migrated: memory_savedview.name.")
    assert [one.key for one in examining.look_for_drift()] == ["migrations"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"BEACON_BIND": "0.0.0.0"}, "beyond this machine without TLS"),
        ({"BEACON_HTTPS": True}, "BEACON_ENV is local"),
        ({"BEACON_BIND": "0.0.0.0", "BEACON_TRUST_PROXY": True}, "whoever reaches Beacon without"),
        ({"ALLOWED_HOSTS": ["*"]}, "lets any host name in"),
        ({"SECRET_KEY": "short"}, "SECRET_KEY is short"),
        ({"PRODUCTION": True, "SESSION_COOKIE_SECURE": False}, "SESSION_COOKIE_SECURE"),
    ],
)
def test_settings_that_open_a_door_are_named(
    admin: User, settings: Any, fields: dict[str, Any], said: str
) -> None:
    assert asked("settings").state == GOOD
    for name, value in fields.items():
        setattr(settings, name, value)

    found = asked("settings")
    assert (found.state, said in found.said) == (WARN, True), found.said


def test_accounts_of_which_none_may_manage_the_site_are_told(alice: User) -> None:
    assert "No account that is open may manage" in asked("settings").said


def test_versions_are_told_also_without_redis(db: None, settings: Any) -> None:
    assert "Django 5.2" in asked("versions").said
    assert "no Redis" not in asked("versions").said
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert "no Redis" in asked("versions").said


def test_what_a_dead_process_reserved_is_given_back_and_what_is_under_way_stays(
    alice: User,
) -> None:
    old = timezone.now() - timedelta(minutes=20)
    CallReservation.objects.create(owner=alice, source="run:1", tokens=9, created=old)
    CallReservation.objects.create(owner=alice, source="run:2", tokens=9)

    is_found_and_mended("reservations", "1 call of a model is still reserved")
    assert CallReservation.objects.get().source == "run:2"
