"""`make up` and `beacon up`: start the servers, prepare the database, run all processes."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from datetime import UTC
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import django
from django.conf import settings  # loaded at first use, since it needs the servers' addresses
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command, get_commands
from django.db import DatabaseError, connections
from django.db.migrations.exceptions import InconsistentMigrationHistory
from honcho.printer import Message, Printer

from beacon_site import embedded, logs
from beacon_site.embedded import janitor, places, processes
from beacon_site.embedded.commands import NO_SERVERS
from beacon_site.embedded.installed import MAKE, PROJECT
from beacon_site.embedded.places import note, prepare, read_state
from beacon_site.launcher import runner
from beacon_site.logs import redact_line


class JsonPrinter(Printer):  # type: ignore[misc]
    """honcho's printer for a JSON log: no column of names, and every line is an object."""

    def write(self, message: Message) -> None:
        """Print the lines of a message."""
        data = message.data
        text = data.decode("utf-8", "replace") if isinstance(data, bytes) else str(data)
        for line in text.splitlines():
            if line.strip():
                print(_as_object(line, message), file=self.output, flush=True)


def _as_object(line: str, message: Message) -> str:
    """Return the line unchanged if it is an object, otherwise wrapped in one.

    Output that bypasses the log, such as a warning from the interpreter, isn't an object yet.
    """
    if line.startswith("{") and line.endswith("}"):
        return line
    said = {
        "timestamp": message.time.astimezone(UTC).isoformat(),
        "level": "info",
        "event": redact_line(line) if message.name not in OWN else line,
        "process": message.name or "",
    }
    return json.dumps(said)


# Lines from Beacon itself.  They aren't redacted, so that the one-time link stays readable.
OWN = ("beacon", "system")


# --- commands of `python -m beacon_site.launcher.up` ---

DOWN_SECONDS = 45.0


class CannotStart(RuntimeError):
    """Beacon can't start; the text says why and what to do."""


def up() -> int:
    """Run Beacon in the foreground until Ctrl-C or SIGTERM; return the exit code."""
    began = time.monotonic()
    folder = embedded.data_dir()
    os.environ["BEACON_DATA_DIR"] = str(folder)
    embedded.load_env_file()
    prepare(folder)
    if not places.take(folder / "up.lock", wait=False):
        other = read_state(folder).get("up")
        where = f"at {other['url']} (process {other['pid']})" if other else "and is still starting"
        raise CannotStart(
            f"Beacon is already running in {folder}, {where}. Use that one, stop it with "
            f"`{MAKE} down`, or set BEACON_DATA_DIR and BEACON_PORT to run a second one."
        )
    is_first = not read_state(folder)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    if _end_leftovers(folder):
        print("Stopped processes left over from a Beacon instance that was killed.", flush=True)
    os.environ.setdefault("BEACON_MIRROR_DIR", str(folder / "memory"))
    missing = tuple(name for name in NO_SERVERS if not os.environ.get(name, "").strip())
    if is_first:  # otherwise nothing is printed before the processes start
        print("Creating the database (first start only, up to a minute)…", flush=True)
    servers = embedded.ensure(folder, need=missing)
    try:
        os.environ |= servers.urls
        for line in servers.notes:
            print(line, flush=True)
        return _run(folder, began)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # stopping must not be interrupted
        _end_leftovers(folder)
        servers.close()
        note(folder, up=None)
        print("Beacon has stopped.", flush=True)


def _run(folder: Path, began: float) -> int:
    django.setup()
    _check_port(settings.BEACON_BIND, settings.BEACON_PORT, "BEACON_PORT")
    mcp = _mcp_in_words()
    link = _prepare_site(production=settings.PRODUCTION)
    mirror = settings.BEACON_MIRROR_DIR  # for commands, which are started without it
    own = {"pid": os.getpid(), "process": processes.identity(os.getpid())}
    note(folder, up={**own, "url": settings.BEACON_URL, "mirror": mirror})

    def ready() -> list[str]:
        lines = [f"Beacon is ready at {settings.BEACON_URL} (in {runner.seconds_since(began)})."]
        if link:
            lines.append(f"Create your admin account (one-time link): {link}")
        return [*lines, *_for_others(), *mcp, f"Your data is in {folder}. Press Ctrl-C to stop."]

    printer = JsonPrinter(sys.stdout) if settings.BEACON_LOG_FORMAT == logs.JSON else None
    url = f"http://{_local(settings.BEACON_BIND)}:{settings.BEACON_PORT}/livez"
    manager = runner.Runner(folder, url, ready, printer)
    schedule = folder / "celerybeat-schedule"
    processes_of = runner.commands(settings.BEACON_BIND, settings.BEACON_PORT, schedule)
    for name, (arguments, environment) in processes_of.items():
        if name != "mcp" or settings.BEACON_MCP_PORT:
            manager.add(name, arguments, environment)
    return manager.run()


def _end_leftovers(folder: Path) -> int:
    with places.held(folder / "servers.lock"):
        return janitor.end_leftovers(folder)


def _local(bind: str) -> str:
    """Return the host at which this machine reaches a server bound to `bind`."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(bind, bind)  # noqa: S104  (compared, not bound)  # nosec B104


def _mcp_in_words() -> list[str]:
    """Return the line about the MCP server.  Raises CannotStart if a configured port is in use.

    If the default port is in use, perhaps by another Beacon, only the MCP server waits for it.
    """
    bind, port = settings.BEACON_BIND, settings.BEACON_MCP_PORT
    if not port:
        return []
    try:
        _check_port(bind, port, "BEACON_MCP_PORT")
    except CannotStart:
        if os.environ.get("BEACON_MCP_PORT", "").strip():
            raise
        return [
            f"Port {port} is in use. The MCP server will start when it's free. To use another port, set BEACON_MCP_PORT."
        ]
    return [f"MCP server: http://{_local(bind)}:{port}/mcp (tokens: Agents → API tokens)"]


def _for_others() -> list[str]:
    """Return a hint if Beacon listens to other machines, but BEACON_URL doesn't name its host."""
    if urlsplit(settings.BEACON_URL).hostname not in ("0.0.0.0", "::"):  # noqa: S104  # nosec B104
        return []
    said = (
        "Other machines can connect, but Beacon won't respond to them until you set BEACON_URL "
        f"to the address that people use, such as http://nas.local:{settings.BEACON_PORT}."
    )
    return [said]


def _check_port(bind: str, port: int, variable: str) -> None:
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((bind, port))
            probe.listen(1)
    except OSError as exc:
        raise CannotStart(
            f"Beacon can't listen on {bind}, port {port}: {exc.strerror or exc}. Stop the program "
            f"that uses the port, or change {variable} (and BEACON_BIND)."
        ) from exc


def _prepare_site(*, production: bool) -> str:
    """Bring the database and the static files up to date; return the first account's link."""
    try:
        call_command("migrate", interactive=False, verbosity=0)
    except (DatabaseError, InconsistentMigrationHistory) as exc:
        server = settings.DATABASES["default"]
        raise CannotStart(
            f"The database {server['NAME']} at {server['HOST']}:{server['PORT']} couldn't be "
            f"updated: {str(exc).strip()} If it can't be reached, check DATABASE_URL. Otherwise "
            "another version of Beacon created it."
        ) from exc
    call_command("vectors", stdout=io.StringIO())
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)  # whitenoise warns without it
    if production:
        call_command("collectstatic", interactive=False, verbosity=0)
    link = io.StringIO()
    if "first_account_link" in get_commands():
        call_command("first_account_link", stdout=link, stderr=io.StringIO())
    connections.close_all()  # the runner forks, and processes must not share a connection
    return link.getvalue().strip()


def down() -> int:
    """Stop the Beacon of this data folder, and leftovers of a killed one; return the exit code."""
    folder = embedded.data_dir()
    if not folder.is_dir():
        print("Beacon isn't running. It has no data folder yet.")
        return 0
    runs = not places.take(folder / "up.lock", wait=False)
    if runs:
        # After a kill, the recorded process is gone or isn't Beacon's.
        mark = str((read_state(folder).get("up") or {}).get("process") or "")
        if not processes.is_alive(mark):
            raise CannotStart("Beacon is still starting. Try again in a moment.")
        if not processes.stop(mark, ((signal.SIGTERM, DOWN_SECONDS),)):
            pid = processes.pid_of(mark)
            raise CannotStart(f"Beacon (process {pid}) didn't stop within {DOWN_SECONDS:.0f} s.")
        places.take(folder / "up.lock")
    ended = _end_leftovers(folder)
    if not embedded.stop_servers(folder):
        print("A command is still using the embedded servers. They stop when it ends.")
    print("Beacon has stopped." if runs or ended else "Beacon wasn't running.")
    return 0


def prepare_site() -> int:
    """Migrate, collect static files, and print the first account's link if there is no account."""
    django.setup()
    if link := _prepare_site(production=settings.PRODUCTION):
        print(f"Create your admin account (one-time link): {link}")
    return 0


def become(name: str) -> int:
    """Replace this process with one of those that `make up` runs, in the foreground."""
    os.environ["BEACON_PROCESS"] = "worker" if name == "upkeep" else name
    os.environ["BEACON_DATA_DIR"] = str(settings.DATA_DIR)
    os.chdir(PROJECT)  # gunicorn and Celery import from the current folder
    schedule = settings.DATA_DIR / "celerybeat-schedule"
    arguments, own = runner.commands(settings.BEACON_BIND, settings.BEACON_PORT, schedule)[name]
    os.execve(arguments[0], arguments, {**os.environ, **own})  # noqa: S606


ACTS: dict[str, Callable[[], int]] = {
    "up": up,
    "down": down,
    "prepare": prepare_site,
    **{name: partial(become, name) for name in ("web", "worker", "upkeep", "beat", "mcp")},
}


def main(arguments: list[str]) -> int:
    """Run the command that the argument names; return the exit code."""
    name = arguments[0] if arguments else "up"
    if name not in ACTS or len(arguments) > 1:
        print(
            f"usage: beacon {'|'.join(ACTS)}, or python -m beacon_site.launcher.up …",
            file=sys.stderr,
        )
        return 2
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")
    try:
        return ACTS[name]()
    except (CannotStart, ImproperlyConfigured, embedded.EmbeddedError) as exc:
        print(f"Beacon: {exc}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
