"""Carrying calls out in parallel threads while their caller looks at other things."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog
from django.db import connection

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What became of one of several calls: its place among them, and its result or failure."""

    place: int
    get: Callable[[], T]
    failure: BaseException | None


def outcomes(
    calls: Sequence[Callable[[], T]], threads: int, look: Callable[[], bool]
) -> Iterator[list[Outcome[T]]]:
    """Carry the calls out in so many threads; yield together what came at the same time.

    `look` is called several times a second, in the caller's thread; where it says False no further
    outcome is yielded and what has not begun is dropped.  What is under way ends by its own limits.
    """
    pool = ThreadPoolExecutor(max_workers=threads)
    ids = structlog.contextvars.get_contextvars()  # of the caller, for the lines that are logged
    futures = {pool.submit(_in_thread, call, ids): place for place, call in enumerate(calls)}
    try:
        while futures:
            ready = [future for future in futures if future.done()]
            if ready:
                yield [
                    Outcome(futures.pop(future), future.result, future.exception())
                    for future in ready
                ]
            if not look():
                return
            if futures and not ready:
                wait(futures, timeout=0.2, return_when=FIRST_COMPLETED)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _in_thread(call: Callable[[], T], ids: dict[str, Any]) -> T:
    """Carry out `call` in a pool's thread, which must not leave a database connection behind."""
    try:
        with structlog.contextvars.bound_contextvars(**ids):
            return call()
    finally:
        connection.close()
