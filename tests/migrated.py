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


ALICE = ("createsuperuser", "--noinput", "--username=alice", "--email=alice@example.org")


def migrated(admin: str, environment: Mapping[str, str] | None = None) -> str:
    """Return the name of that database on the server at `admin`."""
    return _created_once(admin, NAME, ("migrate", "-v0"), environment or os.environ)


def with_alice(admin: str, environment: Mapping[str, str]) -> str:
    """Return the name of a database that also has the account of an admin."""
    template = migrated(admin, environment)
    given = {**environment, "DJANGO_SUPERUSER_PASSWORD": "alice-horse-battery"}
    return _created_once(admin, f"{NAME}_alice", ALICE, given, template)


def _created_once(
    admin: str,
    name: str,
    command: tuple[str, ...],
    environment: Mapping[str, str],
    template: str = "template1",
) -> str:
    """Let the first process that asks create the database; others wait.

    No one stays connected to it, or it could not be copied.
    """
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(hashtext(%s))", [name])
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
        if known.fetchone() is None:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}_new"')
            connection.execute(f'CREATE DATABASE "{name}_new" TEMPLATE "{template}"')
            _manage(urlunsplit(urlsplit(admin)._replace(path=f"/{name}_new")), command, environment)
            connection.execute(f'ALTER DATABASE "{name}_new" RENAME TO "{name}"')
    return name


def _manage(url: str, command: tuple[str, ...], environment: Mapping[str, str]) -> None:
    settings = environment.get("DJANGO_SETTINGS_MODULE", "beacon_site.settings")
    ended = subprocess.run(
        [sys.executable, "manage.py", *command], cwd=ROOT, text=True, capture_output=True,
        env={**environment, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": settings},
        check=False, timeout=600,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
