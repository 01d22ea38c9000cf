"""The mirror with several writers, and with a process killed in the middle of a write."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse

from memory.models import Activity, MemoryFile, Revision, User
from memory.services.files import mirror, mirror_disk
from memory.services.files.reading import index_text
from memory.services.files.saving import save_file

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
USER = "facts/user.md"
TEXT = "# User\n\n> Summary: Ann, Berlin\n\n- Name: Ann\n- Tea: green\n- City: Berlin\n"


@pytest.fixture
def root(settings: Any, tmp_path: Path) -> Path:
    """The mirror's folder."""
    settings.BEACON_MIRROR_DIR = str(tmp_path / "memory")
    return tmp_path / "memory"


@pytest.fixture
def owner(root: Path, alice: User) -> User:
    """The first account, with a few facts."""
    save_file(alice, USER, TEXT, by=alice.actor)
    return alice


def stored(owner: User) -> str:
    return str(MemoryFile.objects.for_user(owner).get(path=USER).content)


def texts(owner: User) -> str:
    """Return all that was ever stored of the file."""
    file = MemoryFile.objects.for_user(owner).get(path=USER)
    told = Revision.objects.filter(record_id=file.pk).values_list("after__content", flat=True)
    return "\n".join(str(one) for one in told)


@pytest.mark.requirement("R161")
def test_an_edit_by_sed_is_on_the_pages_and_in_the_index(
    owner: User, root: Path, client_of: Callable[[Any], Client]
):
    browser = client_of(owner)
    subprocess.run(["sed", "-i", "s/Tea: green/Tea: white/", str(root / USER)], check=True)

    assert b"Tea: white" in browser.get(reverse("memory:file", args=[USER])).content
    # The summary line is the owner's own: it changes where they change it.
    subprocess.run(["sed", "-i", "s/Berlin/Porto/", str(root / USER)], check=True)
    assert b"Ann, Porto" in browser.get(reverse("memory:files")).content
    assert "Ann, Porto" in index_text(owner)


def test_killed_between_write_and_rename_the_old_file_remains_and_the_new_one_follows(
    owner: User, root: Path, monkeypatch: pytest.MonkeyPatch
):
    class Killed(BaseException):
        """The process ends here, and nothing of it continues."""

    def killed(*_args: Any, **_more: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(mirror_disk, "_swapped", killed)
        patched.setattr(mirror_disk.os, "unlink", killed)
        with pytest.raises(Killed):
            save_file(owner, USER, TEXT + "- More\n", by=owner.actor)
    assert (root / USER).read_text() == TEXT
    assert len(list((root / "facts").glob(".*.tmp"))) == 1

    os.utime(next((root / "facts").glob(".*.tmp")), (0, 0))
    mirror.catch_up()
    assert (root / USER).read_text() == stored(owner)
    assert "More" in stored(owner)
    assert list((root / "facts").glob(".*.tmp")) == []


def test_an_edit_between_our_look_and_our_write_is_imported_first(
    owner: User, root: Path, monkeypatch: pytest.MonkeyPatch
):
    really, edits = mirror_disk._fill, [TEXT.replace("Berlin", "Porto")]

    def fill(*args: Any, **more: Any) -> None:
        really(*args, **more)
        if edits:
            (root / USER).write_text(edits.pop())

    monkeypatch.setattr(mirror_disk, "_fill", fill)
    save_file(owner, USER, TEXT.replace("Name: Ann", "Name: Anna"), by=owner.actor)

    assert "City: Porto" in stored(owner)
    assert "Name: Anna" in stored(owner)
    assert (root / USER).read_text() == stored(owner)


def _in_place(file: Path) -> None:
    """Write into the file that is there, as an editor does that had it open."""
    with file.open("r+") as editor:
        editor.write(TEXT.replace("Berlin", "Porto!"))


def _by_rename(file: Path) -> None:
    subprocess.run(["sed", "-i", "s/Berlin/Porto!/", str(file)], check=True)


@pytest.mark.parametrize("edit", [_in_place, _by_rename])
def test_an_edit_in_the_moment_of_our_rename_is_not_lost(
    owner: User, root: Path, monkeypatch: pytest.MonkeyPatch, edit: Callable[[Path], None]
):
    really, edits = mirror_disk._swapped, [edit]

    def swapped(*args: Any) -> bool:
        while edits:
            edits.pop()(root / USER)
        return really(*args)

    monkeypatch.setattr(mirror_disk, "_swapped", swapped)
    save_file(owner, USER, TEXT.replace("Name: Ann", "Name: Anna"), by=owner.actor)

    assert "City: Porto!" in stored(owner)
    assert "Name: Anna" in stored(owner)
    assert (root / USER).read_text() == stored(owner)
    assert list((root / "facts").glob(".*.tmp")) == []


def test_where_names_cannot_be_exchanged_an_open_editor_loses_nothing(
    owner: User, root: Path, monkeypatch: pytest.MonkeyPatch
):
    really = os.rename

    def rename(*args: Any, **more: Any) -> None:
        _in_place(root / USER)
        monkeypatch.setattr(mirror_disk.os, "rename", really)
        really(*args, **more)

    monkeypatch.setattr(mirror_disk, "_exchange", lambda: None)
    monkeypatch.setattr(mirror_disk.os, "rename", rename)
    save_file(owner, USER, TEXT.replace("Name: Ann", "Name: Anna"), by=owner.actor)

    assert "City: Porto!" in stored(owner)
    assert (root / USER).read_text() == stored(owner)


def test_saves_and_edits_on_disk_at_once_lose_no_line(owner: User, root: Path):
    lines = "".join(f"- Line {n}: x\n\n" for n in range(40))
    save_file(owner, USER, TEXT + "\n" + lines, by=owner.actor)

    def people(first: int) -> None:
        try:
            for n in range(first, first + 8):
                file = MemoryFile.objects.for_user(owner).get(path=USER)
                text = file.content.replace(f"Line {n}: x", f"Line {n}: page{n}")
                save_file(owner, USER, text, by=owner.actor, seen=file.version)
        finally:
            connection.close()

    threads = [threading.Thread(target=people, args=(first,)) for first in (0, 10)]
    for thread in threads:
        thread.start()
    for n in range(20, 26):
        subprocess.run(
            ["sed", "-i", f"s/Line {n}: x/Line {n}: disk{n}/", str(root / USER)], check=True
        )
        mirror.import_edits(owner)
    for thread in threads:
        thread.join()
    mirror.catch_up()

    everywhere = texts(owner) + "".join(one.read_text() for one in root.rglob("*.conflict*"))
    wanted = [f"page{n}" for n in (*range(8), *range(10, 18))] + [f"disk{n}" for n in range(20, 26)]
    assert [word for word in wanted if word not in everywhere] == []
    assert [word for word in wanted if word not in stored(owner)] == []
    assert (root / USER).read_text() == stored(owner)
    assert Activity.objects.filter(is_warning=True).count() == 0


def test_an_edit_within_somebodys_transaction_is_written_back_once_that_is_over(
    owner: User, root: Path
):
    (root / USER).write_text(TEXT.replace("Berlin", "Porto").replace("\n", "\r\n"))
    with transaction.atomic():
        assert "Porto" in index_text(owner)
        assert "\r" in (root / USER).read_bytes().decode()

    assert (root / USER).read_bytes().decode() == stored(owner)
