"""One database that is up to date, of which every other one of the tests is a copy.

Migrating takes ten seconds of processor, a copy less than one.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

ROOT = Path(__file__).resolve().parent.parent
# The tests' servers may be given ones that live on: a database of older migrations is not taken.
_MIGRATIONS = sorted(ROOT.glob("*/migrations/*.py"))
NAME = "migrated_" + hashlib.sha256(b"".join(p.read_bytes() for p in _MIGRATIONS)).hexdigest()[:16]


def migrated(admin: str, environment: Mapping[str, str] | None = None) -> str:
    """Return the name of that database on the server at `admin`, created by the first process.

    Processes that ask at once wait for each other; no one stays connected to it, or it could not
    be copied.
    """
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(hashtext(%s))", [NAME])
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [NAME])
        if known.fetchone() is None:
            connection.execute(f'DROP DATABASE IF EXISTS "{NAME}_new"')
            connection.execute(f'CREATE DATABASE "{NAME}_new"')
            _migrate(urlunsplit(urlsplit(admin)._replace(path=f"/{NAME}_new")), environment)
            connection.execute(f'ALTER DATABASE "{NAME}_new" RENAME TO "{NAME}"')
    return NAME


def _migrate(url: str, environment: Mapping[str, str] | None) -> None:
    given = {**(environment or os.environ), "DATABASE_URL": url}
    ended = subprocess.run(
        [sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, text=True, capture_output=True,
        env={**given, "DJANGO_SETTINGS_MODULE": "beacon_site.settings"}, check=False, timeout=600,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
