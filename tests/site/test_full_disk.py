"""A full disk: explained everywhere, nothing lost, and everything works again with free space."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.urls import reverse

from beacon_site import health
from beacon_site.db import errors
from beacon_site.embedded import processes
from memory.models import Note, ScratchpadEntry
from tests.api.cast import Program, problem

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
HTMX = {"HX-Request": "true"}
TABLES = ("memory_note", "memory_scratchpadentry")


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what other tests found out about disks."""
    monkeypatch.setattr(errors, "_full_at", -errors.FULL_FOR)
    monkeypatch.setattr(health, "ASKED_EVERY", 0.0)


class SmallDisk:
    """A disk of 16 MiB, with a file that takes all that is left of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Take all the room there is."""
        with self._filler.open("wb", buffering=0) as file:
            for size in (1024**2, 4096, 1):
                try:
                    while file.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue

    def make_room(self) -> None:
        """Give the room back."""
        self._filler.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of its own, which only root can mount."""
    folder = tmp_path_factory.mktemp("small")
    command = ["mount", "-t", "tmpfs", "-o", "size=16m,mode=0777", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    for parent in folder.parents:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def small_disk(mounted: Path) -> Iterator[SmallDisk]:
    """The small disk, empty."""
    small = SmallDisk(mounted)
    yield small
    small.make_room()


@pytest.fixture
def full(small_disk: SmallDisk) -> Iterator[SmallDisk]:
    """Two of Postgres's tables, and what it sorts on disk, on a disk that is full."""
    place = Path(tempfile.mkdtemp(dir=small_disk.folder))
    storage, _account = processes.storage_of(Path(os.environ["BEACON_DATA_DIR"]))
    owner = (storage / "postgres").stat() if (storage / "postgres").exists() else None
    if owner is None:
        pytest.skip("Postgres is not the tests' own")
    os.chown(place, owner.st_uid, owner.st_gid)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} SET TABLESPACE small")
        cursor.execute("SET temp_tablespaces = 'small'")
    small_disk.fill()
    try:
        yield small_disk
    finally:
        small_disk.make_room()
        with connection.cursor() as cursor:
            cursor.execute("RESET temp_tablespaces")
            for table in TABLES:
                cursor.execute(f"ALTER TABLE {table} SET TABLESPACE pg_default")
            cursor.execute("DROP TABLESPACE small")
        shutil.rmtree(place)


def long_text() -> str:
    """Return words that fill whole pages, however well Postgres packs them."""
    return secrets.token_hex(15_000)


def test_a_full_disk_is_explained_to_programs_and_nothing_is_lost(alice: Any, full: SmallDisk):
    agent = Program(alice, "read", "write")
    before = list(Note.objects.values_list("pk", flat=True))

    told = agent.post("/notes", {"content": long_text()})

    assert "disk" in problem(told, 503)["detail"]
    assert "Your saved data is safe" in told.json()["detail"]
    assert told["Retry-After"] == "60"
    assert agent.get("/notes").status_code == 200
    assert list(Note.objects.values_list("pk", flat=True)) == before
    full.make_room()
    assert agent.post("/notes", {"content": long_text()}).status_code == 201


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_full_disk_is_explained_to_people_and_told_on_each_page(
    alice: Any, client_of: Any, full: SmallDisk, headers: dict[str, str]
):
    browser: Client = client_of(alice)
    browser.raise_request_exception = False
    sent = {"key": "a", "value": long_text(), "scope": "owner"}

    answer = browser.post(reverse("memory:scratchpad-new"), sent, headers=headers)

    assert answer.status_code == 503
    assert "Free up disk space" in answer.content.decode()
    if headers:
        toast = json.loads(answer["HX-Trigger"])["toast"]
        assert "Your text is still here" in toast["text"]
        assert answer["HX-Reswap"] == "none"
    else:
        assert "Go back in your browser" in answer.content.decode()
    page = browser.get(reverse("memory:notes"))
    assert page.status_code == 200
    assert "nothing new can be saved" in page.content.decode()
    assert not ScratchpadEntry.objects.exists()


def test_readyz_is_not_ready_while_postgres_has_no_room(client: Client, full: SmallDisk):
    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["status"] == "not ready"
    assert answer.json()["disk"] == "full"
    assert "disk" in answer.json()["reason"]

    full.make_room()
    errors._full_at = -errors.FULL_FOR
    assert client.get("/readyz").status_code == 200


def test_an_almost_full_data_folder_is_degraded_and_on_the_banner(
    small_disk: SmallDisk, alice: Any, client_of: Any, settings: Any
):
    settings.DATA_DIR = small_disk.folder  # 16 MiB, less than MIN_ROOM

    state = client_of(alice).get("/readyz").json()

    assert (state["status"], state["disk"]) == ("degraded", "low")
    assert state["disk_free_mib"] <= 16
    assert "almost full" in client_of(alice).get("/topics/").content.decode()


def test_an_upload_that_finds_no_room_is_explained(
    small_disk: SmallDisk, alice: Any, client_of: Any, settings: Any
):
    settings.FILE_UPLOAD_TEMP_DIR = str(small_disk.folder)
    small_disk.fill()
    browser: Client = client_of(alice)
    browser.raise_request_exception = False
    file = SimpleUploadedFile("archive.zip", bytes(4 * 1024**2))

    answer = browser.post(reverse("memory:archive-import"), {"file": file})

    assert answer.status_code == 503
    assert "The disk is full" in answer.content.decode()


@pytest.fixture
def no_room_for() -> Iterator[Any]:
    """Let Postgres refuse writes to a table with the code of a full disk, as root or not."""
    tables = []

    def refuse(table: str, when: str = "INSERT") -> None:
        tables.append(table)
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE OR REPLACE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE 'could not extend file: No space left on device' "
                "USING ERRCODE = '53100'; END $$"
            )
            cursor.execute(
                f"CREATE TRIGGER no_room BEFORE {when} ON {table} EXECUTE FUNCTION no_room()"
            )

    yield refuse
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"DROP TRIGGER no_room ON {table}")


@pytest.mark.parametrize("table", ["django_session", "memory_signin", "memory_activity"])
def test_a_sign_in_that_finds_no_room_is_explained_and_signs_no_one_in(
    alice: Any, no_room_for: Any, table: str
):
    no_room_for(table)
    browser = Client(raise_request_exception=False)

    answer = browser.post(
        reverse("memory:sign-in"), {"username": "alice", "password": "alice-horse-battery"}
    )

    assert answer.status_code == 503
    assert "The disk is full" in answer.content.decode()
    assert browser.get("/").status_code == 302


def test_who_is_signed_in_still_reads(alice: Any, client_of: Any, no_room_for: Any):
    browser = Client(raise_request_exception=False)
    sent = {"username": "alice", "password": "alice-horse-battery"}
    assert browser.post(reverse("memory:sign-in"), sent).status_code == 302
    for table in ("memory_signin", "django_session"):
        no_room_for(table, "INSERT OR UPDATE")

    assert browser.get("/topics/").status_code == 200
