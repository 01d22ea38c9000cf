"""The processes of `make up` under one runner with one log: honcho, with three things changed.

Stopping asks the head of each group alone (it knows how to stop its own children), the groups
are written down so that a later start can end what a killed runner left, and a second thread
says when the site answers and brings a dead embedded server back.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shlex
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import honcho.manager
from honcho.compat import ProcessManager
from honcho.printer import Message

from beacon_site import embedded
from beacon_site.embedded import processes
from beacon_site.embedded.places import PROJECT, note

KILL_WAIT = 25  # s; the worker stores its progress for up to 15 (docs/hosting.md)
WATCH_SECONDS = 3.0
WORKERS = 4
# Runs may take minutes and fill every place; what frees and starts them must not wait behind them.
UPKEEP_QUEUES = "reflect,maintenance"
UPKEEP_WORKERS = 2
GUNICORN = (
    "--worker-class=gthread",
    "--workers=2",
    "--threads=8",
    "--no-control-socket",
    "--graceful-timeout=10",
    "--timeout=60",
)
CELERY_WORKER = ("--loglevel=INFO", "--without-mingle", "--without-gossip")


def commands(bind: str, port: int, schedule: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return what runs: name -> (arguments, its own environment variables)."""
    python = [sys.executable, "-m"]
    celery = [*python, "celery", "--quiet", "-A", "beacon_site"]
    host = f"[{bind}]" if ":" in bind else bind
    web = [*python, "gunicorn", "beacon_site.wsgi:application", f"--bind={host}:{port}", *GUNICORN]
    worker = [*celery, "worker", *CELERY_WORKER, "--queues=research", f"--concurrency={WORKERS}"]
    upkeep = [*celery, "worker", *CELERY_WORKER, f"--queues={UPKEEP_QUEUES}"]
    beat = [*celery, "beat", f"--schedule={schedule}", "--pidfile=", "--loglevel=INFO"]
    # With SIGTERM as it is a worker waits for the end of its task, however long that takes.
    remapped = {"REMAP_SIGTERM": "SIGQUIT", "C_FORCE_ROOT": "1"}
    # Who runs Beacon as root has chosen to; the log need not say so at every start.
    remapped["PYTHONWARNINGS"] = "ignore:You're running the worker with superuser privileges"
    return {
        "web": (web, {"BEACON_PROCESS": "web"}),
        "worker": ([*worker, "--hostname=worker@%h"], {"BEACON_PROCESS": "worker", **remapped}),
        "upkeep": (
            [*upkeep, f"--concurrency={UPKEEP_WORKERS}", "--hostname=upkeep@%h"],
            {"BEACON_PROCESS": "worker", **remapped},
        ),
        "beat": (beat, {"BEACON_PROCESS": "beat"}),
    }


class _Heads(ProcessManager):  # type: ignore[misc]
    def terminate(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


class Runner(honcho.manager.Manager):  # type: ignore[misc]
    """honcho's manager for the processes of one data folder."""

    def __init__(self, folder: Path, url: str, ready: Callable[[], list[str]]) -> None:
        """Watch the servers of `folder`; once `url` answers say so, with the lines of `ready`."""
        super().__init__()
        honcho.manager.KILL_WAIT = KILL_WAIT
        self._procmgr = _Heads()
        self._folder = folder
        self._url = url
        self._ready = ready
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def add(self, name: str, arguments: list[str], environment: dict[str, str]) -> None:
        """Add a process by its arguments; it runs in the project's folder."""
        # Pages come first, at the start and while runs work.
        first = [] if name == "web" else ["nice", "-n", "5"]
        command = "exec " + shlex.join([*first, *arguments])
        self.add_process(name, command, env={**os.environ, **environment}, cwd=str(PROJECT))

    def run(self) -> int:
        """Run until a signal or until one process ends; return the exit code, 0 after a signal."""
        try:
            self.loop()
        finally:
            self._over.set()
            self._watcher.join(timeout=30)
        asked = self.returncode in {130, 143}
        return 0 if asked else int(self.returncode or 1)

    def _start(self) -> None:
        super()._start()
        self._watcher.start()

    def say(self, text: str) -> None:
        """Put a line of Beacon's own into the log, from any thread."""
        now = datetime.datetime.now()
        self.events.put(Message("line", text + "\n", now, "beacon", None))

    def _watch(self) -> None:
        while not self._all_started() and not self._over.wait(0.05):
            pass
        self._note()
        while not self._over.wait(0.1):
            if _answers(self._url):
                for line in self._ready():
                    self.say(line)
                break
        while not self._over.wait(WATCH_SECONDS):
            for name in embedded.revive(self._folder):
                self.say(f"{name} had died and was started again.")

    def _note(self) -> None:
        """Write down what runs, for the janitor and the next start."""
        groups = [processes.identity(entry["pid"]) for entry in self._processes.values()]
        readers = [processes.identity(entry["process"].pid) for entry in self._processes.values()]
        listed = {"groups": [m for m in groups if m], "readers": [m for m in readers if m]}
        note(self._folder, processes=listed)


def _answers(url: str) -> bool:
    """Say whether a web server answers at the address, whatever it answers."""
    try:
        urllib.request.urlopen(url, timeout=2).close()  # noqa: S310 - our own address
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def seconds_since(start: float) -> str:
    """Return the time since `start` (time.monotonic) for people, such as `4.2 s`."""
    return f"{time.monotonic() - start:.1f} s"
