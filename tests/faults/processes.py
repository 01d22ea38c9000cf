"""A complete Beacon with real processes and a separate database, for tests that break them."""

from __future__ import annotations

import contextlib
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

import httpx
import kombu
import psutil
import psycopg
import redis
from psycopg.rows import namedtuple_row

from beacon_site.celery import app
from beacon_site.embedded.processes import free_port
from beacon_site.launcher import runner
from beacon_site.text.messages import from_column, loaded
from tests.migrated import migrated, with_alice

ROOT = Path(__file__).resolve().parent.parent.parent
Row = Any  # a named tuple of a run's columns
QUEUES = "research,maintenance,reflect,background"


_taken: set[int] = set()  # Redis databases of the sites that live now


def _own_redis_database() -> int:
    """Return a Redis database that no other site of this test run uses at the same time.

    Of sixteen the tests' own processes have the first three; each worker of pytest-xdist has four
    for its sites.  Sites that shared one would take each other's messages.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 4 + 4 * (worker % 3)
    number = next(n for n in range(first, first + 4) if n not in _taken)
    _taken.add(number)
    return number


class Site:
    """Worker and beat as processes, their database, and what they log."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        base = urlsplit(variables.get("DATABASE_URL", os.environ["DATABASE_URL"]))
        self.name = f"faults_{os.getpid()}_{time.monotonic_ns() % 10**9}"
        self._admin = urlunsplit(base._replace(path="/postgres"))
        self.url = urlunsplit(base._replace(path=f"/{self.name}"))
        self._redis_database = _own_redis_database()
        broker = f"{os.environ['REDIS_URL'].rpartition('/')[0]}/{self._redis_database}"
        self.environment = {
            **os.environ,
            "REDIS_URL": broker,
            "BEACON_DATA_DIR": str(folder),
            "DJANGO_SETTINGS_MODULE": "tests.site_settings",
            "REMAP_SIGTERM": "SIGQUIT",
            **variables,
            "DATABASE_URL": self.url,
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Site:
        self.create_database(with_alice)
        with redis.Redis.from_url(self.environment["REDIS_URL"]) as server:
            server.flushdb()
        return self

    def __exit__(self, *exc: object) -> None:
        for name in list(self.processes):
            self.kill(name)
        _taken.discard(self._redis_database)
        with psycopg.connect(self._admin, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{self.name}" WITH (FORCE)')

    def create_database(self, template: Callable[[str, dict[str, str]], str] = migrated) -> None:
        """Make the site's database: a copy of one that was created once for all.

        Its files are copied between two checkpoints. Otherwise a sequence that was used in the
        template would give the same numbers again after a crash of Postgres.
        """
        name = template(self._admin, self.environment)
        copy = f'CREATE DATABASE "{self.name}" TEMPLATE "{name}" STRATEGY FILE_COPY'
        with psycopg.connect(self._admin, autocommit=True) as connection:
            connection.execute(copy)

    # --- processes ------------------------------------------------------------------------------

    def manage(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a management command; its failure fails the test with what it said."""
        ended = subprocess.run(
            [sys.executable, "manage.py", *arguments], cwd=ROOT, text=True, capture_output=True,
            env={**self.environment, **variables}, check=False, timeout=250,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        return ended

    def start_worker(
        self, name: str = "worker", *, queues: str = QUEUES, children: int = 2, without: str = ""
    ) -> None:
        """Start a Celery worker and wait until it says that it lives.

        `without` names a guard that it lacks: see unguarded.py.
        """
        self._start(
            name, "worker", f"--queues={queues}", f"--concurrency={children}", "--loglevel=INFO",
            f"--hostname={name}@test", "--without-mingle", "--without-gossip", without=without,
        )  # fmt: skip
        alive = f"{name}@test" if "research" in queues else f"{name}@test, upkeep"
        query = "SELECT count(*) FROM research_worker WHERE name = %s"
        self.wait(lambda: self.value(query, alive), 180)

    def start_threads(self) -> None:
        """Start the one worker of `make up`, and wait until it, upkeep and the beat report."""
        command, more = runner.few_commands("127.0.0.1", 1, self.folder / "schedule")["worker"]
        with (self.folder / "worker.log").open("ab") as log:
            self.processes["worker"] = subprocess.Popen(
                command, cwd=ROOT, env={**self.environment, **more}, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        kinds = "SELECT count(DISTINCT kind) FROM research_worker WHERE seen_at > now() - interval '5 s'"
        self.wait(lambda: self.value(kinds) == 3)

    def start_beat(self, name: str = "beat") -> None:
        """Start a Celery beat."""
        schedule = self.folder / f"{name}-schedule"
        self._start(name, "beat", f"--schedule={schedule}", "--pidfile=", "--loglevel=INFO")

    def start_web(self) -> str:
        """Start the web server as `make up` does and wait until it answers; return its address."""
        port = free_port()
        command, more = runner.commands("127.0.0.1", port, self.folder / "unused")["web"]
        self.environment["BEACON_PORT"] = str(port)
        with (self.folder / "web.log").open("ab") as log:
            self.processes["web"] = subprocess.Popen(
                command, cwd=ROOT, env={**self.environment, **more}, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        address = f"http://127.0.0.1:{port}"
        self.wait(lambda: _answers(f"{address}/livez"))
        return address

    def start_mcp(self) -> str:
        """Start the MCP server as `make up` does; return the address of its tools."""
        port = free_port()
        environment = {**self.environment, "BEACON_MCP_PORT": str(port), "BEACON_PROCESS": "mcp"}
        with (self.folder / "mcp.log").open("ab") as log:
            self.processes["mcp"] = subprocess.Popen(
                [sys.executable, "manage.py", "mcp"], cwd=ROOT, env=environment, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip
        self.wait(lambda: _answers(f"http://127.0.0.1:{port}/livez"))
        return f"http://127.0.0.1:{port}/mcp"

    def _start(self, name: str, *arguments: str, without: str = "") -> None:
        celery = ["celery", "--quiet", "-A", "beacon_site"]
        program = ["tests.faults.unguarded", without] if without else celery
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", *program, *arguments], cwd=ROOT,
                env={**self.environment, "BEACON_PROCESS": arguments[0]}, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def child_at(self, port: int, name: str = "worker") -> int:
        """Return the child of a worker that holds the TCP port `port`."""
        for child in psutil.Process(self.processes[name].pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if any(c.laddr and c.laddr.port == port for c in child.net_connections("tcp")):
                    return int(child.pid)
        raise AssertionError(f"no child of {name} holds port {port}")

    def send(self, task: str, *arguments: object, queue: str, times: int = 1) -> None:
        """Send a Celery message to this site, `times` times in a row."""
        with kombu.Connection(self.environment["REDIS_URL"]) as connection:
            for _ in range(times):
                app.send_task(task, args=arguments, queue=queue, connection=connection)

    def tick(self, times: int = 1) -> None:
        """Send the tick, which beat sends every 15 s, now."""
        self.send("research.tasks.tick", queue="maintenance", times=times)

    def end_leases(self) -> None:
        """Expire the leases of running runs, as 45 s after a kill, and send the tick."""
        self.rows("UPDATE research_run SET lease_until = now() WHERE status = 'running'")
        self.tick()

    def end_waits(self) -> None:
        """Make postponed runs due, as minutes later, and send the tick."""
        self.rows(
            "UPDATE research_run SET not_before = now(), nudged_at = NULL"
            " WHERE status = 'queued' AND not_before > now()"
        )
        self.tick()

    def act(self, what: str, *arguments: str) -> str:
        """Run an act of acts.py on this site; return what it printed."""
        ended = subprocess.run(
            [sys.executable, "-m", "tests.faults.acts", what, *arguments], cwd=ROOT, text=True,
            capture_output=True, env=self.environment, check=False, timeout=120,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    def kill(self, name: str) -> None:
        """Kill a process with all its children, as a power cut would."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)

    @contextlib.contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Suspend a process and its children for a while."""
        group = self.processes[name].pid
        os.killpg(group, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(group, signal.SIGCONT)

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
        """Return a query's rows (none for a change), committed."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    def value(self, query: Any, *values: object) -> Any:
        """Return the first value of a query."""
        found = self.rows(query, *values)
        return found[0][0] if found else None

    def wait(self, ready: Callable[[], Any], seconds: float = 60) -> Any:
        """Return the result of `ready` as soon as there is one."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = ready()
            if found:
                return found
            time.sleep(0.2)
        raise AssertionError(f"nothing within {seconds} s; the logs end:\n{self.logs()[-4000:]}")

    def runs(self, *titles: str) -> list[Row]:
        """Return the runs of the topics, oldest first, each by its columns' names."""
        with psycopg.connect(self.url, autocommit=True, row_factory=namedtuple_row) as connection:
            found = connection.execute(
                "SELECT r.*, t.title, (SELECT count(*) FROM research_report WHERE run_id = r.id)"
                " AS reports FROM research_run r JOIN memory_topic t ON t.id = r.topic_id"
                " WHERE t.title = ANY(%s) ORDER BY r.id",
                [list(titles)],
            ).fetchall()
        return [
            run._replace(
                error=from_column(run.error),
                stop_reason=from_column(run.stop_reason),
                warnings=[loaded(one) for one in run.warnings],
            )
            for run in found
        ]

    def ended(self, *titles: str, seconds: float = 60) -> list[Row]:
        """Wait until no run of the topics is unfinished, and return them."""
        unfinished = ("queued", "running")

        def over() -> list[Row]:
            found = self.runs(*titles)
            return [] if any(run.status in unfinished for run in found) else found

        return list(self.wait(over, seconds))

    def wait_for_run(self, number: int, seconds: float = 60) -> str:
        """Wait until Run #number is saved and return its status."""
        query = "SELECT status FROM research_run WHERE number = %s"
        return str(self.wait(lambda: self.value(query, number), seconds))


def _answers(address: str) -> bool:
    try:
        return bool(httpx.get(address, timeout=5).status_code)
    except httpx.HTTPError:
        return False


@contextlib.contextmanager
def site(**variables: str) -> Iterator[Site]:
    """A site in a temporary folder; nothing of it is left afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="beacon-faults-") as folder,
        Site(Path(folder), **variables) as made,
    ):
        yield made
