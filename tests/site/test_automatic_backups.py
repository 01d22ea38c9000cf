"""Automatic backups: due, written, restored as a test, copied to a bucket, and deleted when old."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone
from werkzeug import Request, Response

from beacon_site import checks
from beacon_site.launcher import backups as files
from beacon_site.launcher.backups import BackupError
from memory.models import Activity, BackupFile, BackupPlan, Note, User
from memory.pages.health import GOOD, WARN, Part, system_parts
from memory.services import backups
from memory.services.notes.saving import write_note
from tests.site.backup_cast import rewritten

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/settings/backups/"


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    """The folder for backups."""
    place = tmp_path / "kept"
    settings.BEACON_BACKUP_DIR = str(place)
    settings.STORAGES = settings.STORAGES | {
        "backups": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(place)},
        }
    }
    return place


@pytest.fixture
def admin(folder: Path) -> User:
    """An admin with a note."""
    person: User = User.objects.create_user("ada", password="a-long-password", is_staff=True)
    write_note(
        person, "log", "Tea at five. 電池", by=person.actor, ttl_days=3, stability="volatile"
    )
    return person


def made(by: User | None = None) -> BackupFile:
    """Ask for a backup, and do what a worker does."""
    row, _is_new = backups.ask(by)
    backups.perform(row.pk)
    row.refresh_from_db()
    return row


def scratch_databases() -> list[str]:
    """Return the databases of tested restores that remain. Those of other test processes don't."""
    until = time.monotonic() + 60
    while True:
        with connection.cursor() as cursor:
            like = "SELECT datname FROM pg_database WHERE datname LIKE 'beacon_restore_test%'"
            cursor.execute(like)
            found = [name for (name,) in cursor.fetchall()]
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.2)


@pytest.mark.requirement("R345")
def test_a_backup_is_written_restored_and_compared(admin: User, folder: Path) -> None:
    row = made(admin)

    assert (row.state, row.problem, row.is_tested) == ("done", "", True)
    (file,) = folder.iterdir()
    assert file.name == row.name and file.stat().st_size == row.size
    assert file.stat().st_mode & 0o777 == 0o600
    tables = files.read(file).manifest.tables
    assert tables["memory_note"].rows == Note.objects.count()
    assert row.rows == sum(table.rows for table in tables.values())
    assert "django_session" not in tables and not scratch_databases()


@pytest.mark.requirement("R345")
def test_a_restore_that_differs_is_found(
    admin: User, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / made(admin).name
    write = files.write

    def damaged(*given: Any) -> Any:
        manifest = write(*given)
        rewritten(given[0], _one_note_more)
        return manifest

    monkeypatch.setattr(files, "write", damaged)
    row = made(admin)
    assert (row.state, row.problem, row.detail) == ("failed", "differs", "memory_note")
    assert Activity.objects.filter(kind="backup-failed", owner=None).exists()

    call_command("restore", str(file), "--test")
    with pytest.raises(CommandError, match="memory_note"):
        call_command("restore", str(folder / row.name), "--test")
    assert not scratch_databases()


def _one_note_more(manifest: Any, parts: Any) -> None:
    manifest["tables"]["memory_note"]["rows"] += 1


def test_a_database_user_who_cannot_create_databases_still_gets_backups(
    admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(backup: Any) -> list[str]:
        raise BackupError("permission denied to create database")

    monkeypatch.setattr(files, "try_restore", refused)
    row = made(admin)

    assert (row.state, row.problem, row.is_tested) == ("done", "not-restored", False)
    assert "permission denied" in row.detail


def test_a_folder_that_cannot_be_written_is_tried_again_and_then_reported(
    admin: User, folder: Path
) -> None:
    folder.write_text("a file where the folder should be")
    row = made(admin)
    assert (row.state, row.problem) == ("waiting", "not-written")
    for _ in BackupFile.RETRY_SECONDS:
        BackupFile.objects.update(not_before=timezone.now())
        backups.perform(row.pk)

    row.refresh_from_db()
    assert (row.state, row.problem) == ("failed", "not-written")
    client = Client()
    client.force_login(admin, backend="django.contrib.auth.backends.ModelBackend")
    assert "There are no successful backups yet." in client.get(PAGE).content.decode()


# --- the schedule ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("every", "now", "due"),
    [
        ("never", "2026-11-26T10:00", None),
        ("day", "2026-11-26T10:00", "2026-11-26T03:00"),
        ("day", "2026-11-26T02:59", "2026-11-25T03:00"),
        ("week", "2026-11-26T10:00", "2026-11-22T03:00"),
        ("week", "2026-11-22T03:00", "2026-11-22T03:00"),
        ("week", "2026-11-22T02:00", "2026-11-15T03:00"),
    ],
)
def test_when_a_backup_is_due(every: str, now: str, due: str | None) -> None:
    plan = BackupPlan(every=every, hour=3)
    at = datetime.fromisoformat(now).replace(tzinfo=UTC)

    expected = datetime.fromisoformat(due).replace(tzinfo=UTC) if due else None
    assert plan.last_due(at) == expected


def test_the_schedule_starts_one_backup_and_not_for_the_time_before_it_was_set(
    admin: User,
) -> None:
    plan = BackupPlan.objects.create(every="day", hour=timezone.now().astimezone(UTC).hour)
    assert backups.ask_if_due() is None

    BackupPlan.objects.update(changed_at=plan.changed_at - timedelta(days=2))
    row = backups.ask_if_due()
    assert row is not None and row.requested_by is None
    backups.perform(row.pk)
    assert backups.ask_if_due() is None


def test_automatic_backups_beyond_the_number_to_keep_are_deleted(admin: User, folder: Path) -> None:
    BackupPlan.objects.create(every="day", keep=2, tests_restore=False)
    kept = made(admin)
    for _ in range(3):
        made()

    assert BackupFile.objects.filter(requested_by=None).count() == 2
    assert (folder / kept.name).exists()
    assert {row.name for row in BackupFile.objects.all()} == {p.name for p in folder.iterdir()}


# --- a bucket -------------------------------------------------------------------------------------


@pytest.fixture
def bucket(settings: Any, folder: Path, httpserver: Any) -> dict[str, bytes]:
    """A service that speaks S3, and what it holds."""
    held: dict[str, bytes] = {}

    def answer(request: Request) -> Response:
        if "Credential=AK/" not in request.headers.get("Authorization", ""):
            return Response("<Error><Code>AccessDenied</Code></Error>", status=403)
        if request.method == "PUT":
            held[request.path] = request.get_data()
        elif request.method == "DELETE":
            held.pop(request.path, None)
            return Response(status=204)
        elif request.path not in held:
            return Response(status=404)
        return Response(status=200)

    httpserver.expect_request(re.compile("/kept/.*")).respond_with_handler(answer)
    settings.BEACON_BACKUP_S3_BUCKET = "kept"
    settings.STORAGES = settings.STORAGES | {
        "backups": {
            "BACKEND": "beacon_site.web.s3.BackupBucket",
            "OPTIONS": {
                "bucket_name": "kept",
                "endpoint_url": httpserver.url_for("").rstrip("/"),
                "region_name": "eu-1",
                "access_key": "AK",
                "secret_key": "secret",
                "location": "nightly",
                "addressing_style": "path",
            },
        }
    }
    return held


def test_a_backup_is_copied_to_the_bucket_and_deleted_from_it(
    admin: User, folder: Path, bucket: dict[str, bytes]
) -> None:
    row = made(admin)

    assert (row.state, row.detail) == ("done", "")
    assert list(bucket) == [f"/kept/nightly/{row.name}"]
    copy = folder.parent / "copy.backup"
    copy.write_bytes(bucket[f"/kept/nightly/{row.name}"])
    assert files.read(copy).is_ours
    assert not list(folder.iterdir())
    row.discard()
    assert not bucket


def test_a_bucket_that_is_down_leaves_the_file_here(
    admin: User, folder: Path, bucket: dict[str, bytes], settings: Any
) -> None:
    options = settings.STORAGES["backups"]["OPTIONS"] | {"access_key": "somebody else"}
    settings.STORAGES = settings.STORAGES | {
        "backups": settings.STORAGES["backups"] | {"OPTIONS": options}
    }
    row = made(admin)

    assert (row.state, row.problem) == ("waiting", "not-copied")
    assert "AccessDenied" in row.detail and "secret" not in row.detail
    assert files.read(folder / row.name).is_ours


def test_a_bucket_without_its_packages_is_an_error_at_the_start(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not checks.backups()
    settings.BEACON_BACKUP_S3_BUCKET = "kept"
    assert not checks.backups()
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    (problem,) = checks.backups()
    assert "requirements/extras.txt" in str(problem.hint)


# --- the page -------------------------------------------------------------------------------------


@pytest.fixture
def page(admin: User) -> Client:
    """The admin's browser."""
    client = Client()
    client.force_login(admin, backend="django.contrib.auth.backends.ModelBackend")
    return client


@pytest.mark.requirement("R345")
def test_an_admin_sets_the_schedule_and_sees_each_result(page: Client, admin: User) -> None:
    empty = page.get(PAGE).content.decode()
    assert "There are no backups yet." in empty
    wrong = page.post(PAGE, {"every": "day", "hour": "99", "keep": "0"})
    assert "less than or equal to 23" in wrong.content.decode()
    assert not BackupPlan.objects.exists()

    page.post(PAGE, {"every": "week", "hour": "4", "keep": "3", "tests_restore": "on"})
    plan = BackupPlan.current()
    assert (plan.every, plan.hour, plan.keep, plan.tests_restore) == ("week", 4, 3, True)
    made(admin)
    assert "restore tested" in page.get(PAGE).content.decode()


def test_a_backup_by_command_is_the_last_one_until_a_later_one(
    page: Client, admin: User, tmp_path: Path
) -> None:
    def shown() -> tuple[Part, str]:
        part = next(one for one in system_parts() if one.name == "Backups")
        return part, " ".join(page.get(PAGE).content.decode().split())

    assert shown()[0].state == WARN
    call_command("backup", str(tmp_path / "by-hand.backup"))
    written_at = BackupPlan.current().written_at
    part, html = shown()
    assert (part.state, part.at) == (GOOD, written_at)
    assert "There are no backups yet" not in html and "manage.py backup</span>" in html

    row = made(admin)
    assert shown()[0].at == row.created


def test_a_backup_by_command_that_failed_is_none(admin: User, tmp_path: Path) -> None:
    with pytest.raises(CommandError):
        call_command("backup", str(tmp_path))  # a folder
    assert BackupPlan.current().written_at is None


def test_one_backup_at_a_time(page: Client, folder: Path) -> None:
    page.post(PAGE + "now/")
    again = page.post(PAGE + "now/", follow=True)

    assert BackupFile.objects.count() == 1
    assert "already in progress" in again.content.decode()
    row = BackupFile.objects.get()
    backups.perform(row.pk)
    page.post(f"{PAGE}{row.pk}/delete/")
    assert not BackupFile.objects.exists() and not list(folder.iterdir())


def test_only_admins_see_backups(folder: Path) -> None:
    client = Client()
    person = User.objects.create_user("bob", password="a-long-password")
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")

    assert client.get(PAGE).status_code == 404
    assert client.post(PAGE + "now/").status_code == 404
    assert not BackupFile.objects.exists()


def test_the_number_of_queries_doesnt_grow(
    page: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(30):
        BackupFile.objects.create(name=f"{number}.backup", state="done")
    with django_assert_max_num_queries(14):
        page.get(PAGE)
