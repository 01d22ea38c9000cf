"""The copy of memory files on disk: written at once, edited by any editor, and never lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from memory.models import (
    Activity,
    FileDraft,
    MemoryFile,
    MirroredFile,
    MirrorFolder,
    Proposal,
    ReviewLevel,
    Revision,
    User,
)
from memory.models.actors import REFLECTOR
from memory.services.files import mirror
from memory.services.files.mirror_disk import name_of
from memory.services.files.reading import files_of, index_text, read_file
from memory.services.files.saving import append_to, lock_section, save_file
from memory.services.files.texts import MAX_FACTS

pytestmark = pytest.mark.django_db(transaction=True)
USER, MEMORY, MONTH = "facts/user.md", "facts/memory.md", "episodes/2026-02.md"
TEXT = "# User\n\n> Summary: Ann, Berlin\n\n- Name: Ann\n- Tea: green\n- City: Berlin\n"


@pytest.fixture
def root(settings: Any, tmp_path: Path) -> Path:
    """The mirror's folder, which is not there yet."""
    settings.BEACON_MIRROR_DIR = str(tmp_path / "memory")
    return tmp_path / "memory"


@pytest.fixture
def owner(root: Path, alice: User) -> User:
    """The first account, with a few facts."""
    save_file(alice, USER, TEXT, by=alice.actor)
    return alice


def sed(file: Path, old: str, new: str) -> None:
    subprocess.run(["sed", "-i", f"s/{old}/{new}/", str(file)], check=True)


def warned(owner: User) -> list[str]:
    return [one.detail["why"] for one in Activity.objects.for_user(owner).filter(is_warning=True)]


def stored(owner: User, path: str = USER) -> str:
    return str(MemoryFile.objects.for_user(owner).live().get(path=path).content)


@pytest.mark.requirement("R162")
def test_every_change_is_on_disk_as_plain_markdown_when_the_save_returns(owner: User, root: Path):
    append_to(owner, MONTH, "## Tea\n- Summary: likes green tea\n", by=REFLECTOR)

    assert (root / USER).read_text() == TEXT
    assert (root / MONTH).read_text() == stored(owner, MONTH)
    names = {str(one.relative_to(root)) for one in root.rglob("*") if one.is_file()}
    assert names == {".beacon", USER, MEMORY, MONTH}
    assert Activity.objects.filter(is_warning=True).count() == 0


@pytest.mark.requirement("R161")
def test_an_edit_by_sed_is_a_revision_by_the_disk_and_is_used_at_once(owner: User, root: Path):
    sed(root / USER, "Berlin", "Lisbon")

    assert "Ann, Lisbon" in index_text(owner)
    last = Revision.objects.filter(record_type="memoryfile").first()
    assert last is not None
    assert (last.actor, last.reason) == ("disk", "")
    assert read_file(owner, USER).trust == "owner"
    assert (root / USER).read_text() == stored(owner)


def test_an_edit_on_disk_is_the_owners_word_without_a_review(owner: User, root: Path):
    """As documented in the threat model: an agent that runs as the same user can do this."""
    ReviewLevel.objects.create(owner=owner, kind="default", level="hold all")
    sed(root / USER, "Berlin", "Lisbon")

    mirror.import_edits(owner)

    assert "City: Lisbon" in stored(owner)
    assert read_file(owner, USER).trust == "owner"
    assert not Proposal.objects.exists()


def test_with_reading_turned_off_an_edit_on_disk_is_set_aside(
    owner: User, root: Path, settings: Any
):
    settings.BEACON_MIRROR_READ = False
    sed(root / USER, "Berlin", "Lisbon")

    mirror.import_edits(owner)

    assert "City: Berlin" in stored(owner)
    assert (root / USER).read_text() == stored(owner)
    assert "Lisbon" in (root / "facts/user.md.conflict").read_text()
    assert "BEACON_MIRROR_READ=0" in warned(owner)[0]
    append_to(owner, MONTH, "## Tea\n- Summary: likes green tea\n", by=REFLECTOR)
    assert (root / MONTH).read_text() == stored(owner, MONTH)  # writing continues


def test_an_edit_on_disk_joins_with_what_was_written_since(owner: User, root: Path, settings: Any):
    settings.BEACON_MIRROR_DIR, kept = "", settings.BEACON_MIRROR_DIR
    save_file(owner, USER, TEXT.replace("Ann\n", "Anna\n"), by=REFLECTOR)
    settings.BEACON_MIRROR_DIR = kept
    sed(root / USER, "City: Berlin", "City: Porto")

    mirror.import_edits(owner)

    assert "Anna" in stored(owner)
    assert "City: Porto" in stored(owner)
    assert (root / USER).read_text() == stored(owner)
    assert not list(root.rglob("*.conflict*"))


def test_an_edit_of_the_same_lines_stays_beside_and_the_stored_text_is_written_back(
    owner: User, root: Path, settings: Any
):
    settings.BEACON_MIRROR_DIR, kept = "", settings.BEACON_MIRROR_DIR
    save_file(owner, USER, TEXT.replace("green", "black"), by=owner.actor)
    settings.BEACON_MIRROR_DIR = kept
    sed(root / USER, "green", "white")

    mirror.import_edits(owner)

    assert "black" in stored(owner)
    assert (root / USER).read_text() == stored(owner)
    assert "white" in (root / "facts/user.md.conflict").read_text()
    assert "facts/user.md.conflict" in MirroredFile.objects.get(path=USER).problem
    assert len(warned(owner)) == 1
    draft = FileDraft.objects.for_user(owner).get(path=USER)  # saving it leads to the merge screen
    assert "white" in draft.content
    assert draft.seen == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"# User\n\n- \xff\xfe\n", "isn’t valid UTF-8"),
        (b"# User\n\n- a\0b\n", "NUL"),
        (b"# User\n" + "- 🦊🦊🦊🦊\n".encode() * 1_000, f"{MAX_FACTS:,}"),
        (b"x" * 2_000_000, "far larger"),
    ],
    ids=["latin", "nul", "budget", "huge"],
)
def test_what_cannot_be_stored_stays_beside_and_is_reported_once(
    owner: User, root: Path, content: bytes, said: str
):
    (root / USER).write_bytes(content)
    mirror.import_edits(owner)
    mirror.import_edits(owner)
    mirror.catch_up()

    assert stored(owner) == TEXT
    assert (root / USER).read_text() == TEXT
    assert (root / "facts/user.md.conflict").read_bytes() == content
    assert len(warned(owner)) == 1
    assert said in warned(owner)[0]


def test_the_same_refused_text_again_makes_no_second_copy_another_one_does(owner: User, root: Path):
    for content in (b"\xff", b"\xff", b"\xfe"):
        (root / USER).write_bytes(content)
        mirror.import_edits(owner)

    names = sorted(one.name for one in (root / "facts").iterdir())
    assert names == ["memory.md", "user.md", "user.md.conflict", "user.md.conflict.2"]
    assert len(warned(owner)) == 2


def test_the_notice_goes_once_the_copy_is_deleted(owner: User, root: Path):
    (root / USER).write_bytes(b"\xff")
    mirror.import_edits(owner)
    (root / "facts/user.md.conflict").unlink()
    mirror.catch_up()

    assert MirroredFile.objects.get(path=USER).problem == ""


def test_what_a_person_locked_no_edit_on_disk_changes(owner: User, root: Path):
    save_file(owner, USER, TEXT + "\n## Work\n\n- Desk: 4\n", by=owner.actor)
    file = MemoryFile.objects.for_user(owner).get(path=USER)
    lock_section(file, ["User", "Work"], by=owner.actor, locked=True)
    sed(root / USER, "Desk: 4", "Desk: 5")

    mirror.import_edits(owner)

    assert "Desk: 4" in stored(owner)
    assert "Desk: 5" in (root / "facts/user.md.conflict").read_text()
    assert "locked" in warned(owner)[0]


def test_a_month_written_on_disk_is_a_new_file_and_other_names_are_left_alone(
    owner: User, root: Path
):
    (root / "episodes").mkdir(exist_ok=True)
    (root / "episodes/2026-01.md").write_text("# 2026-01 Episodes\n\n## Trip\n- Summary: to Rome\n")
    for name in ("facts/other.md", "episodes/2026-13.md", "notes.txt", "episodes/2026-03.md~"):
        (root / name).write_text("mine")

    paths = [file.path for file in files_of(owner)]

    assert paths == [USER, MEMORY, "episodes/2026-01.md"]
    assert (root / "facts/other.md").read_text() == "mine"
    assert MirroredFile.objects.count() == 3


def test_a_file_deleted_on_disk_is_written_again_and_one_in_the_trash_leaves_the_disk(
    owner: User, root: Path
):
    append_to(owner, MONTH, "## Tea\n- Summary: likes green tea\n", by=owner.actor)
    (root / USER).unlink()
    (root / MONTH).unlink()
    mirror.import_edits(owner)
    assert (root / USER).read_text() == TEXT
    assert (root / MONTH).exists()
    assert len(warned(owner)) == 2

    MemoryFile.objects.for_user(owner).get(path=MONTH).trash(by=owner.actor)
    assert not (root / MONTH).exists()
    MemoryFile.objects.for_user(owner).get(path=MONTH).restore(by=owner.actor)
    assert (root / MONTH).read_text() == stored(owner, MONTH)


@pytest.mark.requirement("R145")
def test_links_and_pipes_are_not_followed(owner: User, root: Path, tmp_path: Path):
    outside = tmp_path / "outside.md"
    outside.write_text("# Outside\n")
    (root / USER).unlink()
    (root / USER).symlink_to(outside)
    (root / "episodes").mkdir(exist_ok=True)
    os.mkfifo(root / MONTH)

    mirror.import_edits(owner)

    assert stored(owner) == TEXT
    assert outside.read_text() == "# Outside\n"
    assert not (root / USER).is_symlink()
    assert (root / USER).read_text() == TEXT
    assert [file.path for file in files_of(owner)] == [USER, MEMORY]


@pytest.mark.requirement("R145")
def test_a_folder_that_leads_elsewhere_is_neither_read_nor_written(
    owner: User, root: Path, tmp_path: Path
):
    (tmp_path / "else").mkdir()
    (root / "facts").rename(tmp_path / "kept")
    (root / "facts").symlink_to(tmp_path / "else")

    save_file(owner, USER, TEXT + "- More\n", by=owner.actor)

    assert list((tmp_path / "else").iterdir()) == []
    assert "can’t be read or written" in MirroredFile.objects.get(path=USER).problem
    mirror.import_edits(owner)
    mirror.catch_up()
    assert len(warned(owner)) == 1


def test_others_have_folders_of_their_own_and_no_name_leads_out_of_it(
    owner: User, root: Path, bob: User
):
    climber = User.objects.create_user(username="..", password="x")
    shouting = User.objects.create_user(username="BOB", password="x")
    sed(root / "users/bob" / USER, "nothing yet", "Bob")

    assert "Bob" in index_text(bob)
    assert stored(owner) == TEXT
    assert (name_of(climber), name_of(shouting)) == (f"~{climber.pk}", f"BOB~{shouting.pk}")
    assert (root / "users" / name_of(climber) / USER).exists()


def test_a_second_beacon_refuses_the_folder_until_the_mark_of_the_first_is_deleted(
    owner: User, root: Path
):
    (root / ".beacon").write_text('{"beacon": "another"}')
    save_file(owner, USER, TEXT + "- More\n", by=owner.actor)
    sed(root / USER, "green", "white")
    mirror.import_edits(owner)

    assert "white" in (root / USER).read_text()
    assert "white" not in stored(owner)
    assert "belongs to another Beacon" in MirrorFolder.objects.get().problem
    assert len(warned(owner)) == 1

    (root / ".beacon").unlink()
    mirror.catch_up()
    assert "white" in stored(owner)
    assert "More" in (root / USER).read_text()
    assert MirrorFolder.objects.get().problem == ""


def test_files_that_lay_there_before_are_imported_by_a_new_beacon(root: Path):
    (root / "facts").mkdir(parents=True)
    (root / USER).write_text(TEXT)
    alice = User.objects.create_user(username="alice", password="x")

    mirror.import_edits(alice)

    assert stored(alice) == TEXT
    assert (root / USER).read_text() == TEXT


def test_a_folder_that_is_gone_is_made_again_with_all_files(owner: User, root: Path):
    root.rename(root.parent / "moved")
    mirror.catch_up()

    assert (root / USER).read_text() == TEXT
    assert (root / MEMORY).exists()
    assert len(warned(owner)) == 1


def test_what_could_not_be_written_is_caught_up_and_the_edit_went_on(owner: User, root: Path):
    (root / "facts").rename(root / "away")
    (root / "facts").write_text("a file where the folder should be")
    save_file(owner, USER, TEXT + "- More\n", by=owner.actor)
    save_file(owner, USER, TEXT + "- Even more\n", by=owner.actor)
    assert len(warned(owner)) == 1

    (root / "facts").unlink()
    (root / "away").rename(root / "facts")
    mirror.catch_up()

    assert "Even more" in (root / USER).read_text()
    assert MirroredFile.objects.get(path=USER).problem == ""


@pytest.mark.requirement("R166")
def test_one_setting_moves_the_folder(owner: User, root: Path, settings: Any, tmp_path: Path):
    settings.BEACON_MIRROR_DIR = str(tmp_path / "elsewhere")
    mirror.catch_up()
    sed(tmp_path / "elsewhere" / USER, "green", "white")

    assert "white" in str(read_file(owner, USER).content)
    assert "green" in (root / USER).read_text()
    assert warned(owner) == []


def test_without_a_folder_nothing_is_mirrored(alice: User, settings: Any):
    settings.BEACON_MIRROR_DIR = ""
    save_file(alice, USER, TEXT, by=alice.actor)

    assert mirror.catch_up() == 0
    assert MirroredFile.objects.count() == 0


def test_looking_at_the_disk_costs_few_queries(
    owner: User, root: Path, django_assert_max_num_queries: Any
):
    with django_assert_max_num_queries(4):
        mirror.import_edits(owner)
    assert root.exists()
