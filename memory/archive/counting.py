"""An archive on its way into an account, and what was counted of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.archive.ids import Ids
from memory.models import User

MOST_WHYS = 5  # examples of refused rows of one kind


@dataclass(slots=True)
class Counted:
    """What became of the rows of one kind."""

    new: int = 0
    identical: int = 0
    differing: int = 0
    refused: int = 0
    whys: list[str] = field(default_factory=list)

    def refuse(self, number: int, why: str) -> None:
        """Count a row that is not taken in, and keep the reason of the first few."""
        self.refused += 1
        if len(self.whys) < MOST_WHYS:
            self.whys.append(_("line %(line)d: %(why)s") % {"line": number, "why": why})


@dataclass(slots=True)
class TakingIn:
    """One archive on its way into an account.

    `is_own` says that the person made it themselves: who wrote what and how far it is believed
    stays as it is.  What a stranger made is `external`, and its source says where it came from.
    """

    owner: User
    by: Actor
    name: str
    is_own: bool
    tell: Callable[[int], object] = lambda done: None
    ids: Ids = field(init=False)
    counts: dict[str, Counted] = field(default_factory=dict)
    # Of the rows taken in: those that something is done with at the end, and their links.
    fresh: dict[str, list[Any]] = field(default_factory=dict)
    links: dict[tuple[str, str], dict[Any, Any]] = field(default_factory=dict)
    done: int = 0

    def __post_init__(self) -> None:
        self.ids = Ids(self.owner)

    @property
    def source(self) -> str:
        """Return the text that names a stranger's archive as where a record came from."""
        return f"import:{self.name}"[:200]


def summed(counts: dict[str, Counted]) -> Counter[str]:
    """Return the counts of all kinds together."""
    names = ("new", "identical", "differing", "refused")
    return Counter({name: sum(getattr(one, name) for one in counts.values()) for name in names})
