"""The heartbeat of long work: a thread that keeps renewing its lease."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from django.db import DatabaseError, InterfaceError, connection

logger = structlog.get_logger(__name__)

BEAT_SECONDS = 10.0  # reliability.md 1.1


class Heartbeat:
    """Calls `beat` every BEAT_SECONDS during the block; a killed worker renews nothing.

    `beat` renews the lease.  It returns False if another worker has taken over; then it isn't
    called again and `is_lost` is True.
    """

    def __init__(self, beat: Callable[[], bool], *, name: str) -> None:
        self._beat = beat
        self._name = name
        self._ended, self._lost = threading.Event(), threading.Event()
        self._thread = threading.Thread(
            target=self._keep_beating, name=f"heartbeat-{name}", daemon=True
        )

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self.wait(5)

    @property
    def is_lost(self) -> bool:
        """Whether another worker has taken over the work."""
        return self._lost.is_set()

    def wait(self, seconds: float) -> None:
        """Wait until the beats have ended, at most for the given seconds."""
        self._thread.join(timeout=seconds)

    def _keep_beating(self) -> None:
        try:
            while not self._ended.wait(BEAT_SECONDS):
                try:
                    if not self._beat():
                        self._lost.set()
                        return
                except (DatabaseError, InterfaceError) as exc:
                    # The next beat tries again; if all fail, the lease expires.
                    logger.warning("heartbeat failed", of=self._name, error=str(exc))
                    connection.close()
        finally:
            connection.close()
