"""A process of the web server of `make up`: one of gunicorn's workers, with the launcher as its parent.

gunicorn's own main process isn't needed, because the launcher opens the ports and starts processes.
If a process is busy, it asks the launcher for an extra one, which ends after some minutes of rest.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

from gunicorn.app.wsgiapp import WSGIApplication  # type: ignore[import-untyped]
from gunicorn.workers.gthread import ThreadWorker  # type: ignore[import-untyped]

ASK = signal.SIGUSR1  # for an extra process
ASK_SECONDS = 30.0  # between two signals
LOOK_SECONDS = 2.0
BUSY, RESTING = 0.5, 0.1  # share of a core
# Beside other programs, a busy process gets less of a core, and requests wait for each other.
BUSY_IN_COMPANY, CROWD = 0.25, 3
REST_SECONDS = 300.0  # after which an extra process ends
FROZEN_SECONDS = 60.0  # without a look, because a thread keeps the interpreter's lock


class PageWorker(ThreadWorker):  # type: ignore[misc]
    """gunicorn's worker of threads, which measures how busy it is."""

    def __init__(self, *args: Any, is_extra: bool = False) -> None:
        super().__init__(*args)
        self._is_extra = is_extra
        self._most_kept: int = self.cfg.worker_connections - self.cfg.threads  # as in ThreadWorker
        self._asked_at = -ASK_SECONDS
        self._looked_at = self._worked_at = time.monotonic()
        self._spent = time.process_time()

    def notify(self) -> None:
        """Look at the load. gunicorn calls this at least once a second."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        spent = time.process_time()
        load = (spent - self._spent) / (now - self._looked_at)
        self._looked_at, self._spent = now, spent
        # A thread in C then ends this process, and the launcher starts another.
        faulthandler.dump_traceback_later(FROZEN_SECONDS, exit=True, file=2)
        if load > RESTING:
            self._worked_at = now
        requests = self.nr_conns - len(self.keepalived_conns) - len(self.pending_conns)
        self._share(load > (BUSY_IN_COMPANY if requests >= CROWD else BUSY))
        if self._is_extra and now - self._worked_at > REST_SECONDS:
            self.log.info("Extra process isn't needed any longer")
            self.alive = False

    def _share(self, is_busy: bool) -> None:
        """While busy, ask for an extra process, and let the other process have the connections.

        A client stays with the process that accepted its connection, so one process could serve
        most clients while the other rests.  While a process is busy, each of its connections closes
        with the next response.  The clients open others, which the process with more time accepts.
        """
        self.max_keepalived = 0 if is_busy else self._most_kept
        is_due = self._looked_at - self._asked_at >= ASK_SECONDS
        if is_busy and is_due and not self._is_extra and os.getppid() == self.ppid:
            self._asked_at = self._looked_at
            os.kill(self.ppid, ASK)


def serve(arguments: list[str], listeners: Sequence[socket.socket], *, is_extra: bool) -> None:
    """Serve pages until a signal; `arguments` are those of the command `gunicorn`."""
    sys.argv = ["gunicorn", *arguments]
    app = WSGIApplication("%(prog)s [OPTIONS] [APP_MODULE]", prog="gunicorn")
    log = app.cfg.logger_class(app.cfg)
    parts = (1, os.getppid(), listeners, app, app.cfg.timeout, app.cfg, log)
    worker = PageWorker(*parts, is_extra=is_extra)
    worker.pid = os.getpid()
    try:
        worker.init_process()
    finally:
        faulthandler.cancel_dump_traceback_later()
        worker.tmp.close()
        app.cfg.worker_exit(None, worker)
