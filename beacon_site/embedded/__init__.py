"""The embedded Postgres and Valkey, used if no URL is set.

Any number of processes can use the servers of one data folder.  Each holds a shared lock on
`users.lock`, and the last one stops the servers.  Starting and stopping need `servers.lock`.
If the last user is killed, the janitor stops them (janitor.py).  While `up` runs, there is no
janitor: its processes start one if the launcher is killed (`mind_launcher`).
Django isn't imported here, because its settings ask this module for the servers' URLs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from beacon_site.embedded import places, postgres, processes, valkey
from beacon_site.embedded.places import (
    MAKE,
    PROJECT,
    EmbeddedError,
    data_dir,
    load_env_file,
    prepare,
    read_state,
    write_state,
)
from beacon_site.embedded.processes import Account, storage_of

__all__ = [
    "EmbeddedError",
    "Servers",
    "data_dir",
    "ensure",
    "load_env_file",
    "mind_launcher",
    "relieve_janitor",
    "revive",
    "running_urls",
    "stop_servers",
]

_KINDS = {"DATABASE_URL": ("postgres", postgres), "REDIS_URL": ("valkey", valkey)}
TRIES = 20
END_STEPS = ((signal.SIGTERM, 20.0), (signal.SIGKILL, 5.0))
_uses: dict[Path, int] = {}
# The last contents of the state file, so that the servers stop even if the folder was deleted.
_known: dict[Path, dict[str, Any]] = {}


class Servers:
    """A hold on the running servers of one data folder; `close()` or the end of `with` releases it."""

    def __init__(self, folder: Path, urls: dict[str, str], notes: list[str]) -> None:
        """`urls` are DATABASE_URL and REDIS_URL; `notes` are for people, such as where the data is."""
        self.folder = folder
        self.urls = urls
        self.notes = notes
        self._open = True

    def close(self) -> None:
        """Release the servers; they stop if this was their last user."""
        if not self._open:
            return
        self._open = False
        _uses[self.folder] -= 1
        if _uses[self.folder] == 0:
            with places.file_lock(_servers_lock(self.folder)):
                _leave(self.folder)

    def __enter__(self) -> Servers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def running_urls(folder: Path | None = None) -> dict[str, str] | None:
    """Return DATABASE_URL and REDIS_URL of the running embedded servers, or None."""
    state = read_state(folder or data_dir())
    urls = {
        name: module.url_of(state[key])
        for name, (key, module) in _KINDS.items()
        if module.answers(state.get(key))
    }
    return urls or None


def ensure(
    folder: Path | None = None,
    *,
    need: tuple[str, ...] = ("DATABASE_URL", "REDIS_URL"),
    durable: bool = True,
) -> Servers:
    """Use the servers of the data folder, and start those of `need` that aren't running.

    `durable=False` is for throw-away data.  It is quick, a power cut loses it, and if its last
    user is killed, the janitor deletes the whole folder.
    Raises EmbeddedError, and then leaves servers running that ran before.
    """
    folder = (folder or data_dir()).absolute()
    prepare(folder)
    with places.file_lock(_servers_lock(folder)):
        if not _uses.get(folder):
            places.take(_users_lock(folder), shared=True)
        _uses[folder] = _uses.get(folder, 0) + 1
        try:
            storage, account = storage_of(folder)
            for name in need:
                _start_if_missing(folder, storage, account, name, durable=durable)
        except BaseException:
            _uses[folder] -= 1
            if not _uses[folder]:
                _leave(folder)
            raise
        if not _has_janitor(folder) and not _is_minded(folder):
            _start_janitor(folder, durable=durable)
    state = remember(folder)
    urls = {name: _KINDS[name][1].url_of(state[_KINDS[name][0]]) for name in need}
    return Servers(folder, urls, _notes(folder, storage, account))


def revive(folder: Path) -> list[str]:
    """Restart the servers of a folder in use that have died; return their names.

    They keep their port and password, so URLs stay valid.
    """
    state = read_state(folder)
    dead = [n for n, (key, _) in _KINDS.items() if key in state and not _runs(state[key])]
    if not dead or not _uses.get(folder):
        return []
    with places.file_lock(_servers_lock(folder)):
        storage, account = storage_of(folder)
        for name in dead:
            _start_if_missing(folder, storage, account, name, durable=True)
        remember(folder)
    return [_KINDS[name][0] for name in dead]


def _runs(entry: dict[str, Any]) -> bool:
    return processes.is_alive(entry.get("process"))


def remember(folder: Path) -> dict[str, Any]:
    """Return the state file's contents, and keep them in case it is deleted."""
    _known[folder] = read_state(folder) or _known.get(folder, {})
    return _known[folder]


def relieve_janitor(folder: Path) -> None:
    """End the janitor, whose work the processes of `up` do from now on."""
    with places.file_lock(_servers_lock(folder)):
        if mark := read_state(folder).get("janitor"):
            processes.stop(mark, ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)))
            write_state(folder, janitor=None)


def mind_launcher() -> None:
    """Start the janitor if the launcher of this process is killed.

    A thread waits for the lock that the launcher holds, which takes no processor time.
    """
    folder = data_dir()
    if _is_alive_launcher(folder):
        threading.Thread(target=_mind, args=(folder,), name="launcher", daemon=True).start()


def _mind(folder: Path) -> None:
    users = _users_lock(folder)
    with places.file_lock(users):  # commands can hold it longer than the launcher
        pass
    with places.file_lock(_servers_lock(folder)):
        if not _is_alive_launcher(folder) and not _has_janitor(folder):
            _start_janitor(folder)


def _is_alive_launcher(folder: Path) -> bool:
    return processes.is_alive((read_state(folder).get("up") or {}).get("process"))


def _has_janitor(folder: Path) -> bool:
    return processes.is_alive(read_state(folder).get("janitor"))


def stop_if_unused(folder: Path) -> bool:
    """Stop the servers if no process uses them; call with `servers.lock` held."""
    if not places.take(_users_lock(folder), wait=False):
        return False
    try:
        state = read_state(folder) or _known.get(folder, {})
        for key, module in _KINDS.values():
            module.stop(state.get(key))
    finally:
        places.release(_users_lock(folder))
    return True


def stop_servers(folder: Path | None) -> bool:
    """Stop servers that were left running; False if a process still uses them."""
    folder = (folder or data_dir()).absolute()
    with places.file_lock(_servers_lock(folder)):
        for _ in range(TRIES):
            if stop_if_unused(folder):
                return True
            time.sleep(0.05)  # the janitor holds the lock briefly when it wakes up
        return False


def end_leftovers(folder: Path) -> int:
    """End the processes that the last runner left running; return how many.

    Call it with `servers.lock` held.
    """
    listed: dict[str, list[str]] = read_state(folder).get("processes", {})
    found = [mark for mark in listed.get("groups", []) if processes.is_alive(mark)]
    for mark in found:
        processes.stop(mark, ((signal.SIGTERM, 0.0),), group=True)
    for mark in found:
        processes.stop(mark, END_STEPS, group=True)
    write_state(folder, processes=None)
    return len(found)


def _leave(folder: Path) -> None:
    # Upgrade the shared lock to an exclusive one without releasing it in between.  Otherwise the
    # janitor, which waits for that moment, would get it first, and the caller would continue early.
    if stop_if_unused(folder):
        return
    places.release(_users_lock(folder))
    if read_state(folder) and not _has_janitor(folder) and not _is_minded(folder):
        _start_janitor(folder)


def _start_if_missing(
    folder: Path, storage: Path, account: Account, name: str, *, durable: bool
) -> None:
    key, module = _KINDS[name]
    known: dict[str, Any] = read_state(folder).get(key, {})
    if module.answers(known):
        return
    module.stop(known)
    entry = module.start(storage, account, known, durable=durable)
    write_state(folder, storage=str(storage), **{key: entry})


def _is_minded(folder: Path) -> bool:
    """Return whether processes of `up` run, which start the janitor if it's needed."""
    listed: dict[str, list[str]] = read_state(folder).get("processes", {})
    return any(map(processes.is_alive, listed.get("groups", [])))


def _start_janitor(folder: Path, *, durable: bool = True) -> None:
    command = [sys.executable, "-m", "beacon_site.embedded.janitor"]
    child = subprocess.Popen(
        [*command, str(folder), *([] if durable else ["--remove"])],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    write_state(folder, janitor=processes.keep_alive(child))


def _notes(folder: Path, storage: Path, account: Account) -> list[str]:
    if storage == folder:
        return []
    moved = f"Postgres runs as the user {account.name!r}, who can't open {folder}, "
    return [moved + f"so the database is in {storage}."]


def _users_lock(folder: Path) -> Path:
    return folder / "users.lock"


def _servers_lock(folder: Path) -> Path:
    return folder / "servers.lock"


# --- servers for one manage.py command ---


# These load the settings but use no database, so they get URLs where nothing listens.
NO_SERVERS = {
    "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
    "REDIS_URL": "redis://127.0.0.1:1/0",
}
NOTHING_YET = (
    f"There is no data in {{place}} yet. Run `{MAKE} up` first, or set BEACON_DATA_DIR to your "
    "Beacon's data folder."
)
COMMANDS_WITHOUT_SERVERS = frozenset(
    {
        "", "help", "--help", "-h", "version", "--version", "makemessages", "compilemessages",
        "document",
    }
)  # fmt: skip
# Beacon's own commands work on existing data and create no folder or database.
COMMANDS_ON_DATA = frozenset(
    {
        "research",
        "first_account_link",
        "api_token",
        "backup",
        "export_account",
        "import_account",
        "export_files",
        "import_files",
        "rebuild_recall",
        "import_redis",
        "mcp",
        "verify",
    }
)


@contextmanager
def servers_for(arguments: Sequence[str]) -> Iterator[None]:
    """Put DATABASE_URL and REDIS_URL into the environment for the command in `arguments`.

    Variables that are already set stay.  Raises EmbeddedError, also if a command needs data and
    there is none.
    """
    load_env_file()
    missing = tuple(name for name in NO_SERVERS if not os.environ.get(name, "").strip())
    if not missing:
        yield
        return
    command = arguments[0] if arguments else ""
    if command in COMMANDS_ON_DATA and "DATABASE_URL" in missing and not _was_used():
        raise EmbeddedError(NOTHING_YET.format(place=data_dir()))
    if command in COMMANDS_WITHOUT_SERVERS:
        os.environ |= {name: NO_SERVERS[name] for name in missing}
        yield
        return
    with ensure(need=missing) as servers:
        for note in servers.notes:
            print(f"Beacon: {note}", file=sys.stderr)
        os.environ |= servers.urls
        if "DATABASE_URL" in missing and (up := read_state(data_dir()).get("up")):
            os.environ.setdefault("BEACON_MIRROR_DIR", str(up.get("mirror") or ""))
        yield


def _was_used() -> bool:
    """Return True if servers have used the data folder before."""
    folder = data_dir()
    return bool(read_state(folder)) or (folder / "postgres").exists()
