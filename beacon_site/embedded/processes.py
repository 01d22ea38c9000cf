"""Processes that outlive the one that started them: are they the same still, and how they end."""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO

LOG_BYTES = 5_000_000
_kept: list[subprocess.Popen[bytes]] = []


def kept(child: subprocess.Popen[bytes]) -> str | None:
    """Let a started process live on without its Popen being waited for; return its identity."""
    _kept.append(child)
    return identity(child.pid)


def identity(pid: int) -> str | None:
    """Return a text that no other process ever shares, or None if the process is dead.

    It holds the machine's boot, since after a restart another process can have the same number
    and have started at the same moment of its boot.  A zombie counts as dead: in a container
    without an init it may never be reaped.
    """
    if sys.platform.startswith("linux"):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        state, *rest = fields.rpartition(")")[2].split()
        return None if state in "ZX" else f"{pid}:{rest[18]}:{_boot()}"
    shown = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return None if not shown or shown.startswith("Z") else f"{pid}:{shown.split(maxsplit=1)[1]}"


@functools.cache
def _boot() -> str:
    """Return the id of the machine's current boot, or "" where it isn't shown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def command_of(pid: int) -> list[str]:
    """Return the program and arguments of a process; empty if it is gone or hidden from us.

    Without /proc they are one text.
    """
    if not sys.platform.startswith("linux"):
        return [shown] if (shown := _ps(pid, "command")) else []
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
    return [os.fsdecode(word) for word in words if word]


def folder_of(pid: int) -> Path | None:
    """Return the folder a process works in, or None if it is gone or hidden from us."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return None


def started_at(pid: int) -> float | None:
    """Return when a process started, in seconds since 1970 by today's clock; None if it is gone."""
    if sys.platform.startswith("linux"):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            since_boot = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
        except OSError:
            return None
        ticks = int(fields.rpartition(")")[2].split()[19])
        return time.time() - since_boot + ticks / os.sysconf("SC_CLK_TCK")
    try:
        return datetime.datetime.strptime(_ps(pid, "lstart"), "%a %b %d %H:%M:%S %Y").timestamp()
    except ValueError:
        return None


def _ps(pid: int, what: str) -> str:
    shown = subprocess.run(
        ["ps", "-ww", "-o", f"{what}=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    return shown.stdout.strip()


def is_alive(mark: str | None) -> bool:
    """Say whether the process that `identity()` described still runs."""
    return bool(mark) and identity(pid_of(str(mark))) == mark


def pid_of(mark: str) -> int:
    """Return the process number in a text of `identity()`."""
    return int(mark.partition(":")[0])


def ended(mark: str, seconds: float) -> bool:
    """Wait at most `seconds` for the process to end and say whether it did."""
    deadline = time.monotonic() + seconds
    while is_alive(mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    for child in _kept:
        child.poll()  # takes the zombie away, if it was ours
    return True


def stop(mark: str, steps: Iterable[tuple[signal.Signals, float]], *, group: bool = False) -> bool:
    """Send each signal in turn until the process has ended; the number is the wait in seconds.

    With `group` the signal goes to the process group that the process leads.
    """
    for number, seconds in steps:
        if not is_alive(mark):
            return True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            (os.killpg if group else os.kill)(pid_of(mark), number)
        if ended(mark, seconds):
            return True
    return not is_alive(mark)


def free_port(preferred: int | None = None) -> int:
    """Return a TCP port of 127.0.0.1 that nothing listens at, the preferred one if possible."""
    for candidate in (preferred or 0, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no free port on 127.0.0.1")


def private_log(path: Path) -> IO[bytes]:
    """Open a log for appending that only its owner can read; one above 5 MB begins anew."""
    log = path.open("ab")
    path.chmod(0o600)
    if path.stat().st_size > LOG_BYTES:
        log.truncate(0)
    return log


def end_of(path: Path, lines: int = 12) -> str:
    """Return the last lines of a log file, for an error message."""
    try:
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"
