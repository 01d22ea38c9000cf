"""Many who write both fact files at once: nothing is lost, nothing passes the budget."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import pytest
from django.db import connection

from memory.actors import Actor
from memory.errors import MemoryRefused
from memory.files.limits import MOST_FACTS, size_of
from memory.files.paths import FACTS
from memory.files.reading import read_file
from memory.files.saving import append_to, patch_file, save_file
from memory.models import MemoryFile, Revision, User

WRITERS, WRITES = 20, 50


def write(owner: User, writer: int) -> Counter[str]:
    """Write 50 times as one of many do: a person's edit, a patch, an append; tell what came of it."""
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
    patch_file(owner, file.path, [(old, f"{line}\n{old}")], by=by, seen=file.version, why=why)


def _condense(owner: User, path: str, by: Actor, told: Counter[str]) -> None:
    save_file(owner, path, f"# Short\n\n- condensed {told['refused']} {random.random()}\n", by=by)
    told["condensed"] += 1


@pytest.mark.timeout(600)
@pytest.mark.django_db(transaction=True)
@pytest.mark.requirement("R143")
def test_twenty_writers_of_fifty_saves_lose_nothing_and_pass_no_budget(alice: User):
    with ThreadPoolExecutor(WRITERS) as pool:
        told = sum(pool.map(partial(write, alice), range(WRITERS)), Counter[str]())

    assert told["accepted"] + told["refused"] == WRITERS * WRITES
    assert told["accepted"] > WRITERS * WRITES / 3
    files = list(MemoryFile.objects.of(alice))
    ids = [file.pk for file in files]
    revisions = Revision.objects.filter(record_id__in=ids).order_by("record_id", "version")
    assert revisions.count() == 2 + told["accepted"] + told["condensed"]
    sizes: dict[object, int] = {}
    for file in files:
        versions = list(revisions.filter(record_id=file.pk))
        assert [one.version for one in versions] == list(range(1, file.version + 1))
        for before, after in pairwise(versions):
            assert after.before["content"] == before.after["content"]
    for one in revisions.order_by("id"):
        sizes[one.record_id] = size_of(one.after["content"])
        assert sum(sizes.values()) <= MOST_FACTS
        assert "\n> Summary: " in one.after["content"]
        mark = one.reason.split(" ")[0]
        assert not mark.startswith("w") or f"- {mark} " in one.after["content"]
