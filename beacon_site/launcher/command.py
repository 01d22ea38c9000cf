"""The `beacon` command: manage.py, and the commands that run Beacon as a whole, such as `up`.

For `up`, Beacon is loaded here once, and its processes begin as forks (forking.py), also later ones.
Everything that needs the database happens in another child, so that this process has no connection.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any

from honcho.printer import Message, Printer

import beacon_site
from beacon_site import embedded
from beacon_site.embedded import NO_SERVERS, places, processes, servers_for
from beacon_site.embedded.places import MAKE, PROJECT, note, prepare, read_state
from beacon_site.launcher import forking, runner


class JsonPrinter(Printer):  # type: ignore[misc]
    """honcho's printer for a JSON log: no column of names, and every line is an object."""

    def write(self, message: Message) -> None:
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
    from beacon_site.text.redaction import redact_line

    values = {
        "timestamp": message.time.astimezone(UTC).isoformat(),
        "level": "info",
        "event": redact_line(line) if message.name not in OWN else line,
        "process": message.name or "",
    }
    return json.dumps(values)


# Lines from Beacon itself.  They aren't redacted, so that the one-time link stays readable.
OWN = ("beacon", "system")


# --- the commands of Beacon as a whole ---

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
    _stop_by_signals()
    if _end_leftovers(folder):
        print("Stopped processes left over from a Beacon instance that was killed.", flush=True)
    os.environ.setdefault("BEACON_MIRROR_DIR", str(folder / "memory"))
    missing = tuple(name for name in NO_SERVERS if not os.environ.get(name, "").strip())
    if is_first:  # otherwise nothing is printed before the processes start
        print("Creating the database (first start only, up to a minute)…", flush=True)
    # On macOS, a fork that doesn't start another program can crash in the system's libraries.
    forks = sys.platform == "linux"
    with forking.loading_libraries(runner.LOADED) if forks else contextlib.nullcontext():
        servers = embedded.ensure(folder, need=missing)
    with _until_stopped(folder, servers):
        os.environ |= servers.urls
        for line in servers.notes:
            print(line, flush=True)
        site = _loaded() if forks else _prepared()
        own = {"pid": os.getpid(), "process": processes.identity(os.getpid())}
        # `mirror` is for commands, which are started without it.
        note(folder, up={**own, "url": site["url"], "mirror": site["mirror"]})
        if not forks:
            return _manager(folder, began, site).run()
        with forking.ports_and_counts(site["bind"], site["port"]) as ports:
            return _manager(folder, began, site, ports).run()


def _stop_by_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


@contextlib.contextmanager
def _until_stopped(folder: Path, servers: embedded.Servers) -> Iterator[None]:
    """Stop everything at the end of the block."""
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # stopping must not be interrupted
        _end_leftovers(folder)
        servers.close()
        note(folder, up=None)
        print("Beacon has stopped.", flush=True)


def _prepared() -> dict[str, Any]:
    with _Preparation() as preparation:
        return preparation.result()


def _loaded() -> dict[str, Any]:
    """Return the same, and load Beacon in this process at the same time."""
    forking.load_django()
    with _Preparation() as preparation:
        forking.load_rest()
        site = preparation.result()
    forking.finish_loading()
    return site


def _manager(
    folder: Path, began: float, site: dict[str, Any], ports: list[socket.socket] | None = None
) -> runner.Runner:
    """Return the runner of this Beacon's processes, which aren't started yet.

    With `ports`, they begin as forks.
    """

    def ready() -> list[str]:
        first = f"Beacon is ready at {site['url']} (in {runner.seconds_since(began)})."
        return [first, *site["lines"], f"Your data is in {folder}. Press Ctrl-C to stop."]

    printer = JsonPrinter(sys.stdout) if site["is_json"] else None
    manager = runner.Runner(folder, tuple(site["livez"]), ready, printer)
    schedule = folder / "celerybeat-schedule"
    few = runner.few_commands(site["bind"], site["port"], schedule)
    if not ports:
        for name, (arguments, environment) in few.items():
            manager.add(name, arguments, environment)
        return manager
    (web, for_web), (worker, for_worker) = few["web"], few["worker"]
    pages = partial(forking.serve_pages, arguments=web[web.index("gunicorn") + 1 :], pages=ports[0])
    manager.add("web", web, for_web, partial(pages, "web"), ports)
    if runner.web_processes() > 1:
        extra = partial(pages, "web-2", is_extra=True)
        manager.add("web-2", web, for_web, extra, ports, is_extra=True)
    work = partial(forking.work, worker[worker.index("-m") + 1 :])
    manager.add("worker", worker, for_worker, work)
    return manager


class _Preparation:
    """A child that checks the settings and migrates the database, while this process loads."""

    def __enter__(self) -> _Preparation:
        self._told, writing = os.pipe()
        self._child = os.fork()
        if not self._child:
            os.close(self._told)
            _prepare_as_child(writing)
        os.close(writing)
        return self

    def result(self) -> dict[str, Any]:
        """Return the result of `preparation.prepared`.  Raises CannotStart."""
        with os.fdopen(os.dup(self._told), "rb") as buffered_reader:
            text = buffered_reader.read()
        if not text:
            raise CannotStart("The database couldn't be prepared. The reason is above.")
        site: dict[str, Any] = json.loads(text)
        if "why_not" in site:
            raise CannotStart(site["why_not"])
        return site

    def __exit__(self, *error: object) -> None:
        os.close(self._told)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)


def _prepare_as_child(writing: int) -> None:
    status = 1
    try:
        from beacon_site.launcher import preparation

        text = json.dumps(preparation.prepared(), default=str).encode()
        with os.fdopen(writing, "wb") as out:
            out.write(text)
        status = 0
    finally:
        kind, error, trace = sys.exc_info()
        if kind is not None and error is not None and kind is not KeyboardInterrupt:
            sys.excepthook(kind, error, trace)
        sys.stdout.flush()
        os._exit(status)  # the parent's locks and servers stay


def _end_leftovers(folder: Path) -> int:
    with places.file_lock(folder / "servers.lock"):
        return embedded.end_leftovers(folder)


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
    import django
    from django.conf import settings

    from beacon_site.launcher import preparation

    django.setup()
    try:
        link = preparation.prepare_site(production=settings.PRODUCTION)
    except preparation.CannotStart as exc:
        raise CannotStart(exc) from exc
    if link:
        print(f"Create your admin account (one-time link): {link}")
    return 0


def become(name: str) -> int:
    """Replace this process with one of the processes for several hosts, in the foreground."""
    from django.conf import settings

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


def _run_act(arguments: list[str]) -> int:
    """Run the act that the first argument names; return the exit code."""
    name = arguments[0]
    if len(arguments) > 1:
        print(f"usage: beacon {name}", file=sys.stderr)
        return 2
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")
    try:
        return ACTS[name]()
    except (CannotStart, embedded.EmbeddedError) as exc:
        why: Exception = exc
    except Exception as exc:
        # Django's error, by its name: `down` starts without Django.
        if type(exc).__name__ != "ImproperlyConfigured":
            raise
        why = exc
    except KeyboardInterrupt:
        return 0
    print(why, file=sys.stderr)
    return 1


# --- the command ---

HELP = """Beacon {version}: see, search, correct and trust what your AI agent remembers.

  beacon up                    start Beacon and print its address (Ctrl-C stops it)
  beacon down                  stop Beacon from another terminal
  beacon first_account_link    create a one-time link for the first account
  beacon research TOPIC        run a topic (--sample: the sample topic, --wait: wait until it's done)
  beacon backup FILE           save all data to one file, even while Beacon is running
  beacon restore FILE          replace all data with a backup
  beacon verify [--fix]        check that the stored data is consistent, and fix it
  beacon mcp --stdio           run the MCP server for an app on this machine
  beacon help [COMMAND]        list all commands, or explain one
  beacon --version

For a service manager, each in the foreground: beacon prepare|web|worker|upkeep|beat|mcp

Data folder: {folder}
(Set BEACON_DATA_DIR to change it. Settings can go in its beacon.env file.)"""


def main() -> int:
    arguments = sys.argv[1:]
    name = arguments[0] if arguments else "--help"
    if name in {"-h", "--help"}:
        print(HELP.format(version=beacon_site.__version__, folder=embedded.data_dir()))
        return 0
    if name in {"-V", "--version", "version"}:
        print(f"Beacon {beacon_site.__version__}")
        return 0
    # `mcp` is also a management command, with its own options and servers.
    if name in ACTS and name != "mcp":
        return _run_act(arguments)
    if arguments == ["mcp"]:
        os.environ.setdefault("BEACON_PROCESS", "mcp")
    manage(["beacon", *arguments])
    return 0


def manage(words: list[str]) -> None:
    """Run a management command, with the embedded servers if no URL is set."""
    from django.core.management import execute_from_command_line

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")
    try:
        with servers_for(words[1:]):
            execute_from_command_line(words)
    except embedded.EmbeddedError as exc:
        sys.exit(str(exc))


if __name__ == "__main__":
    sys.exit(main())
