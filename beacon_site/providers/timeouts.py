"""Ending a call for which a person waits, however it hangs."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


def ended_within(seconds: float, call: Callable[[], T]) -> T:
    """Return what `call` returns; raises what it raises, and TimeoutError after `seconds`.

    It is left to end by itself then: a name that does not resolve hangs beyond a client's limits.
    """
    pool = ThreadPoolExecutor(max_workers=1)
    try:
        context = copy_context()  # with the person's language
        return pool.submit(context.run, call).result(timeout=seconds)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def ms_since(began: float) -> int:
    """Return the milliseconds since `began` (monotonic)."""
    return round((time.monotonic() - began) * 1000)
