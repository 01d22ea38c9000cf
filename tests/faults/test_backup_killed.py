"""A backup that is killed from outside: no incomplete file keeps its name, and the next one is complete."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.conftest import Say
from tests.faults.processes import ROOT, Site, site
from tests.faults.test_killed_midway import OTHERS

pytestmark = [pytest.mark.faults, pytest.mark.long, pytest.mark.timeout(400)]

# Texts that no packing makes small, so that writing them takes seconds.
BALLAST = """
    CREATE TABLE zz_ballast AS SELECT md5(n::text) || md5((-n)::text) || md5((n * 7)::text) AS words
    FROM generate_series(1, 250000) n
"""


@pytest.fixture(scope="module")
def beacon() -> Iterator[Site]:
    """A site with a large table, and a backup of the time before."""
    with site() as made:
        made.manage("backup", str(made.folder / "beacon.backup"))
        with psycopg.connect(made.url) as held:
            held.execute(BALLAST)
        yield made


def _killed_after(beacon: Site, file: Path, size: int) -> int:
    """Begin a backup, kill it once so many bytes are on the disk, and return how many did."""
    backing_up = subprocess.Popen(
        [sys.executable, "manage.py", "backup", str(file)], cwd=ROOT, env=beacon.environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not (half := _halves(file)) or half[0].stat().st_size < size:
            assert backing_up.poll() is None, "it ended before it was killed"
            time.sleep(0.01)
    finally:
        backing_up.kill()
        ended = backing_up.wait(30)
    assert ended == -signal.SIGKILL
    beacon.wait(lambda: beacon.value(OTHERS) == 0)  # pg_dump went with it
    return half[0].stat().st_size


def _halves(file: Path) -> list[Path]:
    return list(file.parent.glob(f".{file.name}.*.part"))


@pytest.mark.parametrize("size", [0, 100_000, 4_000_000])
def test_a_backup_that_is_killed_leaves_the_one_before_and_the_next_is_whole(
    beacon: Site, size: int, say: Say
) -> None:
    file = beacon.folder / "beacon.backup"
    before = file.read_bytes()
    left = _killed_after(beacon, file, size)
    stands = file.read_bytes() == before
    [half] = _halves(file)
    os.utime(half, (time.time() - 3600,) * 2)  # a younger one may be another's that begins
    beacon.manage("backup", str(file))
    checked = beacon.manage("restore", str(file), "--check").stdout
    say(
        f"kill -9 of a backup after it wrote {size:,} bytes",
        "no incomplete file under its name; the next one is complete and deletes the rest",
        f"{left:,} bytes in a partial file, the previous backup {'is kept' if stands else 'is gone'}; "
        f"the next has {file.stat().st_size:,} bytes, {len(_halves(file))} partial files left",
    )

    assert stands
    assert _halves(file) == []
    assert "The file is complete" in checked
