"""Twenty writers, a person and the reflector edit one file: no saved text is lost."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections
from django.test import override_settings

from memory.models import MemoryFile, Revision
from memory.models.actors import REFLECTOR, Actor
from memory.services.files.saving import append_to, save_file
from memory.services.files.texts import FileConflict
from tests.conftest import Say

pytestmark = [
    pytest.mark.faults, pytest.mark.timeout(600), pytest.mark.django_db(transaction=True)
]  # fmt: skip
MONTH = "episodes/2026-02.md"


def _saves(owner: Any, by: Actor, writer: int, times: int) -> int:
    """Add `times` lines, one by one, to the writer's own section; return how many were refused."""
    refused = 0
    try:
        for number in range(times):
            while True:
                file = MemoryFile.objects.for_user(owner).get(path=MONTH)
                head, line = f"## Writer {writer:02}\n", f"- line {writer:02}-{number:02}\n"
                text = file.content.replace(head, head + line)
                try:
                    save_file(owner, MONTH, text, by=by, seen=file.version)
                except FileConflict:  # told as such: the writer looks again, and has its text still
                    refused += 1
                else:
                    break
    finally:
        connections.close_all()
    return refused


def _begun(owner: Any, writers: int) -> None:
    sections = "\n".join(f"## Writer {number:02}\n" for number in range(writers))
    save_file(owner, MONTH, f"# February\n\n{sections}", by=owner.actor, seen=0)


@pytest.mark.parametrize(
    ("writers", "times"), [(4, 5), pytest.param(20, 50, marks=pytest.mark.long)]
)
def test_of_many_writers_at_one_file_no_save_is_lost(
    alice: Any, say: Say, writers: int, times: int
):
    began = time.monotonic()
    with override_settings(BEACON_MIRROR_DIR=""):
        _begun(alice, writers)
        with ThreadPoolExecutor(writers) as pool:
            work = [
                pool.submit(_saves, alice, Actor("agent", f"w{n}"), n, times)
                for n in range(writers)
            ]
            refused = sum(one.result() for one in work)
    file = MemoryFile.objects.for_user(alice).get(path=MONTH)
    wanted = [f"- line {w:02}-{n:02}" for w in range(writers) for n in range(times)]
    lines = file.content.splitlines()
    lost = [line for line in wanted if lines.count(line) != 1]
    say(
        f"{writers} writers at one file, {times} saves each, at once",
        "0 lost updates; a rejected writer gets an error and tries again",
        f"{len(wanted) - len(lost)} of {len(wanted)} lines stand, {refused} saves were rejected "
        f"first, version {file.version}, {time.monotonic() - began:.0f} s",
    )

    assert lost == []
    assert Revision.objects.filter(record_id=file.pk).count() == file.version


def test_a_person_and_the_reflector_at_one_file_lose_nothing_of_each_other(alice: Any, say: Say):
    def looks_back() -> None:
        try:
            for number in range(10):
                append_to(
                    alice, MONTH, f"## Entry {number:02}\n- Summary: seen {number:02}", by=REFLECTOR
                )
        finally:
            connections.close_all()

    with override_settings(BEACON_MIRROR_DIR=""):
        _begun(alice, 1)
        with ThreadPoolExecutor(2) as pool:
            work = [pool.submit(_saves, alice, alice.actor, 0, 10), pool.submit(looks_back)]
            refused, _none = (one.result() for one in work)
    lines = MemoryFile.objects.for_user(alice).get(path=MONTH).content.splitlines()
    wanted = [f"- line 00-{n:02}" for n in range(10)] + [
        f"- Summary: seen {n:02}" for n in range(10)
    ]
    lost = [line for line in wanted if lines.count(line) != 1]
    say(
        "a person and the reflector at one file, 10 saves each, at once",
        "0 lost updates; a rejected writer gets an error and tries again",
        f"{len(wanted) - len(lost)} of {len(wanted)} are there, {refused} saves were rejected first",
    )

    assert lost == []
