"""Zip files by strangers: rejected with the reason, or read as text; nothing is unpacked.

What their rows may hold is tried in tests/memory/test_archive_input.py and
tests/research/test_archive_hostile.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.accounts.archive import foreign_formats, importer, zips
from memory.accounts.archive.foreign_formats import Choice, Shape
from memory.accounts.archive.zips import ImportRejected
from tests.attacks import hostile_zips
from tests.attacks.figures import Count


def read(path: Path) -> None:
    """Read a file in each way that imports do.  Raises ImportRejected."""
    shape = foreign_formats.shape_of(path, path.name)
    for _entry in foreign_formats.entries(path, path.name, Shape.MARKDOWN, Choice(bullets=True)):
        pass
    if shape == Shape.BEACON:
        with zips.open_zip(path) as archive:
            importer.manifest_of(archive)


def tried(folder: Path, held: bytes) -> str:
    """Return why the bytes are rejected, or "". Nothing must be left behind."""
    path = folder / "import.zip"
    path.write_bytes(held)
    try:
        read(path)
    except ImportRejected as exc:
        return str(exc)
    finally:
        assert [one.name for one in folder.iterdir()] == ["import.zip"]
    return ""


def test_what_leads_out_unfolds_or_is_not_whole_is_refused_with_the_reason(
    tmp_path: Path, count: Count
) -> None:
    said = {what: tried(tmp_path, held) for what, held in hostile_zips.refused()}

    taken = [what for what, why in said.items() if not why]
    count(
        "archive: names, bombs, locks, cuts",
        len(said),
        refused=len(said) - len(taken),
        run=len(taken),
    )
    assert taken == []


def test_links_and_devices_are_read_as_text_and_made_into_nothing(
    tmp_path: Path, count: Count
) -> None:
    said = {what: tried(tmp_path, held) for what, held in hostile_zips.harmless()}

    count("archive: links, devices, zips within", len(said), refused=sum(map(bool, said.values())))
    assert said["a zip within"] == "" or "UTF-8" in said["a zip within"]


@pytest.mark.parametrize("number", [150, pytest.param(5_000, marks=pytest.mark.long)])
def test_no_changed_byte_breaks_the_reading(tmp_path: Path, count: Count, number: int) -> None:
    said = [tried(tmp_path, held) for held in hostile_zips.damaged(number)]

    count("archive: changed bytes", number, refused=sum(map(bool, said)))
    assert any(said)


def test_with_the_guard_off_the_same_files_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: it is the check that refuses them, not that they cannot be read."""
    monkeypatch.setattr(zips, "_check", lambda found, size: None)

    assert tried(tmp_path, hostile_zips.overlapping(4)) == ""
    assert tried(tmp_path, hostile_zips.packed({"a/../../x.md": b"words"})) == ""
