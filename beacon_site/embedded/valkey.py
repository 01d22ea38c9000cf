"""The embedded Valkey: starting, checking and stopping it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from beacon_site.embedded import binaries, processes
from beacon_site.embedded.places import EmbeddedError
from beacon_site.embedded.processes import Account

START_SECONDS = 20.0
TRIES = 5


def url_of(entry: dict[str, Any]) -> str:
    """Return the REDIS_URL of a server described by its entry in the state file."""
    return f"redis://:{entry['password']}@127.0.0.1:{entry['port']}/0"


def answers(entry: dict[str, Any] | None) -> bool:
    """Return whether our own server, with our own password, answers."""
    if not entry or not processes.is_alive(entry.get("process")):
        return False
    return _pings(entry)


def start(
    storage: Path, account: Account, known: dict[str, Any], *, durable: bool = True
) -> dict[str, Any]:
    """Start the server on the folder in `storage`.

    Returns its entry for the state file: process, port, password.  Raises EmbeddedError.
    """
    program = binaries.valkey_server(storage, account)
    folder = storage / "valkey"
    account.owns(folder)
    entry: dict[str, Any] = {
        "password": str(known.get("password") or os.urandom(24).hex()),
        "port": known.get("port"),
    }
    for _ in range(TRIES):
        entry["port"] = processes.free_port(entry["port"])
        process = _launch(program, folder, account, entry, durable=durable)
        if process is not None:
            return {**entry, "process": process}
        time.sleep(0.2)
    raise EmbeddedError(
        f"The embedded Valkey server ({program}) didn't start. The end of its log:\n"
        + processes.end_of(storage / "valkey.log")
    )


def stop(entry: dict[str, Any] | None) -> None:
    """Stop the server; it saves its data first. By force after 10 s."""
    if entry and entry.get("process"):
        steps = ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0))
        processes.stop(str(entry["process"]), steps)


def _launch(
    program: Path, folder: Path, account: Account, entry: dict[str, Any], *, durable: bool
) -> str | None:
    """Start the server and wait until it answers; None if it ended by itself."""
    place = str(folder).replace("\\", "\\\\").replace('"', '\\"')
    lines = (
        "bind 127.0.0.1",
        f"port {entry['port']}",
        f"requirepass {entry['password']}",
        "databases 64",
        "daemonize no",
        "hz 1",  # its own chores, once a second instead of ten times
        f'dir "{place}"',
        "save 60 1" if durable else 'save ""',
        "appendonly no",
        # Keep accepting messages when the disk is full.  Everything important is in Postgres.
        "stop-writes-on-bgsave-error no",
    )
    with processes.private_log(folder.parent / "valkey.log") as log:
        child = subprocess.Popen(
            # By standard input, so that the password isn't in a file or the process list.
            [program, "-"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
            **account.options(folder),
        )
    assert child.stdin is not None  # noqa: S101 - tells the type checker what PIPE means  # nosec B101
    try:
        child.stdin.write("\n".join((*lines, "")).encode())
        child.stdin.close()
    except BrokenPipeError:
        child.wait()
        return None
    return processes.kept_once(child, lambda: _pings(entry), within=START_SECONDS)


def _pings(entry: dict[str, Any]) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", int(entry["port"])), timeout=2) as connection:
            connection.sendall(f"AUTH {entry['password']}\r\nPING\r\n".encode())
            heard = b""
            while heard.count(b"\r\n") < 2:
                part = connection.recv(512)
                if not part:
                    return False
                heard += part
    except OSError:
        return False
    return heard.startswith(b"+OK\r\n+PONG")
