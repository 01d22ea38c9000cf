"""Backing up all of Beacon to one file and restoring it: row for row, or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import signal
import subprocess
import time
import zipfile
from pathlib import Path
from typing import IO, Any

import pytest
from django.apps import apps
from django.conf import settings as site
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection, connections

from beacon_site.launcher import backups
from memory.management.commands import restore
from memory.models import Note, Revision, SearchTerm, Topic, User
from memory.services.files import mirror_disk
from memory.services.files.saving import append_to
from memory.services.notes.saving import write_note
from memory.services.search.recall import recall
from research.models import Worker
from tests.conftest import Say
from tests.site.backup_cast import _no_vectors_are_left, backup, bring_back, rewritten, rows  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_every_row_of_every_table_is_restored_as_it_was(full: User, file: Path) -> None:
    was = rows()
    call_command("backup", str(file))
    Note.objects.all().delete()
    Topic.objects.update(title="changed since")
    User.objects.create_user("carol", password="came-since-then")

    bring_back(file, "--replace", "--yes")

    assert rows() == was
    assert any("電池" in row for row in was["memory_note"])


def test_after_a_restore_a_recall_finds_the_same_and_new_rows_are_numbered_on(
    full: User, file: Path
) -> None:
    def found() -> list[Any]:
        return [(hit.id, hit.score) for hit in recall(full, "tea quotes")]

    before, last = found(), Revision.objects.order_by("-id").values_list("pk", flat=True)[0]
    backup(file)
    Note.objects.all().delete()
    bring_back(file, "--replace", "--yes")

    assert before and found() == before
    note = write_note(full, "log", "Zanzibar.", by=full.actor, ttl_days=3, stability="volatile")
    assert Revision.objects.filter(record_id=note.pk, pk__gt=last).exists()
    counted = SearchTerm.objects.get(
        lexeme="zanzibar", space__owner=full, space__record_type="note"
    )
    assert counted.documents == 1  # once, by its trigger


def test_the_triggers_guard_again_what_cannot_be_changed(full: User, file: Path) -> None:
    backup(file)
    bring_back(file, "--replace", "--yes")

    with pytest.raises(Exception, match="Cannot update"):
        Revision.objects.update(reason="forged")


def test_every_table_of_the_apps_is_in_a_backup(full: User, file: Path) -> None:
    backup(file)

    models = apps.get_models(include_auto_created=True)
    wanted = {model._meta.db_table for model in models if model._meta.managed}
    assert backups.WITHOUT_ROWS.keys() <= wanted == tables_of(file) - {"django_migrations"}


def tables_of(file: Path) -> set[str]:
    with zipfile.ZipFile(file) as zipped:
        dump = zipped.read(backups.DATABASE)
    listed = subprocess.run(
        [backups.client_program("pg_restore"), "--list"],
        input=dump,
        stdout=subprocess.PIPE,
        check=True,
    )
    return {*re.findall(r" TABLE (?!DATA)\S+ (\S+) ", listed.stdout.decode())}


def test_sign_ins_do_not_come_back_to_life(full: User, file: Path, client: Any) -> None:
    client.force_login(full, backend="django.contrib.auth.backends.ModelBackend")
    Worker.objects.create(name="worker@gone", kind="worker", seen_at=full.date_joined)
    backup(file)
    bring_back(file, "--replace", "--yes")

    assert client.get("/notes/").status_code == 302
    assert not Worker.objects.exists()


# --- files ----------------------------------------------------------------------------------------


def test_edits_on_disk_that_were_refused_are_taken_along(
    full: User, file: Path, settings: Any, tmp_path: Path
) -> None:
    root = tmp_path / "memory"
    settings.BEACON_MIRROR_DIR = str(root)
    append_to(full, "episodes/2026-02.md", "## Rain\n- Summary: it rained\n", by=full.actor)
    refused = root / "episodes/2026-02.md.conflict"
    refused.write_text("what I meant")
    (root / "episodes/evil.conflict").symlink_to("/etc/hostname")
    call_command("backup", str(file))
    bring_back(file, "--replace", "--yes")

    assert refused.read_text() == "what I meant"
    assert not (root / "episodes/evil.conflict").exists()
    (aside,) = tmp_path.glob("memory-before-restore-*")
    assert (aside / "episodes/2026-02.md.conflict").is_file()


def test_a_backup_is_its_owners_alone_and_leaves_no_half_next_to_it(full: User, file: Path) -> None:
    file.write_text("an older one")
    backup(file)

    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]
    assert zipfile.is_zipfile(file)


def test_a_backup_that_cannot_be_finished_leaves_the_older_one(
    full: User, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("the older one")
    monkeypatch.setattr(backups, "client_program", lambda name: "/bin/false")

    with pytest.raises(CommandError, match=r"No backup was created.*pg_dump failed"):
        call_command("backup", str(file))
    assert file.read_text() == "the older one"
    assert list(file.parent.iterdir()) == [file]


def test_a_folder_in_the_place_of_a_file_is_explained(full: User, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"is a folder. Add a file name to the path"):
        call_command("backup", str(tmp_path))
    with pytest.raises(CommandError, match="There is no file"):
        bring_back(tmp_path)


def test_no_secret_is_in_a_backup_as_it_is(full: User, file: Path) -> None:
    from memory.models import Connection

    kept = Connection(kind="model", name="model")
    kept.set_secret("sk-plain-to-see")
    kept.save()
    backup(file)

    with zipfile.ZipFile(file) as zipped:
        held = b"".join(zipped.read(name) for name in zipped.namelist())
    assert b"sk-plain-to-see" not in held
    assert site.SECRET_KEY.encode() not in held


# --- killed on the way ----------------------------------------------------------------------------


@pytest.mark.faults
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_restore_that_is_killed_leaves_what_was_there(
    full: User, file: Path, share: float, say: Say
) -> None:
    backup(file)
    Note.objects.filter(owner=full).delete()
    was = rows()
    connections.close_all()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        _die_within(file, share)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL

    assert not restore.is_in_use()
    now = rows()
    differ = [name for name in was if was[name] != now.get(name)]
    say(
        f"kill -9 of a restore after {share:.0%} of its dump",
        "no row changes",
        f"{sum(map(len, was.values()))} rows, {len(differ)} tables differ",
    )

    assert int(file.with_name("dropped").read_text()) > 50
    assert now == was


def _die_within(file: Path, share: float) -> None:
    """Start a restore, and kill it after tables are dropped and part of the dump was read."""

    def dying(dump: IO[bytes], pipe: IO[bytes]) -> None:
        with pipe:
            data = dump.read()
            pipe.write(data[: round(share * len(data))])
            pipe.flush()
            dropped, ends = 0, time.monotonic() + 20
            while dropped <= 50 and time.monotonic() < ends:
                time.sleep(0.2)
                dropped = _exclusive_locks()
            file.with_name("dropped").write_text(str(dropped))
            if share == 1:
                pipe.close()
                time.sleep(1)  # pg_restore ends, and only the COMMIT is missing
            os.kill(os.getpid(), signal.SIGKILL)

    backups._feed = dying
    try:
        backups.restore_database(backups.read(file))
    finally:
        os._exit(0)


def _exclusive_locks() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(DISTINCT relation) FROM pg_locks WHERE mode = 'AccessExclusiveLock'"
        )
        return int(cursor.fetchone()[0])


@pytest.mark.parametrize("program", ["psql", "pg_restore"])
def test_a_restore_whose_program_fails_changes_nothing(
    full: User, file: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup(file)
    was = rows()
    real = backups.client_program
    monkeypatch.setattr(
        backups, "client_program", lambda name: "/bin/false" if name == program else real(name)
    )

    with pytest.raises(CommandError, match=rf"Nothing was restored or changed. {program} failed"):
        bring_back(file, "--replace", "--yes")
    assert rows() == was


def test_a_restore_that_psql_refuses_midway_changes_nothing(full: User, file: Path) -> None:
    backup(file)
    was = rows()

    def break_the_dump(manifest: Any, parts: Any) -> None:
        half = parts[backups.DATABASE][: len(parts[backups.DATABASE]) // 2]
        parts[backups.DATABASE] = half
        manifest["parts"][backups.DATABASE] = {
            "size": len(half), "sha256": hashlib.sha256(half).hexdigest(),
        }  # fmt: skip

    rewritten(file, break_the_dump)

    with pytest.raises(CommandError, match="pg_restore failed"):
        bring_back(file, "--replace", "--yes")
    assert rows() == was


def test_tables_and_functions_that_the_backup_does_not_have_are_dropped(
    full: User, file: Path
) -> None:
    backup(file)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE newer (owner_id bigint REFERENCES memory_user)")
        cursor.execute("CREATE VIEW newer_view AS SELECT id FROM memory_note")
        cursor.execute("CREATE FUNCTION newer_function(text) RETURNS int RETURN 1")

    bring_back(file, "--replace", "--yes")

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT to_regclass('newer'), to_regclass('newer_view'), to_regproc('newer_function')"
        )
        assert cursor.fetchone() == (None, None, None)


def test_no_password_is_in_a_command_line(
    full: User, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    start = subprocess.Popen.__init__

    def noted(self: Any, words: list[str], **options: Any) -> None:
        started.extend(words)
        start(self, words, **options)

    with backups._connected() as opened:
        monkeypatch.setattr(backups, "_connected", lambda: contextlib.nullcontext(opened))
        monkeypatch.setattr(subprocess.Popen, "__init__", noted)
        monkeypatch.setitem(connection.settings_dict, "PASSWORD", "hush-hush")
        with contextlib.suppress(CommandError, OperationalError):
            call_command("backup", str(file))
            bring_back(file, "--replace", "--yes")

    assert any("pg_dump" in word for word in started)
    assert not any("hush" in word for word in started)


def test_an_older_backup_is_brought_up_to_date(
    full: User, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup(file)
    rewritten(file, lambda manifest, parts: manifest["migrations"].pop())
    asked: list[str] = []
    monkeypatch.setattr(restore, "call_command", lambda name, **_more: asked.append(name))
    bring_back(file, "--replace", "--yes")

    assert asked == ["migrate", "vectors"]
    assert User.objects.get(pk=full.pk).username == "alice"


def test_copies_on_disk_that_are_newer_than_the_backup_are_no_edits_of_it(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/.beacon").write_text("ours")
    restore.move_aside(tmp_path / "memory")
    (aside,) = tmp_path.iterdir()
    assert aside.name.startswith("memory-before-restore-")
    assert mirror_disk.refused_edits(tmp_path / "memory") == {}


# --- odd places -----------------------------------------------------------------------------------


def test_a_link_still_leads_where_it_led(full: User, tmp_path: Path) -> None:
    there, link = tmp_path / "disk/beacon.backup", tmp_path / "link.backup"
    there.parent.mkdir()
    link.symlink_to(there)
    backup(link)

    assert link.is_symlink()
    assert zipfile.is_zipfile(there)


def test_a_device_isnt_a_place_for_a_backup(full: User, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    with pytest.raises(CommandError, match="isn’t a regular file"):
        call_command("backup", str(pipe))
    assert pipe.is_fifo()


def test_what_a_killed_backup_left_goes_with_the_next_and_what_is_being_written_stays(
    full: User, file: Path
) -> None:
    names = (".beacon.backup.0a.part", ".beacon.backup.0b.part", ".beacon.backup.0c.part")
    left, young, held = (file.with_name(name) for name in names)
    for path in (left, young, held):
        path.write_text("half")
    for path in (left, held):
        os.utime(path, (time.time() - 3600,) * 2)
    with held.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        backup(file)

    assert {path.name for path in file.parent.iterdir()} == {file.name, young.name, held.name}


def test_what_to_keep_next_to_a_backup_is_told_wherever_the_key_stands(
    full: User, file: Path, settings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.DATA_DIR = tmp_path
    call_command("backup", str(file))
    assert "Also keep the SECRET_KEY in the environment" in capsys.readouterr().err

    (tmp_path / "secret_key").write_text(settings.SECRET_KEY)
    call_command("backup", str(file))
    assert f"Also keep {tmp_path}/secret_key in a separate place" in capsys.readouterr().err
