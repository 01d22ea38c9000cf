"""What is no whole backup, or has no place here, is refused, and nothing is written."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError
from django.db import connection
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from beacon_site import backups
from beacon_site.backups import NoBackup
from memory.management.commands import restore
from memory.models import Note, User
from tests.site.backup_cast import _no_vectors_are_left, backup, bring_back, rewritten, rows  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)


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


def test_a_backup_that_another_key_sealed_is_not_taken_for_ours(
    full: User, file: Path, settings: Any
) -> None:
    """All its sums are right, and it names our key: only the seal tells."""
    ours = settings.SECRET_KEY
    settings.SECRET_KEY = "a key of somebody else's, who would bring their own rows in"
    backup(file)
    settings.SECRET_KEY = ours
    rewritten(file, lambda told, _parts: told.update(key=backups.key_mark()))

    with pytest.raises(CommandError, match="it was changed after it was made"):
        bring_back(file, "--replace", "--yes")


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


def test_a_backup_of_another_key_is_brought_back_only_if_somebody_stands_for_it(
    full: User, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup(file)
    rewritten(file, lambda told, parts: None)
    Note.objects.all().delete()

    with pytest.raises(CommandError, match=r"would be carried out on your database.*--other-key"):
        bring_back(file, "--replace", "--yes")
    monkeypatch.setattr(restore.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _asked: "replace")
    with pytest.raises(CommandError, match="Nothing was restored"):
        bring_back(file, "--replace", "--yes")
    assert not Note.objects.exists()
    monkeypatch.setattr("builtins.input", lambda _asked: "trust")
    bring_back(file, "--replace", "--yes")
    assert Note.objects.exists()


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


def _url() -> str:
    held = connection.settings_dict
    return os.environ["DATABASE_URL"].rpartition("/")[0] + f"/{held['NAME']}"
