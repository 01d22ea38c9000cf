"""The embedded Postgres and Redis-protocol server, used where no URL is set.

Any number of processes may use the servers of one data folder.  Each holds a shared lock on
`users.lock` while it does; the last one out stops them.  Starting and stopping happen under
`servers.lock`.  A janitor waits for the case that the last user was killed: see janitor.py.
Nothing of Django is imported here, because its settings ask this module for their addresses.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from beacon_site.embedded import places, postgres, processes, valkey
from beacon_site.embedded.installed import PROJECT
from beacon_site.embedded.places import (
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
    "revive",
    "running_urls",
    "stop_servers",
]

_KINDS = {"DATABASE_URL": ("postgres", postgres), "REDIS_URL": ("valkey", valkey)}
TRIES = 20
_uses: dict[Path, int] = {}
# What the state file said last: the servers are stopped even if somebody removed the folder.
_known: dict[Path, dict[str, Any]] = {}


class Servers:
    """A hold on the running servers of one data folder; `close()` lets go, as does `with`."""

    def __init__(self, folder: Path, urls: dict[str, str], notes: list[str]) -> None:
        """Hold `urls` (DATABASE_URL, REDIS_URL); `notes` are for people, such as where data lies."""
        self.folder = folder
        self.urls = urls
        self.notes = notes
        self._open = True

    def close(self) -> None:
        """Let go of the servers; they stop if this was their last user."""
        if not self._open:
            return
        self._open = False
        _uses[self.folder] -= 1
        if _uses[self.folder] == 0:
            with places.held(_servers_lock(self.folder)):
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
    """Return DATABASE_URL and REDIS_URL of the embedded servers that answer now, or None."""
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
    """Use the servers of the data folder, starting those of `need` that do not run.

    `durable=False` is for throw-away data: quick, lost at a power cut, and if its last user
    is killed the janitor removes the whole folder.
    Raises EmbeddedError, and then leaves running what ran before.
    """
    folder = (folder or data_dir()).absolute()
    prepare(folder)
    with places.held(_servers_lock(folder)):
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
        _watch(folder, durable=durable)
    state = remember(folder)
    urls = {name: _KINDS[name][1].url_of(state[_KINDS[name][0]]) for name in need}
    return Servers(folder, urls, _notes(folder, storage, account))


def revive(folder: Path) -> list[str]:
    """Start again those servers of a folder in use that have died; return their names.

    They come back at their old port with their old password, so addresses stay good.
    """
    state = read_state(folder)
    dead = [n for n, (key, _) in _KINDS.items() if key in state and not _runs(state[key])]
    if not dead or not _uses.get(folder):
        return []
    with places.held(_servers_lock(folder)):
        storage, account = storage_of(folder)
        for name in dead:
            _start_if_missing(folder, storage, account, name, durable=True)
        remember(folder)
    return [_KINDS[name][0] for name in dead]


def _runs(entry: dict[str, Any]) -> bool:
    return processes.is_alive(entry.get("process"))


def remember(folder: Path) -> dict[str, Any]:
    """Keep and return what the state file says now, for the time when it is gone."""
    _known[folder] = read_state(folder) or _known.get(folder, {})
    return _known[folder]


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


def stop_servers(folder: Path | None = None) -> bool:
    """Stop servers that were left running; False if a process uses them still."""
    folder = (folder or data_dir()).absolute()
    with places.held(_servers_lock(folder)):
        for _ in range(TRIES):
            if stop_if_unused(folder):
                return True
            time.sleep(0.05)  # the janitor holds the lock for a moment when it wakes
        return False


def _leave(folder: Path) -> None:
    # The shared lock becomes the only one without being given up in between: the janitor,
    # which waits for just that, would otherwise get it first, and the caller go on too early.
    if not stop_if_unused(folder):
        places.release(_users_lock(folder))


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


def _watch(folder: Path, *, durable: bool) -> None:
    if processes.is_alive(read_state(folder).get("janitor")):
        return
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
    write_state(folder, janitor=processes.kept(child))


def _notes(folder: Path, storage: Path, account: Account) -> list[str]:
    if storage == folder:
        return []
    moved = f"The user {account.name!r}, as whom Postgres runs, cannot enter {folder}, "
    return [moved + f"so the database lies in {storage}."]


def _users_lock(folder: Path) -> Path:
    return folder / "users.lock"


def _servers_lock(folder: Path) -> Path:
    return folder / "servers.lock"
