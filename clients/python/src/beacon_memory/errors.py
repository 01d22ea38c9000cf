"""What can go wrong: Beacon is not reached, or refuses and says why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class BeaconError(Exception):
    """Whatever went wrong between this program and Beacon."""


class NotReached(BeaconError):
    """Nobody answered, or what answered is no Beacon; it may be tried again."""


class Refused(BeaconError):
    """Beacon answered that it does not do this; the text is Beacon's own.

    `errors` has the reasons by field, `retry_after` the seconds after which it may be tried again
    (0: waiting does not help), `location` where what is in the way is found.
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
