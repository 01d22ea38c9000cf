"""Whether there is room to write: on the disk of the data folder, and where Postgres keeps its files."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, connection, transaction

from beacon_site.database_errors import FULL, failure_of, was_full
from beacon_site.embedded.places import read_state

# Below it Postgres can fail at any moment: it writes its log in files of 16 MiB, several at once.
LEAST_ROOM = 128 * 1024**2
ASKED_EVERY = 10.0  # seconds: neither polling nor many pages at once make it cost more
# Sorted on disk and thrown away at once: about 1 MiB that Postgres has to find room for.
_WRITE = "SELECT count(*) FROM generate_series(1, 30000)"

_free: tuple[float, int | None] = (-ASKED_EVERY, None)
_could_write: tuple[float, bool] = (-ASKED_EVERY, True)


def free_bytes() -> int | None:
    """Return the room on the disks of the data folder and of an embedded Postgres, the lesser one.

    None where it can't be told.  Asked of the system every ten seconds at most.
    """
    global _free
    now = time.monotonic()
    if now - _free[0] >= ASKED_EVERY:
        found = []
        for folder in {settings.DATA_DIR, *_storage()}:
            try:
                found.append(shutil.disk_usage(folder).free)
            except OSError:
                continue
        _free = (now, min(found, default=None))
    return _free[1]


def _storage() -> list[Path]:
    storage = read_state(Path(settings.DATA_DIR)).get("storage")
    return [Path(storage)] if storage else []


def postgres_can_write() -> bool:
    """Let Postgres write a temporary file of 1 MiB; False if its disk is full.

    It finds a full disk on another machine, too.  Asked every ten seconds at most.  Raises
    DatabaseError for what else is wrong.
    """
    global _could_write
    now = time.monotonic()
    if now - _could_write[0] >= ASKED_EVERY:
        _could_write = (now, _writes())
    return _could_write[1]


def _writes() -> bool:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('work_mem', '64kB', true)")
            cursor.execute(_WRITE)
    except DatabaseError as exc:
        if failure_of(exc) is not FULL:
            raise
        return False
    return True


def problem(*, ask_postgres: bool = False) -> str:
    """Return "full" where something could not be written, "low" where that is near, else "".

    Without `ask_postgres` it costs no query, and knows of what this process wrote within a minute.
    """
    if (ask_postgres and not postgres_can_write()) or was_full():
        return "full"
    free = free_bytes()
    if free is None or free >= LEAST_ROOM:
        return ""
    return "low" if free else "full"
