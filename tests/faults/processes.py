"""A whole Beacon of real processes on a database of its own, for tests that break them."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import redis

ROOT = Path(__file__).resolve().parent.parent.parent


_sites = itertools.count()


def _own_redis_database() -> int:
    """Return a Redis database that no other site of this test run uses at the same time.

    Of sixteen the tests' own processes have the first three; each worker of pytest-xdist has four
    for its sites.  Sites that shared one would take each other's messages.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return 4 + 4 * (worker % 3) + next(_sites) % 4


class Site:
    """Worker and beat as processes, their database, and what they log."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        base = urlsplit(os.environ["DATABASE_URL"])
        self.name = f"faults_{os.getpid()}_{time.monotonic_ns() % 10**9}"
        self._admin = urlunsplit(base._replace(path="/postgres"))
        self.url = urlunsplit(base._replace(path=f"/{self.name}"))
        broker = f"{os.environ['REDIS_URL'].rpartition('/')[0]}/{_own_redis_database()}"
        self.environment = {
            **os.environ,
            "DATABASE_URL": self.url,
            "REDIS_URL": broker,
            "BEACON_DATA_DIR": str(folder),
            "DJANGO_SETTINGS_MODULE": "beacon_site.settings",
            "REMAP_SIGTERM": "SIGQUIT",
            **variables,
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Site:
        with psycopg.connect(self._admin, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{self.name}"')
        with redis.Redis.from_url(self.environment["REDIS_URL"]) as server:
            server.flushdb()
        self.manage("migrate", "-v0")
        self.manage(
            "createsuperuser", "--noinput", "--username=alice", "--email=alice@example.org",
            DJANGO_SUPERUSER_PASSWORD="alice-horse-battery",
        )  # fmt: skip
        return self

    def __exit__(self, *exc: object) -> None:
        for name in list(self.processes):
            self.kill(name)
        with psycopg.connect(self._admin, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{self.name}" WITH (FORCE)')

    # --- processes ------------------------------------------------------------------------------

    def manage(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Carry out a management command; its failure fails the test with what it said."""
        ended = subprocess.run(
            [sys.executable, "manage.py", *arguments], cwd=ROOT, text=True, capture_output=True,
            env={**self.environment, **variables}, check=False, timeout=120,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        return ended

    def start_worker(self, name: str = "worker") -> None:
        """Start a Celery worker with two children and wait until it says that it lives."""
        self._start(
            name, "worker", "--queues=research,reflect,maintenance", "--concurrency=2",
            "--loglevel=INFO", f"--hostname={name}@test",
        )  # fmt: skip
        self.wait(
            lambda: self.value(
                "SELECT count(*) FROM research_worker WHERE name = %s", f"{name}@test"
            )
        )

    def start_beat(self, name: str = "beat") -> None:
        """Start a Celery beat."""
        schedule = self.folder / f"{name}-schedule"
        self._start(name, "beat", f"--schedule={schedule}", "--pidfile=", "--loglevel=INFO")

    def _start(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "beacon_site", *arguments], cwd=ROOT,
                env=self.environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def kill(self, name: str) -> None:
        """Kill a process with all its children, as a power cut would."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)

    def terminate(self, name: str) -> float:
        """Ask a process to stop; return the seconds that it took."""
        process = self.processes.pop(name)
        began = time.monotonic()
        process.terminate()
        process.wait(timeout=60)
        return time.monotonic() - began

    def logs(self) -> str:
        """Return everything that the processes wrote."""
        return "\n".join(path.read_text(errors="replace") for path in self.folder.glob("*.log"))

    # --- the database ---------------------------------------------------------------------------

    def rows(self, query: Any, *values: object) -> list[tuple[Any, ...]]:
        """Return what a query gives (or nothing for a change), committed."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    def value(self, query: Any, *values: object) -> Any:
        """Return the first value of a query."""
        found = self.rows(query, *values)
        return found[0][0] if found else None

    def wait(self, ready: Callable[[], Any], seconds: float = 60) -> Any:
        """Return what `ready` gives as soon as it gives something."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = ready()
            if found:
                return found
            time.sleep(0.2)
        raise AssertionError(f"nothing within {seconds} s; the logs end:\n{self.logs()[-4000:]}")

    def wait_for_run(self, number: int, seconds: float = 60) -> str:
        """Wait until Run #number is saved and return its status."""
        query = "SELECT status FROM research_run WHERE number = %s"
        return str(self.wait(lambda: self.value(query, number), seconds))


@contextlib.contextmanager
def site(**variables: str) -> Iterator[Site]:
    """A site in a temporary folder; nothing of it is left afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="beacon-faults-") as folder,
        Site(Path(folder), **variables) as made,
    ):
        yield made
