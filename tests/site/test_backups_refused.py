"""Files that aren't complete backups, or can't be restored here, are refused; nothing is written."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError
from django.db import connection
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from beacon_site.launcher import backups
from beacon_site.launcher.backups import BackupError
from memory.management.commands import restore
from memory.models import Note, User
from tests.site.backup_cast import _no_vectors_are_left, backup, bring_back, rewritten, rows  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def _other_byte(manifest: Any, parts: Any) -> None:
    parts[backups.DATABASE] = parts[backups.DATABASE][:-1] + b"x"


def _newer_format(manifest: Any, parts: Any) -> None:
    manifest["format"] = 99


def _newer_beacon(manifest: Any, parts: Any) -> None:
    manifest["migrations"].append("memory.9999_of_tomorrow")


def _another_program(manifest: Any, parts: Any) -> None:
    manifest["kind"] = "cake"


def _one_more_part(manifest: Any, parts: Any) -> None:
    parts["files/more"] = b"x"


def _outside(manifest: Any, parts: Any) -> None:
    parts["files/../../x"] = b"x"
    manifest["parts"]["files/../../x"] = {"size": 1, "sha256": "0" * 64}


def _absolute(manifest: Any, parts: Any) -> None:
    parts["files//etc/x"] = b"x"
    manifest["parts"]["files//etc/x"] = {"size": 1, "sha256": "0" * 64}


def _wrong_types(manifest: Any, parts: Any) -> None:
    manifest["parts"] = ["database.dump"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_other_byte, "the checksum of database.dump doesn’t match"),
        (_newer_format, "Restore it with the version that created it"),
        (_newer_beacon, "A newer version of Beacon"),
        (_another_program, "isn’t a Beacon backup"),
        (_one_more_part, "the contents don’t match the manifest"),
        (_outside, "outside its folder"),
        (_absolute, "outside its folder"),
        (_wrong_types, "the manifest is invalid"),
    ],
)
def test_a_changed_backup_is_refused_and_nothing_changes(
    full: User, file: Path, change: Any, why: str
) -> None:
    backup(file)
    rewritten(file, change)
    was = rows()

    with pytest.raises(CommandError, match=why):
        bring_back(file, "--replace", "--yes")
    assert rows() == was


def _forged(manifest: Any, parts: Any) -> None:
    manifest["accounts"] = 1


def test_a_backup_that_another_key_signed_or_that_was_changed_is_restored_only_if_trusted(
    full: User, file: Path
) -> None:
    backup(file)
    rewritten(file, _forged, sign=False)  # all checksums are right
    Note.objects.all().delete()

    with pytest.raises(CommandError, match="add --other-key only if you trust the backup’s source"):
        bring_back(file, "--replace", "--yes")
    assert not Note.objects.exists()
    bring_back(file, "--replace", "--yes", "--other-key")
    assert Note.objects.exists()


@pytest.fixture(scope="module")
def whole() -> Iterator[bytes]:
    """The bytes of a small backup, for changing one of them."""
    held = io.BytesIO()
    data = b"SELECT 1;\n" * 50
    part = backups.Part(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    manifest = backups.Manifest(
        created_at=datetime(2026, 1, 1, tzinfo=UTC), version="1", database_schema="public",
        accounts=1, migrations=[], parts={backups.DATABASE: part},
    )  # fmt: skip
    written = manifest.model_dump_json().encode()
    with zipfile.ZipFile(held, "w") as zipped:
        zipped.writestr(backups.DATABASE, data)
        zipped.writestr(backups.MANIFEST, written)
        zipped.writestr(backups.SIGNATURE, backups.signature(written))
    yield held.getvalue()


@hypothesis_settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=150,
)
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
            assert backups.read(place).manifest.parts[backups.DATABASE].size == len(
                zipped.read(backups.DATABASE)
            )
    except BackupError as refused:
        assert "backup" in str(refused)


def test_what_is_not_empty_is_replaced_only_in_so_many_words(
    full: User, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup(file)
    Note.objects.all().delete()

    with pytest.raises(CommandError, match=r"has 2 accounts with data.*add --replace"):
        bring_back(file)
    with pytest.raises(CommandError, match="Add --yes"):
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
    assert "accounts: 2" in said.out and "The file is complete." in said.out
    assert "wasn’t signed with this SECRET_KEY" in said.err
    assert not Note.objects.exists()


def test_nothing_is_restored_while_beacon_runs(full: User, file: Path) -> None:
    backup(file)
    with (
        psycopg.connect(_url()),
        pytest.raises(CommandError, match="The database is in use"),
    ):
        bring_back(file, "--replace", "--yes")


def test_a_database_of_another_program_is_left_alone(
    full: User, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup(file)
    monkeypatch.setattr(connection.introspection, "table_names", lambda: ["cakes"])

    with pytest.raises(CommandError, match=r"tables that aren’t Beacon’s \(cakes\)"):
        bring_back(file, "--replace", "--yes")


def _url() -> str:
    held = connection.settings_dict
    return os.environ["DATABASE_URL"].rpartition("/")[0] + f"/{held['NAME']}"
