"""The runner of `make up`: starts all processes and merges their output into one log.

It differs from honcho's manager in four ways.  It signals only the head of each process group,
which stops its own children.  It records the groups, so that the next start can end what a killed
runner left.  It restarts processes that end unexpectedly.  A second thread reports when the site
answers, ends the children of a killed head, and restarts dead embedded servers.
"""

from __future__ import annotations

import contextlib
import datetime
import multiprocessing
import os
import queue
import shlex
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import honcho.manager
from honcho.compat import ProcessManager
from honcho.printer import Message, Printer

from beacon_site import embedded
from beacon_site.embedded import processes
from beacon_site.embedded.installed import COMMAND, PROJECT
from beacon_site.embedded.places import note

KILL_WAIT = 25  # s; the worker stores its progress for up to 15 (docs/hosting.md)
WATCH_SECONDS = 1.0
BACKOFF = (1.0, 2.0, 5.0, 10.0)  # s before the first, second … restart within a minute
DEATHS = 5  # after so many within DEATHS_WITHIN, restarting doesn't help
DEATHS_WITHIN = 60.0
RETURN_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
WORKERS = 4
BACK = 10  # niceness of all processes except the web server
# Runs can take minutes and occupy every slot, so the tasks that start and free runs have their own.
UPKEEP_QUEUES = "reflect,maintenance"
UPKEEP_WORKERS = 2
GUNICORN = (
    "--config=python:beacon_site.web_server",
    "--worker-class=gthread",
    "--workers=2",
    "--threads=8",
    # Longer than a proxy keeps a connection (Caddy 120 s, nginx 60 s).  If we closed one just as a
    # form is sent over it, the proxy would answer 502.
    "--keep-alive=150",
    "--no-control-socket",
    "--graceful-timeout=10",
    "--timeout=60",
)
CELERY_WORKER = ("--loglevel=INFO", "--without-mingle", "--without-gossip")


def set_back(arguments: Sequence[str]) -> list[str]:
    """Return the command with a lower priority than the web server's.

    Each process is its own session, and Linux first divides the processor between sessions
    (autogroups), where `nice` works only within a session.  So the autogroup gets the niceness too.
    """
    back = f'{{ echo {BACK} > /proc/self/autogroup; }} 2>/dev/null; exec nice -n {BACK} "$@"'
    return ["/bin/sh", "-c", back, "sh", *arguments]


def commands(bind: str, port: int, schedule: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return the processes: name -> (arguments, additional environment variables)."""
    python = [sys.executable, "-m"]
    celery = [*python, "celery", "--quiet", "-A", "beacon_site"]
    host = f"[{bind}]" if ":" in bind else bind
    web = [*python, "gunicorn", "beacon_site.wsgi:application", f"--bind={host}:{port}", *GUNICORN]
    worker = [*celery, "worker", *CELERY_WORKER, "--queues=research", f"--concurrency={WORKERS}"]
    upkeep = [*celery, "worker", *CELERY_WORKER, f"--queues={UPKEEP_QUEUES}"]
    beat = [*celery, "beat", f"--schedule={schedule}", "--pidfile=", "--loglevel=INFO"]
    # By default, SIGTERM makes a worker wait for the end of its task, however long that takes.
    remapped = {"REMAP_SIGTERM": "SIGQUIT", "C_FORCE_ROOT": "1"}
    # If Beacon runs as root, that was a choice, so the log needn't repeat it at every start.
    remapped["PYTHONWARNINGS"] = "ignore:You're running the worker with superuser privileges"
    return {
        "web": (web, {"BEACON_PROCESS": "web"}),
        "worker": ([*worker, "--hostname=worker@%h"], {"BEACON_PROCESS": "worker", **remapped}),
        "upkeep": (
            [*upkeep, f"--concurrency={UPKEEP_WORKERS}", "--hostname=upkeep@%h"],
            {"BEACON_PROCESS": "worker", **remapped},
        ),
        "beat": (beat, {"BEACON_PROCESS": "beat"}),
        "mcp": ([*COMMAND, "mcp"], {"BEACON_PROCESS": "mcp"}),
    }


class _Heads(ProcessManager):  # type: ignore[misc]
    def terminate(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


class Patience:
    """Decides how long to wait before a restart, and when to give up."""

    def __init__(self) -> None:
        """Start without any deaths."""
        self._deaths: list[float] = []

    def wait_after(self, now: float) -> float | None:
        """Count a death at `now` (time.monotonic); return the seconds to wait, None to give up."""
        self._deaths = [then for then in self._deaths if now - then < DEATHS_WITHIN] + [now]
        if len(self._deaths) >= DEATHS:
            return None
        return BACKOFF[min(len(self._deaths), len(BACKOFF)) - 1]


@dataclass
class _Part:
    """One process: honcho's description, the reader of its output, and its state."""

    described: Any
    reader: Any = None
    pid: int | None = None  # None until the reader reports it
    returncode: int | None = None  # None while it runs
    again_at: float | None = None  # time.monotonic
    is_lost: bool = False  # its reader was dead, with nothing left to read
    patience: Patience = field(default_factory=Patience)

    @property
    def runs(self) -> bool:
        return self.reader is not None and self.returncode is None


class Runner(honcho.manager.Manager):  # type: ignore[misc]
    """honcho's manager for the processes of one data folder."""

    def __init__(
        self,
        folder: Path,
        url: str,
        ready: Callable[[], list[str]],
        printer: Printer | None = None,
    ) -> None:
        """Watch the servers of `folder`; once `url` answers, print the lines of `ready`."""
        super().__init__(printer)
        self._procmgr = _Heads()
        self._folder = folder
        self._url = url
        self._ready = ready
        self._parts: dict[str, _Part] = {}
        self._signal: signal.Signals | None = None
        self._ending_since: float | None = None
        self._over = threading.Event()
        self._changed = threading.Event()
        self._trouble = ""
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def add(self, name: str, arguments: list[str], environment: dict[str, str]) -> None:
        """Add a process, which runs in the project's folder."""
        command = "exec " + shlex.join(arguments if name == "web" else set_back(arguments))
        env = {**os.environ, **environment}
        self._parts[name] = _Part(self.add_process(name, command, env=env, cwd=str(PROJECT)))

    def run(self) -> int:
        """Run until a signal arrives, or until a process keeps ending.

        Return the exit code, 0 after a signal.
        """
        try:
            self.loop()
        finally:
            self._over.set()
            self._watcher.join(timeout=30)
        asked = self.returncode in RETURN_CODES.values()
        return 0 if asked else int(self.returncode or 1)

    def loop(self) -> None:
        """Start all processes and keep them running until it's time to stop."""
        for number in RETURN_CODES:
            signal.signal(number, self._asked)
        for name in self._parts:
            self._begin(name)
        self._watcher.start()
        while True:
            try:
                self._take(self.events.get(timeout=0.1))
            except queue.Empty:
                self._miss_lost_readers()
                if self._ending_since is not None and not self._running():
                    return
            self._act()

    def say(self, text: str) -> None:
        """Print a line from Beacon itself.  Can be called from any thread."""
        now = datetime.datetime.now()
        self.events.put(Message("line", text + "\n", now, "beacon", None))

    def _asked(self, number: int, frame: FrameType | None) -> None:
        # The loop acts on it within 0.1 s.  Printing here could break into a half-written line.
        self._signal = self._signal or signal.Signals(number)

    def _running(self) -> dict[str, _Part]:
        return {name: part for name, part in self._parts.items() if part.runs}

    def _begin(self, name: str) -> None:
        part = self._parts[name]
        part.pid = part.returncode = part.again_at = None
        part.is_lost = False
        part.reader = multiprocessing.Process(
            name=name, target=part.described.run, args=(self.events, True)
        )
        try:
            part.reader.start()
        except OSError as exc:  # out of memory or process numbers
            self._system_print(f"{name} can't be started: {exc}\n")
            self._ended(name, 1)

    def _take(self, message: Message) -> None:
        if message.type == "line":
            self._printer.write(message)
        elif message.type == "start":
            pid = self._parts[message.name].pid = message.data["pid"]
            self._system_print(f"{message.name} started (pid={pid})\n")
            self._changed.set()
            if self._ending_since is not None:
                self._procmgr.terminate(pid)
        elif message.type == "stop" and self._parts[message.name].returncode is None:
            self._ended(message.name, message.data["returncode"])

    def _ended(self, name: str, returncode: int) -> None:
        """Record that a process ended; if that was unexpected, announce its restart."""
        part = self._parts[name]
        part.returncode = returncode
        self._system_print(f"{name} stopped (rc={returncode})\n")
        if self._ending_since is not None or self._signal is not None:
            return
        now = time.monotonic()
        wait = part.patience.wait_after(now)
        if wait is None:
            self.say(
                f"{name} ended (rc={returncode}) {DEATHS} times within {DEATHS_WITHIN:.0f} s, so "
                "Beacon is stopping. The log lines above show why. Fix the cause, then start Beacon again."
            )
            self.returncode = returncode or 1
            self._end()
        else:
            self.say(f"{name} ended (rc={returncode}). It restarts in {wait:g} s.")
            part.again_at = now + wait

    def _miss_lost_readers(self) -> None:
        """Count a process as ended if its reader was killed, because nothing else reports it."""
        for name, part in self._running().items():
            if part.is_lost:
                if part.pid is not None:
                    self._procmgr.kill(part.pid)
                self._ended(name, 1)
            # Its last output could have arrived just now, so the next check decides.
            part.is_lost = not part.reader.is_alive()

    def _act(self) -> None:
        """Do what is due: stop after a signal, kill what doesn't stop, restart what died."""
        if self._ending_since is None and self._signal is not None:
            self._system_print(f"{self._signal.name} received\n")
            self.returncode = RETURN_CODES[self._signal]
            self._end()
        now = time.monotonic()
        if self._ending_since is not None:
            if now - self._ending_since > KILL_WAIT:
                self._send(signal.SIGKILL, self._procmgr.kill)
            return
        for name, part in self._parts.items():
            if part.again_at is not None and now >= part.again_at:
                self._begin(name)

    def _end(self) -> None:
        """Ask all processes to stop, and restart none."""
        self._ending_since = time.monotonic()
        self._send(signal.SIGTERM, self._procmgr.terminate)

    def _send(self, number: signal.Signals, send: Callable[[int], None]) -> None:
        for name, part in self._running().items():
            if part.pid is not None:
                self._system_print(f"sending {number.name} to {name} (pid {part.pid})\n")
                send(part.pid)

    def _watch(self) -> None:
        while not all(part.pid for part in self._parts.values()) and not self._over.wait(0.05):
            pass
        told = False
        while not self._over.wait(WATCH_SECONDS if told else 0.1):
            self._end_orphans()
            self._tend_folder()
            if not told and _answers(self._url):
                told = True
                for line in self._ready():
                    self.say(line)

    def _tend_folder(self) -> None:
        """Record the running processes and restart dead servers; report failures and retry.

        Only one thread does this, because the data folder's locks work between processes only.
        """
        try:
            if self._changed.is_set():
                self._changed.clear()
                self._note()
            for name in embedded.revive(self._folder):
                self.say(f"{name} died and was restarted.")
            self._trouble = ""
        except (embedded.EmbeddedError, OSError) as exc:
            self._changed.set()
            if str(exc) != self._trouble:
                self.say(f"{exc} Beacon keeps trying.")
            self._trouble = str(exc)

    def _end_orphans(self) -> None:
        """Kill the children of a head process that was killed.

        They would keep the web server's port and its output open, so no one would notice that it
        ended.
        """
        for part in self._parts.values():
            pid = part.pid
            if not part.runs or pid is None or self._ending_since or processes.identity(pid):
                continue
            if part.pid == pid:
                self._procmgr.kill(pid)

    def _note(self) -> None:
        """Record the running processes, for the janitor and the next start."""
        running = self._running().values()
        groups = [processes.identity(part.pid) for part in running if part.pid]
        readers = [processes.identity(part.reader.pid) for part in running if part.reader.pid]
        listed = {"groups": [m for m in groups if m], "readers": [m for m in readers if m]}
        note(self._folder, processes=listed)


def _answers(url: str) -> bool:
    """Return whether a web server answers at the URL, with any status."""
    try:
        urllib.request.urlopen(url, timeout=2).close()  # noqa: S310 - our own address  # nosec B310
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def seconds_since(start: float) -> str:
    """Return the time since `start` (time.monotonic) as text, such as `4.2 s`."""
    return f"{time.monotonic() - start:.1f} s"
