"""The servers' system user and storage folder, and starting, identifying and stopping processes.

Postgres refuses to run as root.  So under root both servers run as `postgres` or `nobody`.  If that
user can't enter the data folder (a clone in a 0700 home), the database is in
/var/lib/beacon-<hash> instead.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from beacon_site.embedded.places import EmbeddedError, read_state

SYSTEM_STORAGE = Path("/var/lib")


class Account(NamedTuple):  # importing dataclasses takes memory in the janitor
    """The user who runs the servers; `uid` is None if it is the user of this process."""

    name: str = ""
    uid: int | None = None
    gid: int | None = None

    def options(self, home: Path) -> dict[str, Any]:
        """Return the keyword arguments for `subprocess` to start something as this user."""
        kept = ("PATH", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        options: dict[str, Any] = {"cwd": "/", "env": {**environment, "HOME": str(home)}}
        if self.uid is not None:
            environment.pop("TMPDIR", None)
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return options

    def owns(self, folder: Path) -> None:
        """Create `folder` with mode 0700, owned by this user."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.uid is not None and self.gid is not None:
            os.chown(folder, self.uid, self.gid)
        folder.chmod(0o700)

    def can(self, test: str, path: Path) -> bool:
        """Return whether this user passes the shell's `test` (-x, -r …) on `path`."""
        if self.uid is None:
            return True
        command = ["/bin/sh", "-c", 'test "$1" "$2"', "sh", test, str(path)]
        try:
            return subprocess.run(command, check=False, **self.options(Path("/"))).returncode == 0
        except (PermissionError, subprocess.SubprocessError) as exc:
            raise EmbeddedError(
                f"Root can't switch to the user {self.name!r} here ({exc}), and Postgres refuses to "
                "run as root. Start Beacon as an ordinary user, or set DATABASE_URL and REDIS_URL."
            ) from exc


def storage_of(data_dir: Path) -> tuple[Path, Account]:
    """Return the folder for the servers' files and the user who runs them.

    A folder that already holds a database is kept, even if the folders' modes have changed.
    """
    import hashlib  # takes 4 MB

    known = Path(str(read_state(data_dir).get("storage", data_dir)))
    system = SYSTEM_STORAGE / f"beacon-{hashlib.sha256(str(data_dir).encode()).hexdigest()[:12]}"
    for place in (known, data_dir, system):
        cluster = place / "postgres" / "PG_VERSION"
        if _exists(cluster):
            return place, _owner_of(cluster)
    account = _service_account()
    if account.can("-x", data_dir):
        return data_dir, account
    system.mkdir(mode=0o711, exist_ok=True)
    return system, account


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:
        return False


def _owner_of(path: Path) -> Account:
    entry = path.stat()
    if os.geteuid() != 0:
        if entry.st_uid != os.geteuid():
            raise EmbeddedError(
                f"The database in {path.parent} belongs to {_name_of(entry.st_uid)}. Start Beacon "
                "as that user (or as root), or set BEACON_DATA_DIR to another folder."
            )
        return Account()
    return Account(_name_of(entry.st_uid), entry.st_uid, entry.st_gid)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _service_account() -> Account:
    if os.geteuid() != 0:
        return Account()
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise EmbeddedError(
        "Postgres refuses to run as root, and this machine has no user 'postgres' or 'nobody'. "
        "Start Beacon as an ordinary user, or set DATABASE_URL and REDIS_URL."
    )


def described(options: Mapping[str, Any]) -> str:
    """Return the name of the user in `Account.options()`, for a log line."""
    return _name_of(int(options["user"])) if "user" in options else "this user"


# --- the machine ---

SMALL = 3e9  # bytes; a machine with less memory gets fewer processes and smaller buffers


@functools.cache
def memory_bytes() -> int:
    """Return the memory that this process may use: the machine's, or less in a container."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
            _number, kinds, group = line.split(":", 2)
            if not kinds:
                limits.append(f"/sys/fs/cgroup{group}/memory.max")
            elif kinds == "memory":
                limits.append(f"/sys/fs/cgroup/memory{group}/memory.limit_in_bytes")
    for limit in limits:
        with contextlib.suppress(OSError, ValueError):  # no limit is "max"
            found.append(int(Path(limit).read_text(encoding="ascii")))
    return min(found)


def give_back_memory() -> None:
    """Return freed memory to the system."""
    import ctypes  # takes 1 MB, and the janitor never gets here

    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


# --- processes ---

LOG_BYTES = 5_000_000
_kept: list[subprocess.Popen[bytes]] = []


def keep_alive(child: subprocess.Popen[bytes]) -> str | None:
    """Keep a started process alive without waiting for its Popen; return its identity."""
    _kept.append(child)
    return identity(child.pid)


def kept_once(
    child: subprocess.Popen[bytes], is_ready: Callable[[], bool], *, within: float
) -> str | None:
    """Keep a started process once it is ready, as `keep_alive` does.

    Returns None if it ended by itself, or was killed because it wasn't ready `within` seconds.
    """
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if child.poll() is not None:
            return None
        if is_ready():
            return keep_alive(child)
        time.sleep(0.02)
    child.kill()
    child.wait()
    return None


def identity(pid: int) -> str | None:
    """Return a text that is unique to this process, or None if the process is dead.

    It includes the machine's boot id, since after a restart another process can have the same
    number and start time. A zombie counts as dead, since a container without an init never reaps
    it.
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
    """Return the id of the machine's current boot, or "" if it's unavailable."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def command_of(pid: int) -> list[str]:
    """Return the program and arguments of a process; empty if it is gone or hidden.

    Without /proc, they are one text.
    """
    if not sys.platform.startswith("linux"):
        return [shown] if (shown := _ps(pid, "command")) else []
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
    return [os.fsdecode(word) for word in words if word]


def folder_of(pid: int) -> Path | None:
    """Return a process's current folder, or None if it is gone or hidden."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return None


def started_at(pid: int) -> float | None:
    """Return when a process started, in seconds since 1970; None if it is gone."""
    if sys.platform.startswith("linux"):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            since_boot = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
        except OSError:
            return None
        ticks = int(fields.rpartition(")")[2].split()[19])
        return time.time() - since_boot + ticks / os.sysconf("SC_CLK_TCK")
    try:
        import datetime

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
    """Return whether the process that `identity()` described still runs."""
    return bool(mark) and identity(pid_of(str(mark))) == mark


def pid_of(mark: str) -> int:
    """Return the process number in a text of `identity()`."""
    return int(mark.partition(":")[0])


def ended(mark: str, seconds: float) -> bool:
    """Wait at most `seconds` for the process to end, and return whether it did."""
    deadline = time.monotonic() + seconds
    while is_alive(mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    for child in _kept:
        child.poll()  # reaps the zombie, if it was ours
    return True


def stop(mark: str, steps: Iterable[tuple[signal.Signals, float]], *, group: bool = False) -> bool:
    """Send each signal in turn until the process ends; the number is the wait in seconds.

    With `group`, the signal goes to the process group that the process leads.
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
    """Return a free TCP port of 127.0.0.1, the preferred one if possible."""
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
    """Open a log for appending that only its owner can read; one above 5 MB is emptied first."""
    log = path.open("ab")
    path.chmod(0o600)
    if path.stat().st_size > LOG_BYTES:
        log.truncate(0)
    return log


def end_of(path: Path) -> str:
    """Return the last lines of a log file, for an error message."""
    try:
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-12:])
    except OSError:
        return "(no log)"
