"""All of Beacon in one file, and back: row for row, or not at all."""

from __future__ import annotations

import io
import json
import os
import signal
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.conf import settings as site
from django.core.management import CommandError, call_command
from django.db import connection, connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beacon_site import backups, dumps
from beacon_site.backups import NoBackup
from beacon_site.dumps import DumpFailed
from memory.files import mirror_left
from memory.files.saving import append_to
from memory.management.commands import restore
from memory.models import Note, Revision, SearchTerm, Topic, User
from memory.notes import write_note
from memory.recall.recalling import recall
from research.models import Worker
from tests.research.factories import make_hits, make_report, make_run, make_topic

pytestmark = pytest.mark.django_db(transaction=True)
UNUSUAL = "tab\there, \\N, \\., “quotes”, a\r\nb, 電池, 💾\nCOPY x FROM stdin;\n\\.\n\\restrict x"


@pytest.fixture
def full(alice: User, bob: User) -> User:
    """Two accounts with a little of everything, and texts that a dump could trip over."""
    topic = make_topic(alice)
    run = make_run(topic)
    make_report(run)
    make_hits(run, 3)
    write_note(alice, "log", UNUSUAL, by=alice.actor, ttl_days=30, stability="volatile")
    write_note(bob, "log", "Bob's car is red.", by=bob.actor, ttl_days=30, stability="volatile")
    append_to(alice, "episodes/2026-02.md", "## Tea\n- Summary: likes tea\n", by=alice.actor)
    return alice


@pytest.fixture(autouse=True)
def _no_vectors_are_left(db: None) -> Iterator[None]:
    """A restore makes the tables of vectors; other tests begin without."""
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP EXTENSION IF EXISTS vector CASCADE")
        cursor.execute("DROP FUNCTION IF EXISTS memory_embedding_follow CASCADE")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the backup goes."""
    return tmp_path / "beacon.backup"


def rows() -> dict[str, set[str]]:
    """Every row of every table but those that are left out, as text."""
    found = {}
    with connection.cursor() as cursor:
        for name in sorted(connection.introspection.table_names(cursor)):
            if name not in backups.LEFT_OUT and not name.startswith("embedding_"):
                cursor.execute(f'SELECT whole_row::text FROM "{name}" whole_row')  # noqa: S608
                found[name] = {row for (row,) in cursor.fetchall()}
    return found


def backup(file: Path) -> backups.Manifest:
    return backups.write(site.DATABASES["default"], file, {})


def bring_back(file: Path, *options: str) -> None:
    call_command("restore", str(file), *options)


def test_every_row_of_every_table_comes_back_as_it_was(full: User, file: Path) -> None:
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


def test_the_triggers_guard_again_what_may_not_be_changed(full: User, file: Path) -> None:
    backup(file)
    bring_back(file, "--replace", "--yes")

    with pytest.raises(Exception, match="Cannot update"):
        Revision.objects.update(reason="forged")


def test_every_table_of_the_apps_is_in_a_backup_or_is_left_out_with_a_reason(
    full: User, file: Path
) -> None:
    manifest = backup(file)

    models = apps.get_models(include_auto_created=True)
    wanted = {model._meta.db_table for model in models if model._meta.managed}
    assert wanted - manifest.tables.keys() == wanted & backups.LEFT_OUT.keys()
    assert all(backups.LEFT_OUT.values())


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


def test_a_backup_is_its_owners_alone_and_leaves_no_half_beside_it(full: User, file: Path) -> None:
    file.write_text("an older one")
    backup(file)

    assert file.stat().st_mode & 0o777 == 0o600
    assert list(file.parent.iterdir()) == [file]
    assert zipfile.is_zipfile(file)


def test_a_backup_that_cannot_be_finished_leaves_the_older_one(
    full: User, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("the older one")
    monkeypatch.setattr(dumps, "client_program", lambda name: "/bin/false")

    with pytest.raises(CommandError, match="No backup was made"):
        call_command("backup", str(file))
    assert file.read_text() == "the older one"
    assert list(file.parent.iterdir()) == [file]


def test_a_folder_in_the_place_of_a_file_is_said(full: User, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="is a folder: name a file in it"):
        call_command("backup", str(tmp_path))
    with pytest.raises(CommandError, match="There is no file"):
        bring_back(tmp_path)


def test_no_secret_stands_in_a_backup_as_it_is(full: User, file: Path) -> None:
    from memory.models import Connection

    kept = Connection(kind="model", name="model")
    kept.set_secret("sk-plain-to-see")
    kept.save()
    backup(file)

    with zipfile.ZipFile(file) as zipped:
        held = b"".join(zipped.read(name) for name in zipped.namelist())
    assert b"sk-plain-to-see" not in held
    assert site.SECRET_KEY.encode() not in held


# --- what is refused ------------------------------------------------------------------------------


def rewritten(file: Path, change: Any) -> None:
    """Write the zip anew with another manifest."""
    with zipfile.ZipFile(file) as zipped:
        parts = {name: zipped.read(name) for name in zipped.namelist()}
    told = json.loads(parts[backups.MANIFEST])
    told["key"] = "another's"  # whose seal nobody here can tell
    change(told, parts)
    parts[backups.MANIFEST] = json.dumps(told).encode()
    with zipfile.ZipFile(file, "w") as zipped:
        for name, data in parts.items():
            zipped.writestr(name, data)


def _other_row(told: Any, parts: Any) -> None:
    parts[backups.DATABASE] = parts[backups.DATABASE].replace(b"car is red", b"car is fed")


def _newer_format(told: Any, parts: Any) -> None:
    told["format"] = 2


def _newer_beacon(told: Any, parts: Any) -> None:
    told["migrations"].append("memory.9999_of_tomorrow")


def _of_nobody(told: Any, parts: Any) -> None:
    told["kind"] = "cake"


def _one_more_part(told: Any, parts: Any) -> None:
    parts["files/more"] = b"x"


def _outside(told: Any, parts: Any) -> None:
    parts["files/../../x"] = b"x"
    told["parts"]["files/../../x"] = {"size": 1, "sha256": "0" * 64}


def _wrong_types(told: Any, parts: Any) -> None:
    told["tables"] = ["memory_note"]


def _forged(told: Any, parts: Any) -> None:
    told["key"] = backups.key_mark()
    told["tables"]["memory_note"][0] += 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_other_row, "not as it was written"),
        (_newer_format, "made by a newer version"),
        (_newer_beacon, "newer version of Beacon"),
        (_of_nobody, "no backup of Beacon"),
        (_one_more_part, "other parts than its manifest names"),
        (_outside, "outside of its folder"),
        (_wrong_types, "damaged or cut off"),
        (_forged, "it was changed after it was made"),
    ],
)
def test_what_is_not_as_it_was_written_is_refused_and_nothing_changes(
    full: User, file: Path, change: Any, why: str
) -> None:
    backup(file)
    rewritten(file, change)
    was = rows()

    with pytest.raises(CommandError, match=why):
        bring_back(file, "--replace", "--yes")
    assert rows() == was


@pytest.fixture(scope="module")
def whole() -> Iterator[bytes]:
    """The bytes of a small backup, for changing one of them."""
    held = io.BytesIO()
    manifest = backups.Manifest("2026-01-01", 18, "public", "k", [], {}, {}, {})
    data = b"SELECT 1;\n" * 50
    measured = backups._Measured(io.BytesIO())
    measured.write(data)
    manifest.parts[backups.DATABASE] = measured.part
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr(backups.DATABASE, data)
        zipped.writestr(backups.MANIFEST, manifest.as_json())
    yield held.getvalue()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(data=st.data())
def test_a_file_that_is_cut_off_or_has_another_byte_is_refused_or_says_the_same(
    whole: bytes, tmp_path: Path, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        broken = whole[:at]
    else:
        broken = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    place = tmp_path / "broken"
    place.write_bytes(broken)

    try:  # some bytes of a zip say nothing, such as a time
        with zipfile.ZipFile(io.BytesIO(whole)) as zipped:
            assert backups.read(place).parts[backups.DATABASE].size == len(
                zipped.read(backups.DATABASE)
            )
    except NoBackup as refused:
        assert "backup" in str(refused)


def test_what_is_not_empty_is_replaced_only_in_so_many_words(
    full: User, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup(file)
    Note.objects.all().delete()

    with pytest.raises(CommandError, match=r"holds 2 accounts .* With --replace"):
        bring_back(file)
    with pytest.raises(CommandError, match="add --yes"):
        bring_back(file, "--replace")
    monkeypatch.setattr(restore.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _asked: "yes")
    with pytest.raises(CommandError, match="Nothing was restored"):
        bring_back(file, "--replace")
    assert not Note.objects.exists()
    monkeypatch.setattr("builtins.input", lambda _asked: "replace")
    bring_back(file, "--replace")
    assert Note.objects.exists()


def test_a_look_at_a_backup_says_what_it_holds_and_changes_nothing(
    full: User, file: Path, capsys: pytest.CaptureFixture[str], settings: Any
) -> None:
    backup(file)
    Note.objects.all().delete()
    settings.SECRET_KEY = "another key, long enough for every check that there may be of it"
    bring_back(file, "--check")

    said = capsys.readouterr()
    assert "accounts: 2" in said.out and "The file is whole." in said.out
    assert "under another SECRET_KEY" in said.err
    assert not Note.objects.exists()


def test_nothing_is_restored_while_beacon_runs(full: User, file: Path) -> None:
    backup(file)
    with (
        psycopg.connect(_url()),
        pytest.raises(CommandError, match="Stop Beacon first"),
    ):
        bring_back(file, "--replace", "--yes")


def test_a_database_of_somebody_elses_is_left_alone(full: User, file: Path) -> None:
    backup(file)
    with psycopg.connect(_url(), autocommit=True) as raw:
        raw.execute("CREATE SCHEMA others; SET search_path = others; CREATE TABLE cakes ()")
        try:
            with pytest.raises(NoBackup, match="not Beacon's"):
                backups.accounts(raw)
        finally:
            raw.execute("DROP SCHEMA others CASCADE")


# --- killed on the way ----------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 20_000, 150_000])
def test_a_restore_that_is_killed_leaves_what_was_there(
    full: User, file: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = backup(file)
    Note.objects.filter(owner=full).delete()
    was = rows()
    connections.close_all()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        _die_within(manifest, file, after)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL

    assert not dumps.is_in_use()
    assert rows() == was


def _die_within(manifest: backups.Manifest, file: Path, after: int) -> None:
    """Begin a restore and be killed once so many bytes of the database were read."""
    read = zipfile.ZipExtFile.read1
    seen = 0

    def dying(self: Any, n: int = -1) -> bytes:
        nonlocal seen
        if seen > after:
            os.kill(os.getpid(), signal.SIGKILL)
        seen += n if n > 0 else 0
        return read(self, min(n, 10_000))

    zipfile.ZipExtFile.read1 = dying  # type: ignore[method-assign]
    zipfile.ZipExtFile.readinto = lambda self, b: _into(dying(self, len(b)), b)  # type: ignore[attr-defined]
    try:
        backups.bring_back(site.DATABASES["default"], file, manifest)
    finally:
        os._exit(0)


def _into(data: bytes, place: Any) -> int:
    place[: len(data)] = data
    return len(data)


def test_a_restore_whose_rows_are_others_than_were_counted_is_taken_back(
    full: User, file: Path
) -> None:
    manifest = backup(file)
    was = rows()
    manifest.tables["memory_note"] = dumps.Counted(1, "0")

    with pytest.raises(DumpFailed, match="rows of memory_note are not those of the backup"):
        connections.close_all()
        backups.bring_back(site.DATABASES["default"], file, manifest)
    assert rows() == was


def test_an_older_backup_is_brought_up_to_date(
    full: User, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup(file)
    rewritten(file, lambda told, parts: told["migrations"].pop())
    asked: list[str] = []
    monkeypatch.setattr(restore, "call_command", lambda name, **_more: asked.append(name))
    bring_back(file, "--replace", "--yes")

    assert asked == ["migrate", "vectors"]
    assert User.objects.get(pk=full.pk).username == "alice"


def test_copies_on_disk_that_are_newer_than_the_backup_are_no_edits_of_it(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/.beacon").write_text("ours")
    restore.put_aside(tmp_path / "memory")
    (aside,) = tmp_path.iterdir()
    assert aside.name.startswith("memory-before-restore-")
    assert mirror_left.refused_edits(tmp_path / "memory") == {}


def _url() -> str:
    held = connection.settings_dict
    return os.environ["DATABASE_URL"].rpartition("/")[0] + f"/{held['NAME']}"
