"""Loading Beacon once, and starting its processes as forks that share what is loaded.

A process that loads Beacon by itself needs 130 MB, and three seconds of processor.  A fork has only
the thread that made it, so this process must have no other at that moment (runner.py).
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Protocol

from beacon_site.embedded import places, processes
from beacon_site.embedded.places import PROJECT

# What a web server or a worker loads when it starts.  LIBRARIES don't need the settings, and take about
# as long as the servers need to start.
LIBRARIES = (
    "celery.__main__", "celery.apps.worker", "celery.bin.celery", "django.db.models",
    "gunicorn.app.wsgiapp", "gunicorn.workers.gthread", "kombu.transport.redis", "psycopg_pool",
)  # fmt: skip
MODULES = (
    "anyio._backends._asyncio", "beacon_site.celery", "beacon_site.launcher.web_process",
    "django.contrib.messages.storage.session",
    "django.contrib.sessions.serializers", "gunicorn.glogging", "research.mcp.beside_pages",
    "research.mcp.server", "uvicorn.lifespan.on", "uvicorn.protocols.http.h11_impl",
)  # fmt: skip
KILLED_FIRST = 200  # thousandths of the memory that these seem to use, if it runs out
# The launcher handles these in its own way.
OWN_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1)
MALLOPT_ARENA_MAX, MAX_ARENAS = -8, 2  # glibc's constant, and as in runner.ONE_HEAP


@contextmanager
def loading_libraries(environment: dict[str, str]) -> Iterator[None]:
    """Load libraries in a thread during the block, with these variables, which some read."""
    os.environ |= environment
    # Only the prompt of `celery amqp` uses it. Importing it takes 6 MB and 0.1 s.
    prompt: Any = sys.modules.setdefault("click_repl", ModuleType("click_repl"))
    prompt.register_repl = lambda group: None
    gc.disable()  # until `finish_loading`: it would scan what stays, for 7 % of the processor time
    thread = threading.Thread(
        target=lambda: [import_module(name) for name in LIBRARIES], daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        thread.join()


def load_django() -> None:
    """Load the settings and the apps, without a connection or a thread; see `become`."""
    # Its metrics are then in files; `ports_and_counts` makes a folder for them.
    os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.gettempdir())
    warnings.filterwarnings("ignore", "You're running the worker with superuser privileges")
    os.chdir(PROJECT)  # gunicorn and Celery import from the current folder
    import django

    django.setup()


def load_rest() -> None:
    """Load everything else that a web server or a worker needs.

    No thread and no connection may be left, because a fork has a copy of one and not of the other.
    """
    modules: dict[str, Any] = {name: import_module(name) for name in MODULES}
    modules["beacon_site.celery"].app.loader.import_default_modules()
    # It loads the modules of all pages.
    import_module("django.core.checks.urls").check_url_config(None)


def finish_loading() -> None:
    """Load what depends on the static files, which were collected in the meantime."""
    import_module("beacon_site.wsgi")
    _compile_patterns()
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(MALLOPT_ARENA_MAX, MAX_ARENAS)
    processes.give_back_memory()  # 13 MB if Python compiled what it loaded
    gc.freeze()  # the collector then doesn't scan shared objects, so their memory isn't copied
    gc.enable()


def _compile_patterns() -> None:
    """Compile the patterns of all URLs and of secrets in log lines.

    Otherwise each web process would do so at its first request, which takes 0.2 s and 10 MB.
    """
    import_module("django.urls").get_resolver()._populate()
    import_module("beacon_site.text.redaction").redact_line("")


@contextmanager
def ports_and_counts(bind: str, port: int) -> Iterator[list[socket.socket]]:
    """Open the web server's ports, and keep the folder of its counts, for all its processes.

    Raises EmbeddedError if the port for pages has been taken since it was checked.
    """
    web_server = import_module("beacon_site.launcher.web_server")
    try:
        opened = import_module("research.mcp.server").listening(bind, port)
    except OSError as exc:
        raise places.EmbeddedError(f"Beacon can't listen on {bind}, port {port}: {exc}") from exc
    with closing(opened) as pages:
        mcp = import_module("research.mcp.beside_pages").open_port()
        web_server.make_place()
        try:
            yield [pages, *([mcp] if mcp else [])]
        finally:
            web_server.on_exit(None)
            if mcp:
                mcp.close()


def serve_pages(
    name: str, arguments: list[str], pages: socket.socket, *, is_extra: bool = False
) -> None:
    """Be a process of the web server; `arguments` are those after `python -m gunicorn`."""
    request_log: Any = import_module("beacon_site.web.request_log")
    request_log.process = name
    web_process = import_module("beacon_site.launcher.web_process")
    web_process.serve(arguments, [pages], is_extra=is_extra)


def work(arguments: list[str]) -> None:
    """Be the worker; `arguments` are those after `python -m`."""
    sys.argv = arguments
    import_module("celery.__main__").main()


class Fork:
    """A child of this process, with the parts of subprocess.Popen that we use."""

    def __init__(self, pid: int, output: int) -> None:
        """`output` is the end of the pipe from which its output is read."""
        self.pid = pid
        self.stdout: IO[bytes] = os.fdopen(output, "rb")

    def poll(self) -> int | None:
        """Return its status, negative after a signal; None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None


class Closable(Protocol):
    """A file or a socket."""

    def close(self) -> None:
        """Close it."""


def fork(
    name: str,
    main: Callable[[], None],
    environment: dict[str, str],
    back: int,
    others: Sequence[Closable],
) -> Fork:
    """Start a child that runs `main` as the head of a session, `back` steps nicer.

    It closes the files of `others`.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    # A signal to the child waits until the child handles it differently from this process.
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, OWN_SIGNALS)
    try:
        pid = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
        raise
    if not pid:
        status = 1
        try:
            os.close(reading)
            _become_head(writing, environment, back, others)
            signal.pthread_sigmask(signal.SIG_SETMASK, usual)
            _rename(f"beacon {name}")
            main()
            status = 0
        except SystemExit as exc:
            status = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
        finally:
            _end(status)
    signal.pthread_sigmask(signal.SIG_SETMASK, usual)
    os.close(writing)
    return Fork(pid, reading)


def _become_head(
    output: int, environment: dict[str, str], back: int, others: Sequence[Closable]
) -> None:
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in OWN_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for other in others:
        other.close()
    places.forget()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for given, count in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(given, count)
    os.close(nothing)
    os.close(output)
    with suppress(OSError, ValueError):  # another system
        score = Path("/proc/self/oom_score_adj")
        score.write_text(str(min(1000, int(score.read_text()) + KILLED_FIRST)))
    if back:
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(back))
        os.nice(back)
    os.environ.clear()
    os.environ.update(environment)
    become(environment.get("BEACON_PROCESS", ""))


def become(process: str) -> None:
    """Set what depends on the kind of process in settings that were loaded for a command."""
    settings: Any = import_module("django.conf").settings
    module = import_module("beacon_site.settings")
    settings.BEACON_PROCESS = process
    options = import_module("django.db").connections.settings["default"]["OPTIONS"]
    own = module.database_of(process)["OPTIONS"]
    options["options"] = own.get("options") or ""
    options |= {name: own[name] for name in ("pool",) if name in own}
    settings.LOGGING["root"]["level"] = module.log_level_of(process)  # gunicorn reads it, too
    logging.getLogger().setLevel(settings.LOGGING["root"]["level"])


def _rename(name: str) -> None:
    """Name this process in `top` and `ps -o comm` (Linux); its arguments are its parent's."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name)


def _end(status: int) -> None:
    """End as the interpreter does, but without returning to what called `Fork`."""
    error = sys.exc_info()
    if error[0] is not None and not issubclass(error[0], SystemExit):
        sys.excepthook(*error)
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)
