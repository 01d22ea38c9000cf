"""The system user that the servers run as, and the folder that this user can reach.

Postgres refuses to run as root.  So under root both servers become `postgres` or `nobody`, and
where that user cannot enter the data folder (a clone in a 0700 home) the database lies in
/var/lib/beacon-<hash> instead.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beacon_site.embedded.errors import EmbeddedError
from beacon_site.embedded.places import read_state

SYSTEM_STORAGE = Path("/var/lib")


@dataclass(frozen=True)
class Account:
    """Who runs the servers; `uid` is None when that is simply the user of this process."""

    name: str = ""
    uid: int | None = None
    gid: int | None = None

    def options(self, home: Path) -> dict[str, Any]:
        """Return the keyword arguments with which `subprocess` starts something as this user."""
        kept = ("PATH", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        options: dict[str, Any] = {"cwd": "/", "env": {**environment, "HOME": str(home)}}
        if self.uid is not None:
            environment.pop("TMPDIR", None)
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return options

    def owns(self, folder: Path) -> None:
        """Make `folder`, mode 0700, belong to this user."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.uid is not None and self.gid is not None:
            os.chown(folder, self.uid, self.gid)
        folder.chmod(0o700)

    def can(self, test: str, path: Path) -> bool:
        """Say whether this user passes the shell's `test` (-x, -r …) on `path`."""
        if self.uid is None:
            return True
        command = ["/bin/sh", "-c", 'test "$1" "$2"', "sh", test, str(path)]
        try:
            return subprocess.run(command, check=False, **self.options(Path("/"))).returncode == 0
        except (PermissionError, subprocess.SubprocessError) as exc:
            raise EmbeddedError(
                f"Root cannot become the user {self.name!r} here ({exc}), and Postgres refuses to "
                "run as root. Start Beacon as an ordinary user, or set DATABASE_URL and REDIS_URL."
            ) from exc


def storage_of(data_dir: Path) -> tuple[Path, Account]:
    """Return the folder for the servers' files and the user who runs them.

    A place that already holds a database is kept, whatever the folders' modes have become.
    """
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
                f"The database in {path.parent} belongs to {_name_of(entry.st_uid)}: start Beacon "
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
        "Postgres refuses to run as root, and this machine has neither a user 'postgres' nor "
        "'nobody'. Start Beacon as an ordinary user, or set DATABASE_URL and REDIS_URL."
    )


def described(options: Mapping[str, Any]) -> str:
    """Return the user of `Account.options()` in words, for a log line."""
    return _name_of(int(options["user"])) if "user" in options else "this user"
