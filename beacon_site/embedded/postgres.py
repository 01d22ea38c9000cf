"""The embedded Postgres: creating its cluster, starting, checking and stopping it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from beacon_site.embedded import binaries, processes
from beacon_site.embedded.places import EmbeddedError
from beacon_site.embedded.processes import Account

ROLE = DATABASE = "beacon"
# After kill -9 the old backends hold the shared memory until they notice, which took up to 20 s.
START_SECONDS = 60.0
RETRY_SECONDS = 20.0
# Seconds between a process's start and the start time the server records, including clock drift.
START_DIFFERENCE = 60.0
LARGE = 8e9  # bytes; a machine with more memory gets larger buffers
# With a million notes, a search takes a fifth less time if the index stays in the buffers. But
# Postgres uses 20 MB of memory for each GB of buffers, even if they are empty.
BUFFERS_SHARE, MAX_BUFFERS = 16, 2_000  # the share of the memory; MB
QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
INITDB = ("-N", "-U", ROLE, "-E", "UTF8", "-A", "scram-sha-256")
LOCALES = (
    ["--locale=C.UTF-8"],
    ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"],
)


def url_of(entry: dict[str, Any]) -> str:
    """Return the DATABASE_URL of a server described by its entry in the state file."""
    return f"postgresql://{ROLE}:{entry['password']}@127.0.0.1:{entry['port']}/{DATABASE}"


def answers(entry: dict[str, Any] | None) -> bool:
    """Return whether our own server, with our own password, answers a query."""
    if not entry or not processes.is_alive(entry.get("process")):
        return False
    import psycopg  # needs 10 MB, and the janitor never gets here

    try:
        with psycopg.connect(url_of(entry), connect_timeout=3) as connection:
            connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def start(
    storage: Path, account: Account, known: dict[str, Any], *, durable: bool = True
) -> dict[str, Any]:
    """Start the server on the cluster in `storage`, which is created if it doesn't exist.

    Returns its entry for the state file: process, port, password.  `known` is the entry of
    the last start, whose port and password are reused.  Raises EmbeddedError.
    """
    programs = binaries.postgres_bin(storage, account)
    cluster = storage / "postgres"
    password = str(known.get("password") or os.urandom(24).hex())
    if not (cluster / "PG_VERSION").exists():
        _initialise(programs, cluster, account, password)
    else:
        _check_version(programs, cluster, account)
        _end_leftover(cluster)
        if not known.get("password"):
            _set_password(programs, cluster, account, password)
    entry: dict[str, Any] = {"password": password, "port": known.get("port")}
    give_up = time.monotonic() + RETRY_SECONDS
    while True:
        entry["port"] = processes.free_port(entry["port"])
        process = _launch(programs, cluster, account, entry, durable=durable)
        if process is not None:
            entry["process"] = process
            _make_database(entry)
            return entry
        if time.monotonic() > give_up:
            raise EmbeddedError(
                f"The embedded Postgres in {cluster} didn't start. The end of its log:\n"
                + processes.end_of(storage / "postgres.log")
            )
        time.sleep(0.5)


def stop(entry: dict[str, Any] | None) -> None:
    """Stop the server with a fast shutdown, an immediate one after 20 s, and by force after 5 s more."""
    if entry and entry.get("process"):
        steps = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))
        processes.stop(str(entry["process"]), steps)


def _initialise(programs: Path, cluster: Path, account: Account, password: str) -> None:
    import tempfile  # imported here, since the janitor doesn't need it

    # Created under another name, so that a kill halfway doesn't leave an incomplete cluster.
    fresh = cluster.with_name("postgres.new")
    text = ""
    for locale in LOCALES:
        shutil.rmtree(fresh, ignore_errors=True)
        account.owns(fresh)
        with tempfile.NamedTemporaryFile("w", prefix="beacon-") as secret:
            secret.write(password + "\n")
            secret.flush()
            if account.uid is not None and account.gid is not None:
                shutil.chown(secret.name, account.uid, account.gid)
            result = subprocess.run(
                [programs / "initdb", "-D", fresh, *INITDB, f"--pwfile={secret.name}", *locale],
                capture_output=True,
                text=True,
                check=False,
                **account.options(fresh),
            )
        if result.returncode == 0:
            fresh.rename(cluster)
            return
        text = result.stderr.strip()
    raise EmbeddedError(f"initdb couldn't create a database in {fresh}:\n{text}")


def _check_version(programs: Path, cluster: Path, account: Account) -> None:
    made_by = (cluster / "PG_VERSION").read_text(encoding="ascii").strip()
    said = subprocess.run(
        [programs / "postgres", "--version"],
        capture_output=True,
        text=True,
        check=False,
        **account.options(cluster),
    ).stdout
    version = said.partition("(PostgreSQL)")[2].strip()
    if version.partition(".")[0] != made_by:
        raise EmbeddedError(
            f"The database in {cluster} was created by Postgres {made_by}, but this machine has "
            f"{said.strip() or 'an unknown version'}. Install Postgres {made_by}, or export your data there "
            "and import it into a new data folder (BEACON_DATA_DIR)."
        )


def _end_leftover(cluster: Path) -> None:
    """Stop a server that still runs on the cluster but can't be used, or delete its pid file.

    After a crash or a restart of the machine, the number in postmaster.pid can belong to any other
    process, even to another Postgres.  So only the server that wrote the file is signaled.  Raises
    EmbeddedError if the server doesn't stop, or if it can't be identified.
    """
    mark = cluster / "postmaster.pid"
    try:
        lines = mark.read_text(encoding="utf-8").splitlines()
        pid = int(lines[0])
    except (OSError, ValueError, IndexError):
        return
    process = processes.identity(pid)
    if process is not None and _serves(pid, cluster):
        if not _wrote(pid, lines):
            raise EmbeddedError(
                f"A Postgres server (process {pid}) is running in {cluster}, but it isn't the one "
                "described in its postmaster.pid, so Beacon didn't stop it. If nothing else uses "
                f"that folder, stop it with `kill -INT {pid}` and start Beacon again."
            )
        stop({"process": process})
        if processes.is_alive(process):
            raise EmbeddedError(
                f"An earlier Postgres server (process {pid}) is still running in {cluster} and can't be "
                f"stopped. Stop it with `kill -INT {pid}` and start Beacon again."
            )
    # Postgres mistakes a zombie or any other process with that number for a running server.
    mark.unlink(missing_ok=True)


def _serves(pid: int, cluster: Path) -> bool:
    """Return whether the process is a Postgres on this cluster, by its -D or its current folder."""
    words = processes.command_of(pid)
    if not words or "postgres" not in words[0]:
        return False
    # A server changes to its cluster when it starts.
    if _is_same(processes.folder_of(pid), cluster):
        return True
    if len(words) == 1:  # ps shows all as one text
        return words[0].endswith(f" -D {cluster}")
    return "-D" in words[:-1] and _is_same(Path(words[words.index("-D") + 1]), cluster)


def _is_same(folder: Path | None, cluster: Path) -> bool:
    try:
        return folder is not None and folder.is_absolute() and folder.samefile(cluster)
    except OSError:
        return False


def _wrote(pid: int, lines: list[str]) -> bool:
    """Return whether the process started at the time in line 3 of postmaster.pid."""
    started = processes.started_at(pid)
    try:
        return started is not None and abs(started - int(lines[2])) <= START_DIFFERENCE
    except (ValueError, IndexError):
        return False


def _set_password(programs: Path, cluster: Path, account: Account, password: str) -> None:
    # The state file was lost.  Only the server's single-user mode needs no password.
    done = subprocess.run(
        [programs / "postgres", "--single", "-D", cluster, "postgres"],
        input=f"ALTER ROLE {ROLE} PASSWORD '{password}'\n",
        capture_output=True,
        text=True,
        check=False,
        **account.options(cluster),
    )
    if done.returncode != 0:
        raise EmbeddedError(
            f"The password for the database in {cluster} was lost and couldn't be reset:\n"
            + done.stderr.strip()
        )


def _launch(
    programs: Path, cluster: Path, account: Account, entry: dict[str, Any], *, durable: bool
) -> str | None:
    """Start the server and wait until it answers; None if it ended by itself."""
    options = {
        "port": str(entry["port"]),
        "listen_addresses": "'127.0.0.1'",
        "unix_socket_directories": "''",
        "password_encryption": "'scram-sha-256'",  # how Postgres hashes, and no password  # nosec B105
        "max_connections": "100",
        "timezone": "'UTC'",
        **_frugal(cluster),
        **({} if durable else QUICK),
    }
    # Root wrote it and the server reads it.  Only the contents change, not the owner.
    with (cluster / "postgresql.auto.conf").open("w", encoding="utf-8") as conf:
        conf.writelines(f"{name} = {value}\n" for name, value in options.items())
    with processes.private_log(cluster.parent / "postgres.log") as log:
        child = subprocess.Popen(
            [programs / "postgres", "-D", cluster],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            **account.options(cluster),
        )
    return processes.kept_once(child, lambda: _accepts(entry), within=START_SECONDS)


def _frugal(cluster: Path) -> dict[str, str]:
    """Return the settings that save time, processes and memory. A small machine gets smaller buffers."""
    options = {
        "jit": "off",
        "max_logical_replication_workers": "0",
        "wal_buffers": "'4MB'",  # with large shared buffers, the default of 16 MB is soon in use
        "max_pred_locks_per_transaction": "10",  # no transaction here is SERIALIZABLE
        # For SSDs. With the default of 4, Postgres reads the whole search index of 100,000 notes
        # for a question of 20 words, because it considers that cheaper than looking up each word.
        "random_page_cost": "1.1",
    }
    version = (cluster / "PG_VERSION").read_text(encoding="ascii").strip()
    if int(version.partition(".")[0]) >= 18:
        options["io_method"] = "'sync'"  # without three processes that read ahead
    if processes.memory_bytes() > LARGE:
        buffers = min(MAX_BUFFERS, int(processes.memory_bytes() / BUFFERS_SHARE / 1e6))
        options["shared_buffers"] = f"'{buffers}MB'"
    if processes.memory_bytes() < processes.SMALL:
        options |= {"shared_buffers": "'32MB'", "max_parallel_workers_per_gather": "0"}
    return options


def _accepts(entry: dict[str, Any]) -> bool:
    import psycopg

    try:
        psycopg.connect(url_of(entry), dbname="postgres", connect_timeout=3).close()
    except psycopg.OperationalError:
        return False
    return True


def _make_database(entry: dict[str, Any]) -> None:
    import psycopg

    with (
        psycopg.connect(url_of(entry), dbname="postgres", autocommit=True) as connection,
        contextlib.suppress(psycopg.errors.DuplicateDatabase),
    ):
        connection.execute(f'CREATE DATABASE "{DATABASE}"')
