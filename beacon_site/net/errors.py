"""The kinds of failure of outside services, and a time limit for calls that people wait for.

Callers decide by the kind: `ProviderUnavailable` can be retried, `ProviderRejected` can't.  The
message is written for the person who reads the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar


class ProviderError(Exception):
    """An outside service failed; the message is written for people.

    The tokens were spent by a model that failed, and are billed anyway.
    """

    prompt_tokens = 0
    completion_tokens = 0


class ProviderUnavailable(ProviderError):
    """The service couldn't answer: down, slow or rate limited.  Retrying later can help."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        """`retry_after` is in seconds, if the service named a time."""
        super().__init__(message)
        self.retry_after = retry_after


class ServiceUnreachable(ProviderUnavailable):
    """There was no connection: unknown host, nothing listening, or no network."""


class ProviderRejected(ProviderError):
    """The service won't do this, now or later: bad key, bad request, forbidden URL."""


class ServiceRefused(ProviderRejected):
    """The service refuses every request: no key, a wrong one, a used-up plan, no URL."""


class ToolsRefused(ProviderRejected):
    """The model can't use tools; it may answer the same question without them."""


class ProviderNonsense(ProviderRejected):
    """A model answered, but not as asked; its text and tokens are kept."""

    def __init__(
        self, message: str, *, text: str = "", prompt_tokens: int = 0, completion_tokens: int = 0
    ) -> None:
        super().__init__(message)
        self.text = text
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens


# --- time limit for calls that people wait for ---

T = TypeVar("T")


def ended_within(seconds: float, call: Callable[[], T]) -> T:
    """Return what `call` returns; raises what it raises, and TimeoutError after `seconds`.

    The call then ends by itself, since looking up a host can hang beyond a client's limits.
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
