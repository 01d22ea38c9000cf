"""Many who write both fact files at once, in Beacon and on disk: nothing is lost, none over budget."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from memory.models import MemoryFile, Revision, User
from memory.models.actors import Actor
from memory.models.errors import MemoryRefused
from memory.models.file_format import FACTS
from memory.services.files import mirror, saving
from memory.services.files.reading import read_file
from memory.services.files.saving import append_to, save_file
from memory.services.files.texts import MAX_FACTS, size_of

WRITERS, WRITES = 20, 50
ON_DISK = 4  # of the writers are editors of the copies on disk


def write(owner: User, writer: int) -> Counter[str]:
    """Write as one of many do: a person's edit, a patch, an append; tell what came of it."""
    rng, told = random.Random(writer), Counter[str]()
    person, agent = owner.actor, Actor("agent", f"a{writer}")
    try:
        for turn in range(WRITES):
            path, mark = FACTS[rng.random() < 0.5], f"w{writer}t{turn}"
            line = f"- {mark} {'é' * rng.randint(1, 40)}"
            file = read_file(owner, path)
            grown = f"{file.content.rstrip()}\n{line}\n"
            act = (
                partial(save_file, owner, path, grown, by=person, seen=file.version, why=mark),
                partial(append_to, owner, path, line, by=agent, why=mark),
                partial(_patch, owner, file, line, agent, mark),
            )[turn % 3]
            try:
                act()
            except MemoryRefused as refused:
                assert str(refused)
                told["refused"] += 1
                if "budget" in type(refused).__name__.lower():
                    _condense(owner, path, person, told)
            else:
                told["accepted"] += 1
    finally:
        connection.close()
    return told


def _patch(owner: User, file: MemoryFile, line: str, by: Actor, why: str) -> None:
    old = file.content.splitlines()[-1]
    edit = saving.patching([(old, f"{line}\n{old}")], seen=file.version)
    saving.write(owner, file.path, edit, saving.Act(by, why))


def _condense(owner: User, path: str, by: Actor, told: Counter[str]) -> None:
    save_file(owner, path, f"# Short\n\n- condensed {told['refused']} {random.random()}\n", by=by)
    told["condensed"] += 1


class Editors:
    """Who edits the copies on disk: one at a time, as one person does with several windows.

    Each replaces the file by a rename, as editors do; whatever was refused is moved away.
    """

    def __init__(self, owner: User, root: Path) -> None:
        self.owner, self.root, self.turn = owner, root, threading.Lock()
        self.marks: list[str] = []
        self.refused: list[str] = []

    def edit(self, editor: int) -> Counter[str]:
        rng, told = random.Random(editor), Counter[str]()
        try:
            for turn in range(WRITES):
                path, mark = FACTS[rng.random() < 0.5], f"d{editor}t{turn}"
                with self.turn:
                    self._add(self.root / path, f"- {mark} {'é' * rng.randint(1, 40)}\n")
                    self.marks.append(mark)
                    mirror.import_edits(self.owner)
                    if self.put_away():
                        _condense(self.owner, path, self.owner.actor, told)
        finally:
            connection.close()
        return told

    def _add(self, file: Path, line: str) -> None:
        temp = file.with_name(f"{file.name}~")
        temp.write_text(f"{file.read_text().rstrip()}\n{line}")
        os.utime(temp, (1, 1))  # it is completely written
        temp.replace(file)

    def put_away(self) -> bool:
        """Read and delete what was refused, as its notice says; return whether there was any."""
        copies = list((self.root / "facts").glob("*.conflict*"))
        for copy in copies:
            self.refused.append(copy.read_text())
            copy.unlink()
        return bool(copies)


@pytest.mark.long
@pytest.mark.faults
@pytest.mark.timeout(600)
@pytest.mark.django_db(transaction=True)
@pytest.mark.requirement("R143")
def test_twenty_writers_of_fifty_saves_lose_nothing_and_pass_no_budget(
    alice: User, settings: Any, tmp_path: Path
):
    settings.BEACON_MIRROR_DIR = str(tmp_path / "memory")
    mirror.catch_up()
    editors = Editors(alice, tmp_path / "memory")
    in_beacon = range(WRITERS - ON_DISK)
    with ThreadPoolExecutor(WRITERS) as pool:
        writing = pool.map(partial(write, alice), in_beacon)
        editing = pool.map(editors.edit, range(ON_DISK))
        told = sum([*writing, *editing], Counter[str]())
    mirror.catch_up()
    editors.put_away()

    assert told["accepted"] + told["refused"] == len(in_beacon) * WRITES
    assert told["accepted"] > len(in_beacon) * WRITES / 3
    files = list(MemoryFile.objects.for_user(alice))
    ids = [file.pk for file in files]
    revisions = Revision.objects.filter(record_id__in=ids).order_by("record_id", "version")
    by_disk = revisions.filter(actor="disk")
    assert revisions.count() == 2 + told["accepted"] + told["condensed"] + by_disk.count()
    sizes: dict[object, int] = {}
    for file in files:
        assert (tmp_path / "memory" / file.path).read_text() == file.content
        versions = list(revisions.filter(record_id=file.pk))
        assert [one.version for one in versions] == list(range(1, file.version + 1))
        for before, after in pairwise(versions):
            assert after.before["content"] == before.after["content"]
    for one in revisions.order_by("id"):
        sizes[one.record_id] = size_of(one.after["content"])
        assert sum(sizes.values()) <= MAX_FACTS
        assert "\n> Summary: " in one.after["content"]
        mark = one.reason.split(" ")[0]
        assert not mark.startswith("w") or f"- {mark} " in one.after["content"]
    kept = "".join([*by_disk.values_list("after__content", flat=True), *editors.refused])
    assert len(editors.marks) == ON_DISK * WRITES
    assert [mark for mark in editors.marks if f"- {mark} " not in kept] == []
