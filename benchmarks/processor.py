"""The CPU time of a piece of work: on a busy machine, wall time says little."""

from __future__ import annotations

import time
from pathlib import Path


class Meter:
    """Counts the milliseconds that this process and its process of Postgres spend (Linux)."""

    def __init__(self) -> None:
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            self.backend = Path(f"/proc/{cursor.fetchone()[0]}/schedstat")

    def now(self) -> float:
        """Return the milliseconds spent so far; Postgres' are left out where no one tells them."""
        spent = time.process_time() * 1000
        if self.backend.exists():
            spent += int(self.backend.read_text().split()[0]) / 1e6
        return spent
