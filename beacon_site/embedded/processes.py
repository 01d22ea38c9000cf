"""Processes that outlive the one that started them: are they the same still, and how they end."""

from __future__ import annotations

import contextlib
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
    """Return a text that no later process with this number shares, or None if it is dead.

    A zombie counts as dead: in a container without an init nobody may ever reap it.
    """
    if sys.platform.startswith("linux"):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        state, *rest = fields.rpartition(")")[2].split()
        return None if state in "ZX" else f"{pid}:{rest[18]}"
    shown = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    return None if not shown or shown.startswith("Z") else f"{pid}:{shown.split(maxsplit=1)[1]}"


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
