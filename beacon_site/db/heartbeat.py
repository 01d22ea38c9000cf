"""The heartbeat of work that takes long: a thread that renews its lease meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from django.db import DatabaseError, InterfaceError, connection

logger = structlog.get_logger(__name__)

BEAT_SECONDS = 10.0  # reliability.md 1.1


class Heartbeat:
    """Calls `beat` every BEAT_SECONDS while the block lasts; a killed worker renews nothing.

    `beat` renews the lease and returns False where another worker has the work by now: then it is
    not called again, and `is_lost` says so.
    """

    def __init__(self, beat: Callable[[], bool], *, name: str) -> None:
        self._beat = beat
        self._name = name
        self._ended, self._lost = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._go_on, name=f"heartbeat-{name}", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self.wait(5)

    @property
    def is_lost(self) -> bool:
        """Whether the work was found to be another worker's."""
        return self._lost.is_set()

    def wait(self, seconds: float) -> None:
        """Wait until no beat follows any more, at most for so many seconds."""
        self._thread.join(timeout=seconds)

    def _go_on(self) -> None:
        try:
            while not self._ended.wait(BEAT_SECONDS):
                try:
                    if not self._beat():
                        self._lost.set()
                        return
                except (DatabaseError, InterfaceError) as exc:
                    # The next beat tries again; if none comes through, the lease runs out.
                    logger.warning("heartbeat failed", of=self._name, error=str(exc))
                    connection.close()
        finally:
            connection.close()
