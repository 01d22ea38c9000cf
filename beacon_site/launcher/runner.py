"""The runner of `make up`: starts all processes and merges their output into one log.

It signals only the head of each process group, which stops its own children.  It records the groups,
so that the next start can end what a killed runner left.  It restarts processes that end
unexpectedly, and ends the children of a killed head.  A thread reports when the site answers, and
restarts dead embedded servers.  It ends before a fork, and another continues.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import queue
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from honcho.colour import get_colours
from honcho.printer import Message, Printer

from beacon_site import embedded
from beacon_site.embedded import processes
from beacon_site.embedded.places import COMMAND, PROJECT, note
from beacon_site.launcher import forking

KILL_WAIT = 25  # s; the worker stores its progress for up to 15 (docs/hosting.md)
WATCH_SECONDS = 2.0
LOOP_SECONDS = 0.5  # at most, until a process is restarted or killed
BACKOFF = (1.0, 2.0, 5.0, 10.0)  # s before the first, second … restart within a minute
DEATHS = 5  # after so many within DEATHS_WITHIN, restarting doesn't help
DEATHS_WITHIN = 60.0
FORK_SECONDS = 0.5  # between attempts to fork, which wait for the thread
RETURN_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
BACK = 10  # niceness of all processes except the web server
WEB_THREADS = 12
# Runs can take minutes and occupy every slot, so the tasks that start and free runs have their own.
# A worker takes messages of the first queue first (see settings.py).
QUEUES = {"worker": "research", "upkeep": "maintenance,reflect,background"}
PROCESSES = {"worker": 4, "upkeep": 2}
GUNICORN = (
    "--worker-class=gthread",
    # Longer than a proxy keeps a connection (Caddy 120 s, nginx 60 s).  If we closed one just as a
    # form is sent over it, the proxy would answer 502.
    "--keep-alive=150",
    "--no-control-socket",
    "--graceful-timeout=10",
    "--timeout=60",
)
CELERY = ("celery", "--quiet", "-A", "beacon_site")
QUIET = ("--without-mingle", "--without-gossip", "--without-heartbeat")  # workers don't need them
CELERY_WORKER = (*CELERY, "worker", "--loglevel=INFO", *QUIET)
# By default, SIGTERM makes a worker wait for the end of its task, however long that takes.
REMAPPED = {
    "REMAP_SIGTERM": "SIGQUIT",
    "C_FORCE_ROOT": "1",
    # If Beacon runs as root, that was a choice, so the log needn't repeat it at every start.
    "PYTHONWARNINGS": "ignore:You're running the worker with superuser privileges",
}
THREADED = {"CELERY_CUSTOM_WORKER_POOL": "beacon_site.worker_threads:TaskPool"}
# Tests run Django's checks. In a fork, they would copy 19 MB of shared memory.
UNCHECKED = {"CELERY_SKIP_CHECKS": "1"}
# Otherwise the allocator keeps a heap of up to 64 MB for each of many threads.
ONE_HEAP = {"MALLOC_ARENA_MAX": "2"}
# For a process that loads the code of all others.
LOADED = {**THREADED, **REMAPPED, **UNCHECKED, **ONE_HEAP}
Commands = dict[str, tuple[list[str], dict[str, str]]]


def set_back(arguments: Sequence[str]) -> list[str]:
    """Return the command with a lower priority than the web server's.

    Each process is its own session, and Linux first divides the processor between sessions
    (autogroups), where `nice` works only within a session.  So the autogroup gets the niceness too.
    """
    back = f'{{ echo {BACK} > /proc/self/autogroup; }} 2>/dev/null; exec nice -n {BACK} "$@"'
    return ["/bin/sh", "-c", back, "sh", *arguments]


def commands(bind: str, port: int, schedule: Path) -> Commands:
    """Return the processes for several hosts: name -> (arguments, additional environment variables)."""
    python = [sys.executable, "-m"]
    beat = [*CELERY, "beat", f"--schedule={schedule}", "--pidfile=", "--loglevel=INFO"]
    workers: Commands = {
        name: (
            [*python, *CELERY_WORKER, f"--queues={queues}", f"--concurrency={PROCESSES[name]}", f"--hostname={name}@%h"],
            {"BEACON_PROCESS": "worker", **REMAPPED},
        )
        for name, queues in QUEUES.items()
    }  # fmt: skip
    return {
        "web": (
            _web(
                bind,
                port,
                "--config=python:beacon_site.launcher.web_server",
                "--workers=2",
                "--threads=8",
            ),
            {"BEACON_PROCESS": "web"},
        ),
        **workers,
        "beat": ([*python, *beat], {"BEACON_PROCESS": "beat"}),
        "mcp": ([*COMMAND, "mcp"], {"BEACON_PROCESS": "mcp"}),
    }


def few_commands(bind: str, port: int, schedule: Path) -> Commands:
    """Return the same as two processes for one machine: a web server with MCP, and a worker.

    The launcher gives the web server's arguments to forks, and starts a second one only when it's
    needed (web_process.py).
    """
    worker = ["-m", *CELERY_WORKER, "--pool=custom", f"--concurrency={sum(PROCESSES.values())}"]
    worker += [f"--queues={','.join(QUEUES.values())}", f"--beat-schedule={schedule}"]
    size = (f"--workers={web_processes()}", f"--threads={WEB_THREADS}")
    web = _web(bind, port, "--config=python:research.mcp.beside_pages", *size)
    return {
        "web": (web, {"BEACON_PROCESS": "web", "BEACON_STARTED_TOGETHER": "1", **ONE_HEAP}),
        "worker": (
            [sys.executable, *worker, "--hostname=worker@%h"],
            {"BEACON_PROCESS": "worker", **THREADED, **REMAPPED, **UNCHECKED, **ONE_HEAP},
        ),
    }


def _web(bind: str, port: int, *size: str) -> list[str]:
    host = f"[{bind}]" if ":" in bind else bind
    served = ["beacon_site.wsgi:application", f"--bind={host}:{port}"]
    return [sys.executable, "-m", "gunicorn", *served, *GUNICORN, *size]


def web_processes() -> int:
    """Return the most web processes: 2 on a machine with two cores and 3 GB, else 1."""
    is_large = processes.memory_bytes() >= processes.SMALL
    return 2 if is_large and (os.cpu_count() or 1) >= 2 else 1


class RestartBackoff:
    """Decides how long to wait before a restart, and when to give up."""

    def __init__(self) -> None:
        self._deaths: list[float] = []

    def wait_after(self, now: float) -> float | None:
        """Count a death at `now` (time.monotonic); return the seconds to wait, None to give up."""
        self._deaths = [then for then in self._deaths if now - then < DEATHS_WITHIN] + [now]
        if len(self._deaths) >= DEATHS:
            return None
        return BACKOFF[min(len(self._deaths), len(BACKOFF)) - 1]


@dataclass
class _Part:
    """One process and its state."""

    arguments: list[str]
    environment: dict[str, str]
    colour: str
    loaded: Callable[[], None] | None = None  # does the same in a fork of this process
    ports: Sequence[forking.Closable] = ()  # which only this fork needs
    is_extra: bool = False
    rest: bytes = b""  # of its output, without the end of the line
    process: subprocess.Popen[bytes] | forking.Fork | None = None
    returncode: int | None = None  # None while it runs
    again_at: float | None = None  # time.monotonic
    patience: RestartBackoff = field(default_factory=RestartBackoff)

    @property
    def runs(self) -> bool:
        return self.process is not None and self.returncode is None

    @property
    def pid(self) -> int:
        return self.process.pid if self.process else 0


class Runner:
    """Runs the processes of one data folder."""

    def __init__(
        self,
        folder: Path,
        livez: tuple[str, int],
        ready: Callable[[], list[str]],
        printer: Printer | None = None,
    ) -> None:
        """Watch the servers of `folder`; once a server answers at `livez`, print the lines of `ready`."""
        self._printer = printer or Printer(sys.stdout)
        self._printer.width = len("system")
        self._colours = get_colours()
        self._said: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._folder = folder
        self._livez = livez
        self._ready = ready
        self._parts: dict[str, _Part] = {}
        self._returncode: int | None = None
        self._signal: signal.Signals | None = None
        self._ending_since: float | None = None
        self._needs_extra = False
        self._over = threading.Event()
        self._changed = threading.Event()
        self._trouble = ""
        self._is_ready = False
        self._watcher: threading.Thread | None = None
        self._selector = selectors.DefaultSelector()  # of outputs, and of what wakes the loop
        self._woken, self._waking = socket.socketpair()
        for end in (self._woken, self._waking):
            end.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def add(
        self,
        name: str,
        arguments: list[str],
        environment: dict[str, str],
        loaded: Callable[[], None] | None = None,
        ports: Sequence[forking.Closable] = (),
        *,
        is_extra: bool = False,
    ) -> None:
        """Add a process, which runs in the project's folder.

        With `loaded`, it is a fork of this process, whose modules it shares, and `ports` are for no
        other fork.  An extra one starts when another asks for it (SIGUSR1), and can end by itself.
        """
        command = arguments if name == "web" else set_back(arguments)
        every = {**os.environ, **environment}
        colour = next(self._colours)
        self._parts[name] = _Part(command, every, colour, loaded, ports, is_extra)
        self._printer.width = max(self._printer.width, len(name))

    def run(self) -> int:
        """Run until a signal arrives, or until a process keeps ending.

        Return the exit code, 0 after a signal.
        """
        try:
            self.loop()
        finally:
            self._end_watcher(30)
        requested = self._returncode in RETURN_CODES.values()
        return 0 if requested else int(self._returncode or 1)

    def loop(self) -> None:
        """Start all processes and keep them running until it's time to stop."""
        signal.set_wakeup_fd(self._waking.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)  # it only wakes the loop
        signal.signal(signal.SIGUSR1, self._asked_for_extra)
        for number in RETURN_CODES:
            signal.signal(number, self._asked)
        for name, part in self._parts.items():
            if not part.is_extra:
                self._begin(name)
        self._supervise_servers()
        while self._ending_since is None or self._running():
            self._watch_on()
            for key, _mask in self._selector.select(LOOP_SECONDS if self._is_waiting else None):
                if key.data is None:
                    self._woken.recv(4096)
                else:
                    self._read(key.data)
            self._print_said()
            self._end_orphans()
            self._act()
        self._print_said()

    def say(self, text: str) -> None:
        """Print a line from Beacon itself.  Can be called from any thread."""
        self._said.put(_message(text + "\n", "beacon"))
        with contextlib.suppress(BlockingIOError):  # it's awake
            self._waking.send(b".")

    def _system_print(self, text: str) -> None:
        self._printer.write(_message(text, "system"))

    def _asked(self, number: int, frame: FrameType | None) -> None:
        # The loop acts on it at once, since the signal wakes it.  Printing here could break into a
        # half-written line.
        self._signal = self._signal or signal.Signals(number)

    def _asked_for_extra(self, number: int, frame: FrameType | None) -> None:
        self._needs_extra = True

    @property
    def _is_waiting(self) -> bool:
        """Whether something is due at a later time. Everything else wakes the loop as an event."""
        restarts = any(part.again_at is not None for part in self._parts.values())
        return restarts or self._signal is not None or self._ending_since is not None

    def _running(self) -> dict[str, _Part]:
        return {name: part for name, part in self._parts.items() if part.runs}

    def _begin(self, name: str) -> None:
        part = self._parts[name]
        if part.loaded is not None and not self._end_watcher(FORK_SECONDS):
            part.again_at = time.monotonic() + FORK_SECONDS
            return
        part.process = part.returncode = part.again_at = None
        try:
            part.process = self._started(name, part)
        except OSError as exc:  # out of memory or process numbers
            self._system_print(f"{name} can't be started: {exc}\n")
            self._ended(name, 1)
            return
        self._system_print(f"{name} started (pid={part.pid})\n")
        self._changed.set()
        assert part.process.stdout is not None  # noqa: S101 - tells the type checker what PIPE means  # nosec B101
        os.set_blocking(part.process.stdout.fileno(), False)
        self._selector.register(part.process.stdout, selectors.EVENT_READ, name)

    def _started(self, name: str, part: _Part) -> subprocess.Popen[bytes] | forking.Fork:
        if part.loaded is not None:
            others: list[Any] = [self._selector, self._woken, self._waking]
            for one in self._parts.values():
                if one.process and one.process.stdout:
                    others.append(one.process.stdout)
                others += [port for port in one.ports if port not in part.ports]
            back = 0 if name.startswith("web") else BACK
            return forking.fork(name, part.loaded, part.environment, back, others)
        return subprocess.Popen(
            part.arguments,
            env=part.environment,
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _read(self, name: str) -> None:
        """Print the output of a process, until it and its children have closed it."""
        part = self._parts[name]
        assert part.process is not None and part.process.stdout is not None  # noqa: S101  # nosec B101
        try:
            data = os.read(part.process.stdout.fileno(), 65_536)
        except BlockingIOError:
            return
        *lines, part.rest = (part.rest + data).split(b"\n")
        if not data and part.rest:
            lines, part.rest = [part.rest], b""
        for line in lines:
            self._printer.write(_message(line + b"\n", name, part.colour))
        if not data:
            self._selector.unregister(part.process.stdout)
            part.process.stdout.close()

    def _print_said(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._printer.write(self._said.get_nowait())

    def _ended(self, name: str, returncode: int) -> None:
        """Record that a process ended; if that was unexpected, announce its restart."""
        part = self._parts[name]
        part.returncode = returncode
        self._system_print(f"{name} stopped (rc={returncode})\n")
        if self._ending_since is not None or self._signal is not None:
            return
        if part.is_extra:  # the other one asks again if it's still needed
            return
        now = time.monotonic()
        wait = part.patience.wait_after(now)
        if wait is None and part.loaded is not None and name == "web" and returncode < 0:
            wait = BACKOFF[-1]  # something kills it, which says nothing about Beacon
        if wait is None:
            self.say(
                f"{name} exited with code {returncode} {DEATHS} times within {DEATHS_WITHIN:.0f} s, so "
                "Beacon is stopping. The log lines above show why. Fix the cause, then start Beacon again."
            )
            self._returncode = returncode or 1
            self._end()
        else:
            self.say(f"{name} exited with code {returncode}. Restarting in {wait:g} s.")
            part.again_at = now + wait

    def _act(self) -> None:
        """Do what is due: stop after a signal, kill what doesn't stop, restart what died."""
        for name, part in self._running().items():
            if part.process and part.process.stdout and part.process.stdout.closed:
                code = part.process.poll()
                if code is not None:
                    self._ended(name, code)
        if self._ending_since is None and self._signal is not None:
            self._system_print(f"{self._signal.name} received\n")
            self._returncode = RETURN_CODES[self._signal]
            self._end()
        now = time.monotonic()
        if self._ending_since is not None:
            if now - self._ending_since > KILL_WAIT:
                self._send(signal.SIGKILL, os.killpg)
            return
        for name, part in self._parts.items():
            if part.is_extra and self._needs_extra and not part.runs:
                part.again_at = now
            if part.again_at is not None and now >= part.again_at:
                self._begin(name)
        self._needs_extra = False

    def _end(self) -> None:
        """Ask all processes to stop, and restart none."""
        self._ending_since = time.monotonic()
        self._send(signal.SIGTERM, os.kill)

    def _send(self, number: signal.Signals, send: Callable[[int, int], None]) -> None:
        for name, part in self._running().items():
            self._system_print(f"sending {number.name} to {name} (pid {part.pid})\n")
            with contextlib.suppress(ProcessLookupError):
                send(part.pid, number)

    def _watch_on(self) -> None:
        """Start the watching thread if it doesn't run."""
        if self._watcher is None and self._ending_since is None:
            self._over.clear()
            self._watcher = threading.Thread(target=self._watch, daemon=True)
            self._watcher.start()

    def _end_watcher(self, seconds: float) -> bool:
        """End the watching thread, and return whether it has ended within these seconds."""
        self._over.set()
        if self._watcher is not None:
            self._watcher.join(timeout=seconds)
            if self._watcher.is_alive():
                return False
            self._watcher = None
        return True

    def _watch(self) -> None:
        while not self._over.wait(WATCH_SECONDS if self._is_ready else 0.1):
            self._supervise_servers()
            if not self._is_ready and _answers(*self._livez):
                self._is_ready = True
                with contextlib.suppress(OSError):  # then it stays
                    embedded.relieve_janitor(self._folder)
                for line in self._ready():
                    self.say(line)

    def _supervise_servers(self) -> None:
        """Record the running processes and restart dead servers; report failures and retry.

        Only one thread does this, because the data folder's locks work between processes only.
        """
        try:
            if self._changed.is_set():
                self._changed.clear()
                self._note()
            for name in embedded.revive(self._folder):
                self.say(f"{name} crashed and was restarted.")
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
        for part in self._running().values():
            pid = part.pid
            if self._ending_since is None and not processes.identity(pid) and part.pid == pid:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)

    def _note(self) -> None:
        """Record the running processes, for the janitor and the next start."""
        groups = [processes.identity(part.pid) for part in self._running().values()]
        note(self._folder, processes={"groups": [mark for mark in groups if mark]})


def _message(data: str | bytes, name: str, colour: str | None = None) -> Message:
    return Message("line", data, datetime.datetime.now(), name, colour)


def _answers(host: str, port: int) -> bool:
    """Return whether a web server answers there, with any status."""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(f"GET /livez HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
            return connection.recv(5) == b"HTTP/"
    except OSError:
        return False


def seconds_since(start: float) -> str:
    """Return the time since `start` (time.monotonic) as text, such as `4.2 s`."""
    return f"{time.monotonic() - start:.1f} s"
