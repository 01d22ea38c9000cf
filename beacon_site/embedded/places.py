"""What the embedded servers say when they cannot be had."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beacon_site.embedded import installed


class EmbeddedError(RuntimeError):
    """A server could not be found, started or stopped; the text says why and what to do."""


# --- Locks between processes on files of the data folder ---

_open: dict[Path, int] = {}


def descriptor(path: Path) -> int:
    """Open the lock file, once per process; the lock then works even if the folder is removed."""
    if path not in _open:
        _open[path] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return _open[path]


def take(path: Path, *, shared: bool = False, wait: bool = True) -> bool:
    """Lock `path` for this process; with `wait=False` return whether it could be had at once."""
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.lockf(descriptor(path), how if wait else how | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def release(path: Path) -> None:
    """Give the lock on `path` back."""
    fcntl.lockf(descriptor(path), fcntl.LOCK_UN)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold `path` alone for the length of the block."""
    take(path)
    try:
        yield
    finally:
        release(path)


# --- places ---


def data_dir() -> Path:
    """Return the data folder as an absolute path: BEACON_DATA_DIR, else the usual one.

    The folder need not exist yet.
    """
    named = os.environ.get("BEACON_DATA_DIR", "").strip()
    return Path(named).expanduser().absolute() if named else installed.usual_data_dir()


def load_env_file() -> None:
    """Put what `beacon.env` of the data folder says into the environment; the process wins.

    What the process has as an empty text counts as unset, as in env.py: docker-compose.yml hands
    every variable on, most of them empty.
    Lines are `NAME=value`, a value may stand in quotes, `#` begins a comment line.
    Raises EmbeddedError with the line number for anything else.
    """
    path = data_dir() / "beacon.env"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as exc:
        raise EmbeddedError(f"{path} cannot be read: {exc}") from exc
    for name, value in _settings_in(text, path):
        if not os.environ.get(name, "").strip():
            os.environ[name] = value


def _settings_in(text: str, path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip().removeprefix("export ")
        if not stripped or stripped.startswith("#"):
            continue
        name, equals, value = stripped.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name.isidentifier():
            raise EmbeddedError(f"{path}, line {number}: expected NAME=value, a comment or nothing")
        if name == "BEACON_DATA_DIR":
            raise EmbeddedError(
                f"{path}, line {number}: BEACON_DATA_DIR says where this very file lies, "
                "so set it in the process's environment instead"
            )
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        yield name, value


def prepare(folder: Path) -> None:
    """Make the data folder, closed to others as far as the servers' own user allows it.

    Raises EmbeddedError if this user may not write there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # As root the servers run as another user, who must be able to pass through.
        folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    except OSError as exc:
        raise EmbeddedError(
            f"The data folder {folder} cannot be used ({exc.strerror}). It may have been made by "
            "another user: start Beacon as that one, or set BEACON_DATA_DIR to a folder of yours."
        ) from exc


def read_state(folder: Path) -> dict[str, Any]:
    """Return what the state file says; an absent or broken file is an empty state."""
    try:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def write_state(folder: Path, **changes: Any) -> None:
    """Merge `changes` into the state file (mode 0600, replaced in one step); None removes a key."""
    state = {**read_state(folder), **changes}
    state = {key: value for key, value in state.items() if value is not None}
    fresh = folder / f"state.json.{os.getpid()}"
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        json.dump(state, out, indent=1)
    if os.geteuid() == 0:
        # A folder that root only visits stays usable for its owner.
        owner = folder.stat()
        os.chown(fresh, owner.st_uid, owner.st_gid)
    fresh.replace(folder / "state.json")


def note(folder: Path, **changes: Any) -> None:
    """`write_state()`, taking turns with those who start and stop the servers."""
    with held(folder / "servers.lock"):
        write_state(folder, **changes)
