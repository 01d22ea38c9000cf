"""The whole database in one file, and back: what `manage.py backup` and `restore` do.

Postgres' own programs do the work; a password goes to them by their environment, since every user
of the machine may read a command line.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.db import connection
from django.db.backends.postgresql.client import DatabaseClient

from beacon_site.embedded.binaries import client_program

OTHERS = """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
    AND backend_type = 'client backend' AND pid <> pg_backend_pid()"""


class DumpFailed(RuntimeError):
    """The database was not written, or not brought back; the text says why."""


def dump(database: Mapping[str, Any], file: Path) -> None:
    """Write the database to a file that its owner alone may read; what stood there is replaced.

    Beacon may run meanwhile: it is the database of one moment.  Raises DumpFailed.
    """
    unfinished = file.with_name(file.name + ".part")
    try:
        _call("pg_dump", database, "--format=custom", f"--file={unfinished}")
        unfinished.replace(file)
    except OSError as exc:
        raise DumpFailed(f"{file} cannot be written: {exc.strerror}.") from exc
    finally:
        unfinished.unlink(missing_ok=True)


def load(database: Mapping[str, Any], file: Path) -> None:
    """Put what the file holds in the place of what the database holds: all of it, or nothing.

    Raises DumpFailed.
    """
    _call(
        "pg_restore", database, "--clean", "--if-exists", "--single-transaction", "--no-owner",
        "--no-privileges", str(file),
    )  # fmt: skip


def others() -> int:
    """Return how many other connections the database has: Beacon's processes, mostly."""
    with connection.cursor() as cursor:
        cursor.execute(OTHERS)
        return int(cursor.fetchone()[0])


def _call(program: str, database: Mapping[str, Any], *arguments: str) -> None:
    words, secret = DatabaseClient.settings_to_cmd_args_env(dict(database), [])
    command = [client_program(program), *arguments[:-1], *words[1:-1]]
    command += [f"--dbname={words[-1]}", arguments[-1]]
    done = subprocess.run(
        command, env={**os.environ, **(secret or {})}, text=True, capture_output=True, umask=0o077,
        check=False,
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.strip() or f"it ended with {done.returncode}"
        raise DumpFailed(f"{program} did not succeed: {said}")
