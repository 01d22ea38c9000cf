"""The errors of the client: Beacon can't be reached, or refuses a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class BeaconError(Exception):
    """The base class of all errors of this client."""


class NotReached(BeaconError):
    """There was no response, or it didn't come from Beacon. A retry can help."""


class Refused(BeaconError):
    """Beacon refused the call. The message is Beacon's.

    `errors` has the reasons by field, `retry_after` the seconds to wait before a retry (0: waiting
    doesn't help), and `location` the URL of the conflicting item.
    """

    def __init__(
        self,
        status: int,
        problem: Mapping[str, Any],
        *,
        retry_after: int = 0,
        location: str = "",
    ) -> None:
        detail = str(problem.get("detail") or problem.get("title") or "refused")
        self.errors: dict[str, list[str]] = dict(problem.get("errors") or {})
        by_field = "; ".join(f"{name}: {' '.join(why)}" for name, why in self.errors.items())
        super().__init__(
            f"{detail} ({by_field})" if by_field and by_field not in detail else detail
        )
        self.status = status
        self.problem = dict(problem)
        self.retry_after = retry_after
        self.location = location
