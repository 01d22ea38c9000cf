"""`export_files` and `import_files`: files in and out, shown before they are stored."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from memory.models import MemoryFile, Revision, User
from memory.services.files.saving import append_to, save_file

USER, MEMORY, MONTH = "facts/user.md", "facts/memory.md", "episodes/2026-02.md"
TEXT = "# User\n\n> Summary: Ann, Berlin\n\n- Name: Ann\n- Tea: green\n- City: Berlin\n"


def run(name: str, *arguments: Any) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command(name, *map(str, arguments), stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def stored(owner: User, path: str = USER) -> str:
    return str(MemoryFile.objects.for_user(owner).live().get(path=path).content)


def zipped(place: Path, *files: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files:
            packed.writestr(name, content)
    return place


@pytest.mark.requirement("R162")
@pytest.mark.parametrize("place", ["out", "out.zip"])
def test_files_go_out_as_markdown_and_come_back_letter_by_letter(
    alice: User, bob: User, tmp_path: Path, place: str
):
    save_file(alice, USER, TEXT, by=alice.actor)
    append_to(alice, MONTH, "## Tea\n- Summary: likes green tea\n", by=alice.actor)

    run("export_files", "alice", tmp_path / place)
    run("import_files", "bob", tmp_path / place, "--apply")

    for path in (USER, MEMORY, MONTH):
        assert stored(bob, path) == stored(alice, path)


def test_the_account_can_be_left_out_where_there_is_one(alice: User, tmp_path: Path):
    assert "2 files written" in run("export_files", tmp_path / "out")[1]
    User.objects.create_user(username="bob", password="x")

    with pytest.raises(CommandError, match="Enter the account’s username"):
        run("export_files", tmp_path / "out")


def test_a_look_shows_a_diff_that_patch_reads_and_stores_nothing(alice: User, tmp_path: Path):
    save_file(alice, USER, TEXT, by=alice.actor)
    run("export_files", tmp_path / "out")
    file = tmp_path / "out" / USER
    file.write_text(TEXT.replace("green", "white") + "- Dog: Rex")
    new = tmp_path / "new"
    new.write_text(TEXT)

    out, err = run("import_files", tmp_path / "out")

    assert "-- Tea: green\n" in out
    assert "+- Tea: white\n" in out
    assert "1 of 2 files would change" in err
    assert stored(alice) == TEXT
    subprocess.run(["patch", "-s", str(new)], input=out, text=True, check=True)
    run("import_files", tmp_path / "out", "--apply")
    assert new.read_text() == stored(alice)
    last = Revision.objects.filter(record_type="memoryfile").first()
    assert last is not None
    assert (last.actor, last.reason) == ("import:out", "imported from out")


def test_one_refused_file_keeps_all_out(alice: User, tmp_path: Path):
    place = zipped(
        tmp_path / "a.zip", (USER, TEXT.encode()), (MONTH, b"\xff"), ("facts/x.md", b"x")
    )

    with pytest.raises(CommandError, match="1 of 2 files can’t be imported, so nothing was stored"):
        run("import_files", "alice", place, "--apply")

    assert MemoryFile.objects.for_user(alice).count() == 2
    assert "nothing yet" in stored(alice)


def test_facts_that_fit_together_pass_whichever_grows(alice: User, tmp_path: Path):
    long = "# Memory\n" + "- 0123456789012345678901234567890123456789\n" * 300
    save_file(alice, MEMORY, long, by=alice.actor)
    place = zipped(
        tmp_path / "a.zip", (USER, long.replace("Memory", "User").encode()), (MEMORY, b"# Memory\n")
    )

    assert "2 of 2 files changed" in run("import_files", "alice", place, "--apply")[1]


def link() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(USER)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ([("../facts/user.md", b"x")], "points outside"),
        ([("/facts/user.md", b"x")], "points outside"),
        ([(USER, b"x"), (USER, b"y")], "two files with the same name"),
        ([(link(), b"/etc/passwd")], "contains a symbolic link"),
        ([(USER, b"x" * 400_000_00)], "far too much"),
        ([("notes/other.md", b"x")], "no memory file"),
    ],
    ids=["slip", "absolute", "double", "link", "bomb", "none"],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_hostile_zip_is_refused_whole(alice: User, tmp_path: Path, files: list[Any], said: str):
    place = zipped(tmp_path / "a.zip", *files)

    with pytest.raises(CommandError, match=said):
        run("import_files", "alice", place, "--apply")

    assert "nothing yet" in stored(alice)


@pytest.mark.timeout(60)
def test_a_pipe_is_refused_and_nothing_isnt_a_folder(alice: User, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")

    for command in ("import_files", "import_account"):
        with pytest.raises(CommandError, match="isn’t a regular file"):
            call_command(command, "alice", str(tmp_path / "pipe"))
    with pytest.raises(CommandError, match="enter a folder or zip file"):
        run("export_files", "alice", "")


def test_no_text_of_someone_elses_is_written_over(alice: User, tmp_path: Path):
    (tmp_path / "facts").mkdir()
    (tmp_path / USER).write_text("mine")

    with pytest.raises(CommandError, match="already has different files"):
        run("export_files", "alice", tmp_path)

    assert (tmp_path / USER).read_text() == "mine"
    assert not (tmp_path / MEMORY).exists()
