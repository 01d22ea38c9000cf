"""Folders of accounts on disk: they follow who they belong to, not a name that can be given again."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from beacon_site.worker_threads import FINDS_NOTHING
from memory import tasks
from memory.models import Activity, MemoryFile, MirroredFile, MirrorFolder, User
from memory.services.files import mirror
from memory.services.files.reading import read_file
from memory.services.files.saving import append_to, save_file

pytestmark = pytest.mark.django_db(transaction=True)
USER, MONTH = "facts/user.md", "episodes/2026-02.md"
TEXT = "# User\n\n> Summary: Bob\n\n- Name: Bob\n"


@pytest.fixture
def root(settings: Any, tmp_path: Path, alice: User) -> Path:
    """The mirror's folder, whose root is alice's."""
    settings.BEACON_MIRROR_DIR = str(tmp_path / "memory")
    save_file(alice, USER, "# User\n\n- Name: Alice\n", by=alice.actor)
    return tmp_path / "memory"


@pytest.fixture
def second(root: Path) -> User:
    """The second account, with its own words."""
    second = User.objects.create_user(username="bob", password="x")
    save_file(second, USER, TEXT, by=second.actor)
    return second


def renamed(account: User, name: str) -> User:
    User.objects.filter(pk=account.pk).update(username=name)
    return User.objects.get(pk=account.pk)


def stored(owner: User, path: str = USER) -> str:
    return str(MemoryFile.objects.for_user(owner).live().get(path=path).content)


def test_who_gets_the_name_of_a_deleted_account_inherits_none_of_its_words(
    second: User, root: Path
):
    (root / "users/bob/facts/user.md.conflict").write_text("- Secret: bob's\n")
    (root / "users/bob/own.txt").write_text("mine")
    second.delete()
    assert [one.name for one in (root / "users/bob").rglob("*")] == ["own.txt"]

    heir = User.objects.create_user(username="bob", password="x")
    mirror.catch_up()

    assert "Name: Bob" not in stored(heir)
    assert "Name: Bob" not in (root / "users/bob" / USER).read_text()


def test_copies_that_could_not_be_deleted_go_to_no_one(second: User, root: Path, settings: Any):
    settings.BEACON_MIRROR_DIR = ""  # the folder was away
    second.delete()
    settings.BEACON_MIRROR_DIR = str(root)
    heir = User.objects.create_user(username="bob", password="x")
    mirror.catch_up()

    assert "Name: Bob" not in stored(heir)
    assert (root / "users/bob~left" / USER).read_text() == TEXT
    told = Activity.objects.get(kind="mirror-folder-removed")
    assert "users/bob~left" in told.detail["why"]


def test_a_renamed_account_takes_its_folder_along(second: User, root: Path):
    ann = renamed(second, "ann")
    with (root / "users/bob" / USER).open("a") as file:
        file.write("- Tea: green\n")
    mirror.catch_up()

    assert "- Tea: green" in stored(ann)
    assert "- Tea: green" in (root / "users/ann" / USER).read_text()
    assert not (root / "users/bob").exists()
    assert not Activity.objects.filter(is_warning=True).exists()


def test_two_accounts_that_change_names_keep_their_words(second: User, root: Path):
    third = User.objects.create_user(username="carol", password="x")
    save_file(third, USER, TEXT.replace("Bob", "Carol"), by=third.actor)
    renamed(third, "x")
    bob = renamed(second, "carol")
    carol = renamed(third, "bob")
    for _round in range(2):
        mirror.catch_up()

    assert ("Bob" in stored(bob), "Carol" in stored(carol)) == (True, True)
    assert "Bob" in (root / "users/carol" / USER).read_text()
    assert "Carol" in (root / "users/bob" / USER).read_text()
    assert sorted(one.name for one in (root / "users").iterdir()) == ["bob", "carol"]


def test_the_first_account_goes_with_its_copies_and_the_others_continue(
    second: User, root: Path, alice: User
):
    append_to(alice, MONTH, "## Tokyo\n- Summary: fares", by=alice.actor)
    alice.delete()
    save_file(second, USER, TEXT + "- More\n", by=second.actor)
    mirror.catch_up()

    assert not (root / USER).exists()
    assert not (root / MONTH).exists()
    assert "- More" in (root / "users/bob" / USER).read_text()
    assert MirrorFolder.objects.get().root is None


def test_a_deletion_that_is_undone_deletes_no_copy(second: User, root: Path):
    from django.db import transaction

    with transaction.atomic():
        User.objects.get(pk=second.pk).delete()
        transaction.set_rollback(True)

    assert (root / "users/bob" / USER).read_text() == TEXT


@pytest.mark.parametrize("mark", ["", "[]", "{", '{"beacon": 7}', "\udcff"])
def test_a_folder_without_a_mark_of_ours_is_imported(second: User, root: Path, mark: str):
    """As one that a person put there, or that a deleted Beacon left."""
    (root / "users/bob/.beacon").write_bytes(mark.encode(errors="surrogateescape"))
    (root / "users/bob" / USER).write_text(TEXT + "- Tea: green\n")
    mirror.catch_up()

    assert "- Tea: green" in stored(second)
    assert json.loads((root / "users/bob/.beacon").read_text())["account"] == second.pk


def test_a_link_in_the_place_of_an_accounts_folder_is_not_followed(
    second: User, root: Path, tmp_path: Path
):
    (root / "users/bob").rename(tmp_path / "elsewhere")
    (root / "users/bob").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / USER).write_text(TEXT + "- Tea: green\n")
    save_file(second, USER, TEXT + "- Tea: white\n", by=second.actor)
    mirror.catch_up()

    assert "green" not in stored(second)
    assert "green" in (tmp_path / "elsewhere" / USER).read_text()
    assert "copy on disk can’t" in MirroredFile.objects.get(owner=second, path=USER).problem
    assert read_file(second, USER).content.endswith("- Tea: white\n")


# --- the folder itself ----------------------------------------------------------------------------


def test_a_folder_that_another_was_swapped_for_replaces_no_words(
    second: User, root: Path, alice: User
):
    root.rename(root.parent / "before")
    (root / "facts").mkdir(parents=True)
    (root / USER).write_text("# User\n\n- Name: Mallory\n")
    mirror.catch_up()

    assert "Alice" in stored(alice)
    assert "Alice" in (root / USER).read_text()
    assert "Mallory" in (root / "facts/user.md.conflict").read_text()
    assert "Bob" in (root / "users/bob" / USER).read_text()


def test_a_folder_in_a_files_place_is_moved_aside_once(second: User, root: Path, alice: User):
    (root / USER).unlink()
    (root / USER).mkdir()
    (root / USER / "own.txt").write_text("mine")
    for _look in range(3):
        mirror.catch_up()

    names = sorted(one.name for one in (root / "facts").iterdir())
    assert names == ["memory.md", "user.md", "user.md.conflict"]
    assert (root / "facts/user.md.conflict/own.txt").read_text() == "mine"
    assert "Alice" in (root / USER).read_text()
    told = Activity.objects.for_user(alice).filter(kind="disk-edit-refused")
    assert told.count() == 1


def settle() -> None:
    while mirror.catch_up():
        pass
    assert mirror.is_settled()


def test_after_a_check_without_news_only_a_change_on_disk_or_time_asks_for_another(
    second: User, root: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(mirror, "_settled", None)
    assert not mirror.is_settled()

    settle()
    (root / "own.txt").write_text("not a memory file")
    assert mirror.is_settled()
    for change in (
        lambda: (root / "users/bob" / USER).write_text(TEXT + "- Tea: green\n"),
        lambda: (root / USER).unlink(),
        lambda: (root / "facts/project.md").write_text("# Project\n\n- Beacon\n"),
        lambda: (root / ".beacon").unlink(),
    ):
        settle()
        change()
        assert not mirror.is_settled()
        mirror.catch_up()
    assert "Tea: green" in stored(second)

    settle()
    monkeypatch.setattr(mirror, "SETTLED_SECONDS", 0.0)
    assert not mirror.is_settled()


def test_an_unreadable_folder_of_one_account_keeps_the_others_in_step(
    second: User, root: Path, monkeypatch: pytest.MonkeyPatch
):
    settle()
    scandir = os.scandir

    def refusing(folder: Any) -> Any:
        if Path(folder) == root / "users/bob/facts":
            raise PermissionError(errno.EACCES, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refusing)
    assert not mirror.is_settled()

    (root / USER).write_text(TEXT + "- Tea: green\n")
    mirror.catch_up()

    assert "Tea: green" in stored(User.objects.get(username="alice"))


def test_the_beat_asks_only_a_folder_inside_the_data_folder(
    second: User, root: Path, settings: Any
):
    is_idle = FINDS_NOTHING[tasks.follow_mirror.name]
    settle()
    assert not is_idle()

    settings.DATA_DIR = root.parent
    assert is_idle()
