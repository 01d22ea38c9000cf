"""Kills during a permanent deletion, and a full disk: all or nothing, with an error.

A process is held at an exact place by a lock that the test has on a table, and killed there.
"""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.conftest import Say
from tests.faults.processes import ROOT, Site, site
from tests.faults.test_backup import rows_of

pytestmark = [pytest.mark.faults, pytest.mark.long, pytest.mark.timeout(400)]

TOPIC = "Solid-state batteries"
WAITS = (
    "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE NOT l.granted"
    " AND c.relname = %s AND l.database = (SELECT oid FROM pg_database"
    " WHERE datname = current_database())"
)
OTHERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)


@pytest.fixture(scope="module")
def beacon() -> Iterator[Site]:
    """A site with a researched topic and a second account of staff, without a worker."""
    with site() as made:
        made.manage(
            "createsuperuser", "--noinput", "--username=carol", "--email=carol@example.org",
            DJANGO_SUPERUSER_PASSWORD="carol-horse-battery",
        )  # fmt: skip
        made.manage("research", TOPIC, "--sample", "--wait", "--user", "alice")
        yield made


def _killed_at(beacon: Site, table: str, *act: str) -> None:
    """Run an act of acts.py, and kill its process when it comes to delete from `table`."""
    with psycopg.connect(beacon.url) as held:
        held.execute(f'LOCK TABLE "{table}" IN SHARE MODE')  # type: ignore[call-overload]  # a name of ours
        acting = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.acts", *act], cwd=ROOT, env=beacon.environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            beacon.wait(lambda: beacon.value(WAITS, table), 120)
        finally:
            acting.kill()
            assert acting.wait(30) == -signal.SIGKILL
        held.rollback()
    beacon.wait(lambda: beacon.value(OTHERS) == 0)


# What is deleted -> the table to which it comes last, the act, and what counts the thing itself.
DELETED = {
    "permanently deleting a topic": (
        "memory_topic",
        ("purge", TOPIC),
        "SELECT count(*) FROM memory_topic",
    ),
    "deleting an account": (
        "axes_accesslog",
        ("leave", "alice", "carol"),
        "SELECT count(*) FROM memory_user WHERE username = 'alice'",
    ),
}


def test_killed_in_the_middle_everything_remains_and_the_next_try_ends_it(beacon: Site, say: Say):
    """One after the other: with the account goes what the topic's deletion needs."""
    found = {}
    beacon.act("trash", TOPIC)
    for what, (table, act, count) in DELETED.items():
        was = rows_of(beacon)
        _killed_at(beacon, table, *act)
        now = rows_of(beacon)
        differ = sorted(name for name in was if was[name] != now.get(name))
        there = beacon.value(count)
        beacon.act(*act)
        left = beacon.value(count)
        found[what] = (differ, there, left)
        say(
            f"kill -9 in the middle of {what}",
            "no row changes; the next try completes it",
            f"{sum(map(len, was.values()))} rows, {len(differ)} tables differ; then {left} are left",
        )

    assert found == dict.fromkeys(DELETED, ([], 1, 0))


def _with_a_full_disk(beacon: Site, room: int, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that can write at most `room` bytes to a file, as on a disk that is full.

    It writes no bytecode (-B): cut off, that would be what the next process reads.
    """
    return subprocess.run(
        [sys.executable, "-B", *command], cwd=ROOT, env=beacon.environment, text=True,
        capture_output=True, check=False, timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
    )  # fmt: skip


def test_a_backup_that_finds_no_room_leaves_the_one_before(beacon: Site, tmp_path: Path, say: Say):
    file = tmp_path / "beacon.backup"
    beacon.manage("backup", str(file))
    before = file.read_bytes()
    ended = _with_a_full_disk(beacon, len(before) // 2, "manage.py", "backup", str(file))
    said = (ended.stderr.strip().splitlines() or [""])[-1]
    is_as_before = file.read_bytes() == before
    say(
        "a full disk in the middle of a backup",
        "an error that says why; the previous backup is kept; no partial file",
        f"“{said.replace(str(file), 'beacon.backup').rpartition('. ')[2]}”; the previous one "
        f"{'is kept' if is_as_before else 'is gone'}, {len(list(tmp_path.iterdir()))} file there",
    )

    assert ended.returncode == 1
    assert "can’t be written" in said and "Traceback" not in ended.stderr
    assert is_as_before
    assert list(tmp_path.iterdir()) == [file]


def test_a_copy_on_disk_that_finds_no_room_is_caught_up_with(
    beacon: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, say: Say
):
    path, folder = "episodes/2026-02.md", tmp_path / "memory"
    monkeypatch.setitem(beacon.environment, "BEACON_MIRROR_DIR", str(folder))
    beacon.act("save", "carol", path, "10")
    [copy] = folder.rglob("2026-02.md")
    before = copy.read_text()
    ended = _with_a_full_disk(beacon, 4000, "-m", "tests.faults.acts", "save", "carol", path, "400")
    meanwhile, beside = copy.read_text(), [one.name for one in copy.parent.iterdir()]
    beacon.act("catch_up")
    query = "SELECT content FROM memory_memoryfile WHERE path = %s AND length(content) > 4000"
    stored = str(beacon.value(query, path))
    followed = copy.read_text() == stored
    say(
        "a full disk while a file is saved",
        "the save is in the database; the copy on disk stays complete, and is updated later",
        f"{len(stored)} characters stored; the copy was {'whole' if meanwhile == before else 'cut'},"
        f" and {'follows' if followed else 'is behind'}",
    )

    assert ended.returncode == 0, ended.stderr
    assert meanwhile == before
    assert beside == ["2026-02.md"]
    assert followed
