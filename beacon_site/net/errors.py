"""The two kinds of failure that an outside service has, and the one that a model adds.

Whoever calls a provider decides by the kind alone: `ProviderUnavailable` may be tried again,
`ProviderRejected` may not.  The message is written for the person who reads the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar


class ProviderError(Exception):
    """Something outside did not do what was asked; the message is fit for a person.

    The tokens are what a model that failed had spent, which is paid for all the same.
    """

    prompt_tokens = 0
    completion_tokens = 0


class ProviderUnavailable(ProviderError):
    """The service could not answer now: down, slow, limited.  Trying later may help."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        """`retry_after` is in seconds, where the service named a time."""
        super().__init__(message)
        self.retry_after = retry_after


class ServiceUnreachable(ProviderUnavailable):
    """No connection came about: the name is not known, nobody listens there, or no network."""


class ProviderRejected(ProviderError):
    """The service will not do this, now or later: bad key, bad request, forbidden address."""


class ServiceRefused(ProviderRejected):
    """The service refuses whatever it is asked: no key, a wrong one, a used-up plan, no address."""


class ToolsRefused(ProviderRejected):
    """A model that cannot be offered tools; the same question without them may be answered."""


class ProviderNonsense(ProviderRejected):
    """A model answered, but not with what was asked; what it said and spent is kept."""

    def __init__(
        self, message: str, *, text: str = "", prompt_tokens: int = 0, completion_tokens: int = 0
    ) -> None:
        super().__init__(message)
        self.text = text
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens


# --- Ending a call for which a person waits, however it hangs ---

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
