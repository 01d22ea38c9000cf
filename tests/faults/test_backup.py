"""A backup of one Beacon, restored into another with real commands, has the same rows."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from beacon_site.launcher.backups import WITHOUT_ROWS
from tests.conftest import Say
from tests.faults.processes import Site, site

pytestmark = [pytest.mark.faults, pytest.mark.long, pytest.mark.timeout(300)]
TABLES = (
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
)


def rows_of(one: Site) -> dict[str, list[str]]:
    """Every row of a site, by its table."""
    names = {name for (name,) in one.rows(TABLES) if not name.startswith("embedding_")}
    query = "SELECT whole_row::text FROM {} whole_row ORDER BY 1"
    return {
        name: [row for (row,) in one.rows(query.format(f'"{name}"'))]
        for name in names - WITHOUT_ROWS.keys()
    }


def test_a_backup_restored_into_another_database_is_the_same_row_for_row(
    tmp_path: Path, say: Say
) -> None:
    file = str(tmp_path / "beacon.backup")
    with site() as here, site() as there:
        for _run in range(2):
            here.manage("research", "Solid-state batteries", "--sample", "--wait")
        began = time.monotonic()
        here.manage("backup", file)
        there.manage("restore", file, "--replace", "--yes")
        took = time.monotonic() - began
        was, came = rows_of(here), rows_of(there)
        there.manage("verify")
    count = sum(map(len, was.values()))
    same = sum(was[name] == came.get(name) for name in was)
    say(
        "backup, restore into another database, compare; then `verify`",
        "all rows are equal, all invariants are met",
        f"{same} of {len(was)} tables with {count} rows are equal, both commands took {took:.1f} s",
    )

    assert count > 500
    assert came == was
