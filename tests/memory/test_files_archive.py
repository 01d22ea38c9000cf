"""Memory files in an account's archive: by the same limits as any save, and nothing replaced."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory.accounts.archive import exporter
from memory.accounts.archive.importer import ImportContext, KindCounts, import_archive
from memory.accounts.archive.zips import ImportRejected
from memory.models import MemoryFile, Revision, Section, User
from memory.models.actors import Actor
from memory.services.files.reading import read_file
from memory.services.files.saving import append_to, lock_section, save_file

USER, MEMORY, MONTH = "facts/user.md", "facts/memory.md", "episodes/2026-02.md"


def exported(owner: User, path: Path, change: Callable[[Any], object] = lambda row: None) -> Path:
    """Write an archive, each row of a file changed by `change`."""
    exporter.write(owner, path)
    with zipfile.ZipFile(path) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    rows = [json.loads(line) for line in held["data/files.jsonl"].splitlines()]
    for row in rows:
        change(row)
    held["data/files.jsonl"] = "\n".join(map(json.dumps, rows)).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in held.items():
            archive.writestr(name, content)
    return path


def taken_in(path: Path, owner: User) -> KindCounts:
    return import_archive(path, ImportContext(owner, owner.actor, "a.zip", True), only_look=False)[
        "files"
    ]


@pytest.fixture
def written(alice: User) -> User:
    """Alice, with words in a fact file and in a month, of which one section is locked."""
    save_file(alice, USER, "# User\n\n- Name: Ann\n", by=alice.actor)
    append_to(alice, MONTH, "## Tokyo\n- Summary: cheap flights", by=alice.actor)
    heading = ["2026-02 Episodes", "Tokyo"]
    lock_section(read_file(alice, MONTH), heading, by=alice.actor, locked=True)
    return alice


@pytest.mark.requirement("R162")
def test_an_archive_holds_the_files_as_plain_markdown(written: User, tmp_path: Path):
    with zipfile.ZipFile(exported(written, tmp_path / "a.zip")) as archive:
        text = archive.read(f"readable/{MONTH}").decode()

    assert text == read_file(written, MONTH).content


def test_files_come_in_with_history_locks_and_sections(written: User, bob: User, tmp_path: Path):
    counted = taken_in(exported(written, tmp_path / "a.zip"), bob)

    month = read_file(bob, MONTH)
    assert (counted.new, counted.refused) == (3, 0)
    assert read_file(bob, USER).content == "# User\n\n> Summary: Name: Ann\n\n- Name: Ann\n"
    assert month.section_locks == [["2026-02 Episodes", "Tokyo"]]
    assert Revision.objects.filter(record_id=month.pk).count() == 2
    assert Section.objects.for_user(bob).filter(file=month).count() == 1


def test_an_agents_own_file_comes_in_as_it_was_written(alice: User, bob: User, tmp_path: Path):
    path, text = "agents/claude/notes.md", "hello\nworld\n"
    save_file(alice, path, text, by=Actor("agent", "claude"))

    taken_in(exported(alice, tmp_path / "a.zip"), bob)

    there = read_file(bob, path)
    assert (there.content, there.summary) == (text, "hello, world")
    assert Revision.objects.get(record_id=there.pk).after["content"] == text


def test_a_file_with_words_of_its_own_is_never_replaced(written: User, bob: User, tmp_path: Path):
    save_file(bob, USER, "# User\n\n- Name: Bob\n", by=bob.actor)

    counted = taken_in(exported(written, tmp_path / "a.zip"), bob)

    assert (counted.new, counted.refused) == (2, 1)
    assert "a memory file with this name and different content already exists" in counted.whys[0]
    assert "Bob" in read_file(bob, USER).content


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row.update(path="../etc/passwd"),
        lambda row: row.update(content="z" * 9_000),
        lambda row: row.update(content="z\n" * 140_000),
        lambda row: row.update(path=MEMORY, trashed_at="2026-01-01T00:00:00+00:00"),
    ],
)
def test_what_no_save_would_take_is_refused(
    written: User, bob: User, tmp_path: Path, change: Callable[[Any], object]
):
    counted = taken_in(exported(written, tmp_path / "a.zip", change), bob)

    assert (counted.new, counted.refused) == (0, 3)
    assert MemoryFile.objects.for_user(bob).count() == 2


def test_derived_columns_that_someone_made_up_are_worked_out_again(
    written: User, bob: User, tmp_path: Path
):
    made_up = {"size": 1, "summary": "lies", "blame": [[7, "x"]], "section_locks": ["no", ["x"]]}

    taken_in(exported(written, tmp_path / "a.zip", lambda row: row.update(made_up)), bob)

    file = read_file(bob, USER)
    assert (file.size, file.summary) == (len(file.content.encode()), "Name: Ann")
    assert (file.blame, file.section_locks) == ([[5, 2]], [])


def test_facts_beyond_the_budget_together_are_not_imported(
    written: User, bob: User, tmp_path: Path
):
    def grow(row: Any) -> None:
        if row["path"] != MONTH:
            row["content"] = "# Big\n\n> Summary: big\n\n" + "z\n" * 5_000

    with pytest.raises(ImportRejected, match=r"would be 20,\d+ bytes"):
        taken_in(exported(written, tmp_path / "a.zip", grow), bob)
    assert MemoryFile.objects.for_user(bob).count() == 2
